"""A kernel inside each combinator, and the moments of its chains there."""

from functools import partial

import jax.numpy as jnp
import pytest

from sgmc_jax import cycle, draw, gibbs, repeat, thin
from tests.laws.moments import run_law

WRAPS = ("thin", "repeat", "cycle", "gibbs")
FIRST, SECOND = 0.2, 0.1  # the step sizes of the two kernels of a cycle
wraps = pytest.mark.parametrize("wrap", WRAPS)
refused = partial(pytest.raises, AssertionError, match="standard errors")


def wrapped(wrap, make, other):
    """`make(step_size, t)`, inside of a combinator; `other(key, x)` draws t for `gibbs`."""
    if wrap == "gibbs":
        return gibbs(
            x=lambda rest: make(FIRST, rest["t"]),
            t=lambda rest: draw(lambda key, data: other(key, rest["x"])),
        )
    first = make(FIRST, 0.0)
    return {
        "thin": lambda: thin(first, 2),
        "repeat": lambda: repeat(first, 3),
        "cycle": lambda: cycle(first, make(SECOND, 0.0)),
    }[wrap]()


def moments(key, kernel, wrap, start, statistic, data=None, num_chains=1024, num_steps=3_200):
    """The mean of a statistic of x over each chain."""
    place = {"x": start, "t": jnp.zeros(())} if wrap == "gibbs" else start
    of = (lambda p: statistic(p["x"])) if wrap == "gibbs" else statistic
    args = {"num_chains": num_chains, "num_steps": num_steps, "burn_in": 200}
    reduce = lambda state, info: of(state.position)
    return run_law(key, kernel, place, data, reduce=reduce, **args).trace.mean
