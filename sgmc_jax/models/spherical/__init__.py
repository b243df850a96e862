"""Topics as directions: the spherical admixture model."""

from .documents import UnitVectors as UnitVectors
from .spherical_admixture import SphericalAdmixture as SphericalAdmixture
