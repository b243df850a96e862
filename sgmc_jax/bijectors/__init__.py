"""Bijectors from all of R^n onto supports, with the log determinants of their Jacobians."""

from .bijector import Bijector as Bijector
from .bijector import Identity as Identity
from .matrices import Correlation as Correlation
from .matrices import CorrelationCholesky as CorrelationCholesky
from .matrices import Covariance as Covariance
from .named import Foreign as Foreign
from .named import as_bijector as as_bijector
from .vectors import Exp as Exp
from .vectors import Interval as Interval
from .vectors import Ordered as Ordered
from .vectors import StickBreaking as StickBreaking
