"""Random variates that JAX lacks or draws slowly; exact, in log space where they underflow."""

from .accept import accept as accept
from .beta import log_beta as log_beta
from .cir import cir as cir
from .gamma import gamma as gamma
from .gamma import log_gamma as log_gamma
from .poisson import poisson as poisson
from .von_mises_fisher import von_mises_fisher as von_mises_fisher
