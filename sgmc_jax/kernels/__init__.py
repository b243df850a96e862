"""The gradient kernels, one file a method."""

from ..splitting import Splitting, SplittingInfo, SplittingState
from .geometric_ornstein_uhlenbeck import geometric_ornstein_uhlenbeck
from .gmc import gmc
from .gsgnht import gsgnht
from .hmc import hmc
from .mala import mala
from .mirrored_sgld import mirrored_sgld
from .projected_sgld import projected_sgld
from .psgld import psgld
from .recipe import recipe
from .reflected_sgld import reflected_sgld
from .scir import scir
from .sggmc import sggmc
from .sghmc import sghmc
from .sgld import sgld
from .sgnht import sgnht
from .sgrhmc import sgrhmc
from .sgrld import sgrld
from .sgrld_simplex import sgrld_simplex

__all__ = [
    "Splitting",
    "SplittingInfo",
    "SplittingState",
    "geometric_ornstein_uhlenbeck",
    "gmc",
    "gsgnht",
    "hmc",
    "mala",
    "mirrored_sgld",
    "projected_sgld",
    "psgld",
    "recipe",
    "reflected_sgld",
    "scir",
    "sggmc",
    "sghmc",
    "sgld",
    "sgnht",
    "sgrhmc",
    "sgrld",
    "sgrld_simplex",
]
