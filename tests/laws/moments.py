"""Checking a mean over chains against its closed form, at a stated false-alarm rate."""

import jax
import numpy as np

# 5.5 standard errors over at least 200 independent chains: a false alarm has probability below 1e-6
Z = 5.5


def check_mean(values, expected, tolerance):
    """The mean over chains of `values` (chain, ...) is `expected`.

    Fails if it is off by more than 5.5 standard errors, which happens by chance with probability
    below 1e-6; and if the standard error is too large to see an error of `tolerance`, relative.
    """
    values, expected = np.asarray(values, np.float64), np.asarray(expected, np.float64)
    assert values.shape[0] >= 200
    error = values.mean(0) - expected
    standard = values.std(0, ddof=1) / np.sqrt(len(values))
    scale = np.max(np.abs(expected))
    assert np.all(np.abs(error) <= Z * standard), (
        f"{values.mean(0)} is not {expected}: off by {error / standard} standard errors"
    )
    assert np.all(Z * standard <= tolerance * scale), f"blind: {Z * standard / scale}"


def chain_means(trace, function):
    """The mean over the draws of each chain of a function of the position: (chain, ...)."""
    return np.asarray(jax.jit(jax.vmap(lambda draws: jax.vmap(function)(draws).mean(0)))(trace))
