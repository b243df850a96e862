"""Kernels made of kernels; they know nothing of their parts but the protocol."""

from ._common import require_kernel as require_kernel
from .cycle import cycle as cycle
from .draw import draw as draw
from .gibbs import gibbs as gibbs
from .metropolis import Metropolis as Metropolis
from .metropolis import metropolis as metropolis
from .repeat import merge_infos as merge_infos
from .repeat import repeat as repeat
from .repeat import thin as thin
