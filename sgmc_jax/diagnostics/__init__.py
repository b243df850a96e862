"""Convergence and sample-quality diagnostics: KSD, effective sample size, R-hat."""

from .ess import ess as ess
from .ksd import ksd as ksd
from .rhat import rhat as rhat
from .rosenblatt import rosenblatt_ks as rosenblatt_ks
from .scir_theory import counts_variance as counts_variance
from .scir_theory import scir_batch_size as scir_batch_size
from .scir_theory import scir_inflation as scir_inflation
from .scir_theory import scir_moments as scir_moments
from .scir_theory import scir_step_size as scir_step_size
