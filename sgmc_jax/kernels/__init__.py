"""The gradient kernels, one file a method."""

from ..splitting import Splitting as Splitting
from ..splitting import SplittingInfo as SplittingInfo
from ..splitting import SplittingState as SplittingState
from .geometric_ornstein_uhlenbeck import (
    geometric_ornstein_uhlenbeck as geometric_ornstein_uhlenbeck,
)
from .gmc import gmc as gmc
from .gsgnht import gsgnht as gsgnht
from .hmc import hmc as hmc
from .mala import mala as mala
from .mirrored_sgld import mirrored_sgld as mirrored_sgld
from .projected_sgld import projected_sgld as projected_sgld
from .psgld import psgld as psgld
from .recipe import recipe as recipe
from .reflected_sgld import reflected_sgld as reflected_sgld
from .scir import scir as scir
from .sggmc import sggmc as sggmc
from .sghmc import sghmc as sghmc
from .sgld import sgld as sgld
from .sgnht import sgnht as sgnht
from .sgrhmc import sgrhmc as sgrhmc
from .sgrld import sgrld as sgrld
from .sgrld_simplex import sgrld_simplex as sgrld_simplex
