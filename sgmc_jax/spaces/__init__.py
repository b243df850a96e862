"""Spaces on which positions live: projections, geodesic flows and tangent normals."""

from .euclidean import Euclidean as Euclidean
from .product import Product as Product
from .space import Space as Space
from .sphere import Sphere as Sphere
