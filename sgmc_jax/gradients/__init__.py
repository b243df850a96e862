"""Estimators of a sum over the items."""

from .all_reduce import AllReduce as AllReduce
from .control_variate import ControlVariate as ControlVariate
from .minibatch import Minibatch as Minibatch
from .svrg import SVRG as SVRG
