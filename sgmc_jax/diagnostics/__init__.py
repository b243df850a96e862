"""Convergence and sample-quality diagnostics: KSD, effective sample size, R-hat."""

from .ess import ess as ess
from .ksd import ksd as ksd
from .rhat import rhat as rhat
