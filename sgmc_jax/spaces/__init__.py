"""Spaces on which positions live.

A `Space` (space.py) tells a sampler what straight on means: its geodesic `flow`, with the velocity
at the end; what a gradient is there, and what a normal tangent vector. `Euclidean` is the space of
every sampler that names none, `Product` gives each part of a position a space. The others have
arrays for points, and are an `ArraySpace` each (array_space.py), which maps their mathematics over
leaves: `Sphere` and `Stiefel` with the metric of the space around them, `Simplex`, `Positive`,
`SPD` and `Hyperboloid` with one of their own. A word is handed its space once, by `Splitting`, and
its letters find it in the phase.
"""

from .array_space import ArraySpace
from .euclidean import Euclidean
from .hyperboloid import Hyperboloid
from .positive import Positive
from .product import Product
from .simplex import Simplex
from .space import Space
from .spd import SPD
from .sphere import Sphere
from .stiefel import Stiefel

__all__ = [
    "SPD",
    "ArraySpace",
    "Euclidean",
    "Hyperboloid",
    "Positive",
    "Product",
    "Simplex",
    "Space",
    "Sphere",
    "Stiefel",
]
