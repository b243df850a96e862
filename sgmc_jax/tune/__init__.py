"""Finding modes, scales and settings."""

from .arms import Arm as Arm
from .arms import Tuned as Tuned
from .decay import DecayTable as DecayTable
from .decay import TunedDecay as TunedDecay
from .decay import tune_decay as tune_decay
from .default import default_kernel as default_kernel
from .laplace import Laplace as Laplace
from .laplace import laplace as laplace
from .mode import find_mode as find_mode
from .passes import full_pass as full_pass
from .search import grid_search as grid_search
from .search import successive_halving as successive_halving
from .whiten import whiten as whiten
