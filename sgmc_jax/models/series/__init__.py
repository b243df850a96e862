"""Models of series: what one row tells depends on the rows before it."""

from .emissions import (
    CategoricalEmission,
    Emission,
    FunctionEmission,
    NormalEmission,
    PoissonEmission,
)
from .hidden_markov import HiddenMarkov
from .linear_gaussian import LinearGaussianStateSpace
from .particles import NonlinearStateSpace, ParticleSmoother
from .series_model import SeriesModel
from .stochastic_volatility import StochasticVolatility

__all__ = [
    "CategoricalEmission",
    "Emission",
    "FunctionEmission",
    "HiddenMarkov",
    "LinearGaussianStateSpace",
    "NonlinearStateSpace",
    "NormalEmission",
    "ParticleSmoother",
    "PoissonEmission",
    "SeriesModel",
    "StochasticVolatility",
]
