"""Models with samplers of their own."""

from ._lda_kernels import TopicState as TopicState
from .lda import LDA as LDA
from .spherical import SphericalAdmixture as SphericalAdmixture
