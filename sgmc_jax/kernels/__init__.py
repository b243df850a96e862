"""The gradient kernels, one file a method."""

from .hmc import hmc as hmc
from .mala import mala as mala
from .scir import scir as scir
from .sggmc import sggmc as sggmc
from .sghmc import sghmc as sghmc
from .sgld import sgld as sgld
from .sgnht import sgnht as sgnht
from .splitting import Splitting as Splitting
