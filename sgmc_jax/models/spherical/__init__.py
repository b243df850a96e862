"""Topics as directions: the spherical admixture model."""

from .documents import UnitVectors
from .spherical_admixture import SphericalAdmixture

__all__ = [
    "SphericalAdmixture",
    "UnitVectors",
]
