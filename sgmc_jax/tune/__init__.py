"""Finding modes, scales and settings."""

from .arms import Arm, Tuned
from .decay import DecayTable, TunedDecay, tune_decay
from .default import default_kernel
from .laplace import Laplace, laplace
from .mode import find_mode
from .passes import full_pass
from .search import grid_search, successive_halving
from .whiten import whiten

__all__ = [
    "Arm",
    "DecayTable",
    "Laplace",
    "Tuned",
    "TunedDecay",
    "default_kernel",
    "find_mode",
    "full_pass",
    "grid_search",
    "laplace",
    "successive_halving",
    "tune_decay",
    "whiten",
]
