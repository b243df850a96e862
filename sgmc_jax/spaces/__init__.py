"""Spaces on which positions live.

A `Space` (space.py) tells a sampler what straight on means: its geodesic `flow`, with the velocity
at the end; what a gradient is there, and what a normal tangent vector. `Euclidean` is the space of
every sampler that names none, `Sphere` one of unit vectors, `Product` gives each part of a position
a space. A word is handed its space once, by `Splitting`, and its letters find it in the phase.
"""

from .euclidean import Euclidean as Euclidean
from .product import Product as Product
from .space import Space as Space
from .sphere import Sphere as Sphere
