"""Random variates that JAX lacks or draws slowly; exact, in log space where they underflow."""

from .accept import accept
from .beta import log_beta
from .cir import cir
from .gamma import gamma, log_gamma
from .normal import normal
from .poisson import poisson
from .von_mises_fisher import von_mises_fisher

__all__ = [
    "accept",
    "cir",
    "gamma",
    "log_beta",
    "log_gamma",
    "normal",
    "poisson",
    "von_mises_fisher",
]
