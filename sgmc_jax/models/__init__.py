"""Models: regressions, networks, factorisations, series, and topics with samplers of their own."""

from ._lda_kernels import TopicState as TopicState
from ._row_prior import RowPrior as RowPrior
from .bayesian_network import BayesianNetwork as BayesianNetwork
from .lda import LDA as LDA
from .logistic_regression import LogisticRegression as LogisticRegression
from .matrix_factorization import MatrixFactorization as MatrixFactorization
from .network import TwoLayerNetwork as TwoLayerNetwork
from .numpyro_model import NumpyroModel as NumpyroModel
from .numpyro_model import from_numpyro as from_numpyro
from .series import CategoricalEmission as CategoricalEmission
from .series import Emission as Emission
from .series import FunctionEmission as FunctionEmission
from .series import HiddenMarkov as HiddenMarkov
from .series import LinearGaussianStateSpace as LinearGaussianStateSpace
from .series import NonlinearStateSpace as NonlinearStateSpace
from .series import NormalEmission as NormalEmission
from .series import ParticleSmoother as ParticleSmoother
from .series import PoissonEmission as PoissonEmission
from .series import SeriesModel as SeriesModel
from .series import StochasticVolatility as StochasticVolatility
from .softmax_regression import SoftmaxRegression as SoftmaxRegression
from .spherical import SphericalAdmixture as SphericalAdmixture
