"""Kernels made of kernels; they know nothing of their parts but the protocol."""

from ._common import require_kernel
from .cycle import CycleInfo, CycleState, cycle
from .draw import DrawState, draw
from .gibbs import GibbsState, gibbs
from .metropolis import Metropolis, MetropolisInfo, MetropolisState, metropolis
from .repeat import repeat, thin

__all__ = [
    "CycleInfo",
    "CycleState",
    "DrawState",
    "GibbsState",
    "Metropolis",
    "MetropolisInfo",
    "MetropolisState",
    "cycle",
    "draw",
    "gibbs",
    "metropolis",
    "repeat",
    "require_kernel",
    "thin",
]
