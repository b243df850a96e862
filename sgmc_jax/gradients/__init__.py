"""Estimators of a sum over the items."""

from .all_reduce import AllReduce
from .allocation import Allocation, Latent
from .anchored_counts import AnchoredCounts
from .control_variate import AnchoredState, ControlVariate
from .counts import MinibatchCounts, SAGACounts, TableCounts, TableState
from .empirical_fisher import EmpiricalFisher, FisherState
from .kept import KeptState
from .latent import LatentMinibatch, LatentTable
from .minibatch import Minibatch
from .saga import SAGA, SAGAState
from .stochastic_density import StochasticDensity
from .svrg import SVRG, SVRGState

__all__ = [
    "SAGA",
    "SVRG",
    "AllReduce",
    "Allocation",
    "AnchoredCounts",
    "AnchoredState",
    "ControlVariate",
    "EmpiricalFisher",
    "FisherState",
    "KeptState",
    "Latent",
    "LatentMinibatch",
    "LatentTable",
    "Minibatch",
    "MinibatchCounts",
    "SAGACounts",
    "SAGAState",
    "SVRGState",
    "StochasticDensity",
    "TableCounts",
    "TableState",
]
