"""Finding modes and settings."""

from .decay import DecayTable as DecayTable
from .decay import TunedDecay as TunedDecay
from .decay import tune_decay as tune_decay
from .mode import find_mode as find_mode
