"""Estimators of a sum over the items."""

from .all_reduce import AllReduce as AllReduce
from .allocation import Allocation as Allocation
from .allocation import Latent as Latent
from .anchored_counts import AnchoredCounts as AnchoredCounts
from .control_variate import AnchoredState as AnchoredState
from .control_variate import ControlVariate as ControlVariate
from .counts import MinibatchCounts as MinibatchCounts
from .counts import SAGACounts as SAGACounts
from .counts import TableCounts as TableCounts
from .counts import TableState as TableState
from .empirical_fisher import EmpiricalFisher as EmpiricalFisher
from .empirical_fisher import FisherState as FisherState
from .kept import KeptState as KeptState
from .latent import LatentMinibatch as LatentMinibatch
from .latent import LatentTable as LatentTable
from .minibatch import Minibatch as Minibatch
from .saga import SAGA as SAGA
from .saga import SAGAState as SAGAState
from .svrg import SVRG as SVRG
from .svrg import SVRGState as SVRGState
