"""Models: regressions, and topics with samplers of their own."""

from ._lda_kernels import TopicState as TopicState
from .lda import LDA as LDA
from .logistic_regression import LogisticRegression as LogisticRegression
from .softmax_regression import SoftmaxRegression as SoftmaxRegression
from .spherical import SphericalAdmixture as SphericalAdmixture
