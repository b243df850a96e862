"""Kernels made of kernels; they know nothing of their parts but the protocol."""

from ._common import require_kernel as require_kernel
from .cycle import CycleInfo as CycleInfo
from .cycle import CycleState as CycleState
from .cycle import cycle as cycle
from .draw import DrawState as DrawState
from .draw import draw as draw
from .gibbs import GibbsState as GibbsState
from .gibbs import gibbs as gibbs
from .metropolis import Metropolis as Metropolis
from .metropolis import MetropolisInfo as MetropolisInfo
from .metropolis import MetropolisState as MetropolisState
from .metropolis import metropolis as metropolis
from .repeat import repeat as repeat
from .repeat import thin as thin
