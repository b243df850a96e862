"""Checking a mean over chains against its closed form, at a stated false-alarm rate.

A law runs at its full length only where that is asked for, by `--long` or by its mark `at_length`;
else for an eighth as long, in 256 chains at most, and sees errors down to some six times the size.
"""

import jax
import numpy as np
import pytest

from sgmc_jax import sample

# 5.5 standard errors over at least 200 independent chains: a false alarm has probability below 1e-6
Z = 5.5
_SHORTER, _MOST_CHAINS, _WIDER = 8, 256, 6.0
_at_length = False


def choose_length(full):
    """How long laws run from here on."""
    global _at_length
    _at_length = full


def at_length():
    """Whether laws run at their full length."""
    return _at_length


def fewer(num):
    """A number of steps or draws: all of them at full length, an eighth otherwise."""
    return num if _at_length else max(1, num // _SHORTER)


def wider(tolerance):
    """What `tolerance` is after as many steps of as many chains."""
    return tolerance if _at_length else _WIDER * tolerance


def run_law(*args, num_steps, num_chains, burn_in=0, **kwargs):
    """`sample`, with fewer steps after the burn-in and fewer chains unless at full length."""
    num_steps = burn_in + fewer(num_steps - burn_in)
    num_chains = num_chains if _at_length else min(num_chains, _MOST_CHAINS)
    return sample(*args, num_steps=num_steps, num_chains=num_chains, burn_in=burn_in, **kwargs)


def check_mean(values, expected, tolerance):
    """The mean over chains of `values` (chain, ...) is `expected`.

    Fails if it is off by more than 5.5 standard errors, which happens by chance with probability
    below 1e-6; and if the standard error is too large to see an error of `tolerance`, relative.
    """
    values, expected = np.asarray(values, np.float64), np.asarray(expected, np.float64)
    assert values.shape[0] >= 200
    assert np.all(np.isfinite(values)), "values are not finite"
    error = values.mean(0) - expected
    standard = values.std(0, ddof=1) / np.sqrt(len(values))
    scale = np.max(np.abs(expected))
    constant = (standard == 0) & (error != 0)
    assert np.all((np.abs(error) <= Z * standard) | constant), (
        f"{values.mean(0)} is not {expected}: off by {error / standard} standard errors"
    )
    assert not np.any(constant), f"{values.mean(0)} is not {expected}, and never varies"
    assert np.all(Z * standard <= tolerance * scale), f"blind: {Z * standard / scale}"


def check_law(values, expected, tolerance):
    """`check_mean` of what `run_law` or `fewer` made: if they are fewer, of a wider tolerance."""
    check_mean(values, expected, wider(tolerance))


def fault_is_seen(check, *args, **kwargs):
    """`check` fails by standard errors, as it must while a fault is planted.

    Where it would run at full length an eighth is tried first: most faults are seen by then.
    """
    length = at_length()
    try:
        for full in sorted({False, length}):
            choose_length(full)
            try:
                check(*args, **kwargs)
            except AssertionError as error:
                if "standard errors" in str(error):
                    return
    finally:
        choose_length(length)
    pytest.fail(f"no fault seen at {'full' if length else 'an eighth of the'} length")


def chain_means(trace, function):
    """The mean over the draws of each chain of a function of the position: (chain, ...)."""
    return np.asarray(jax.jit(jax.vmap(lambda draws: jax.vmap(function)(draws).mean(0)))(trace))
