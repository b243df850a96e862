"""Bijectors from all of R^n onto supports, with the log determinants of their Jacobians."""

from .bijector import Bijector, Identity
from .matrices import Correlation, CorrelationCholesky, Covariance
from .named import Foreign, as_bijector
from .vectors import Exp, GreaterThan, Interval, LessThan, Ordered, StickBreaking

__all__ = [
    "Bijector",
    "Correlation",
    "CorrelationCholesky",
    "Covariance",
    "Exp",
    "Foreign",
    "GreaterThan",
    "Identity",
    "Interval",
    "LessThan",
    "Ordered",
    "StickBreaking",
    "as_bijector",
]
