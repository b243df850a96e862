"""Convergence and sample-quality diagnostics: KSD, effective sample size, R-hat."""

from .ess import ess
from .ksd import ksd
from .rhat import rhat
from .rosenblatt import rosenblatt_ks
from .scir_theory import (
    SCIRMoments,
    counts_variance,
    scir_batch_size,
    scir_inflation,
    scir_moments,
    scir_step_size,
)

__all__ = [
    "SCIRMoments",
    "counts_variance",
    "ess",
    "ksd",
    "rhat",
    "rosenblatt_ks",
    "scir_batch_size",
    "scir_inflation",
    "scir_moments",
    "scir_step_size",
]
