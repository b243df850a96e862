"""Models: regressions, networks, factorisations, and topics with samplers of their own."""

from ._lda_kernels import TopicState as TopicState
from ._row_prior import RowPrior as RowPrior
from .bayesian_network import BayesianNetwork as BayesianNetwork
from .lda import LDA as LDA
from .logistic_regression import LogisticRegression as LogisticRegression
from .matrix_factorization import MatrixFactorization as MatrixFactorization
from .network import TwoLayerNetwork as TwoLayerNetwork
from .softmax_regression import SoftmaxRegression as SoftmaxRegression
from .spherical import SphericalAdmixture as SphericalAdmixture
