"""Models: regressions, networks, factorisations, series, and topics with samplers of their own."""

from ._lda_kernels import TopicState
from ._row_prior import RowPrior
from .bayesian_network import BayesianNetwork
from .lda import LDA
from .logistic_regression import LogisticRegression
from .matrix_factorization import MatrixFactorization
from .network import FunctionNetwork, TwoLayerNetwork
from .numpyro_model import NumpyroModel, from_numpyro
from .series import (
    CategoricalEmission,
    Emission,
    FunctionEmission,
    HiddenMarkov,
    LinearGaussianStateSpace,
    NonlinearStateSpace,
    NormalEmission,
    ParticleSmoother,
    PoissonEmission,
    SeriesModel,
    StochasticVolatility,
)
from .softmax_regression import SoftmaxRegression
from .spherical import SphericalAdmixture

__all__ = [
    "LDA",
    "BayesianNetwork",
    "CategoricalEmission",
    "Emission",
    "FunctionEmission",
    "FunctionNetwork",
    "HiddenMarkov",
    "LinearGaussianStateSpace",
    "LogisticRegression",
    "MatrixFactorization",
    "NonlinearStateSpace",
    "NormalEmission",
    "NumpyroModel",
    "ParticleSmoother",
    "PoissonEmission",
    "RowPrior",
    "SeriesModel",
    "SoftmaxRegression",
    "SphericalAdmixture",
    "StochasticVolatility",
    "TopicState",
    "TwoLayerNetwork",
    "from_numpyro",
]
