"""Models of series: what one row tells depends on the rows before it."""

from .emissions import CategoricalEmission as CategoricalEmission
from .emissions import Emission as Emission
from .emissions import FunctionEmission as FunctionEmission
from .emissions import NormalEmission as NormalEmission
from .emissions import PoissonEmission as PoissonEmission
from .hidden_markov import HiddenMarkov as HiddenMarkov
from .linear_gaussian import LinearGaussianStateSpace as LinearGaussianStateSpace
from .particles import NonlinearStateSpace as NonlinearStateSpace
from .particles import ParticleSmoother as ParticleSmoother
from .series_model import SeriesModel as SeriesModel
from .stochastic_volatility import StochasticVolatility as StochasticVolatility
