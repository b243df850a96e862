"""Models of series: what one row tells depends on the rows before it."""

from .emissions import CategoricalEmission as CategoricalEmission
from .emissions import Emission as Emission
from .emissions import FunctionEmission as FunctionEmission
from .emissions import NormalEmission as NormalEmission
from .emissions import PoissonEmission as PoissonEmission
from .hidden_markov import HiddenMarkov as HiddenMarkov
from .series_model import SeriesModel as SeriesModel
