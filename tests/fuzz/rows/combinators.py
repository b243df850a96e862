"""Calls: kernels made of kernels."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import sgmc_jax as s
from sgmc_jax.transitions import GeodesicFlow, GradientKick
from tests.fuzz.rows.common import FLAT, Call, X, full, minibatch, run


def combinators() -> dict[str, Call]:
    """Combinators, and the inner loop."""
    kernel, zero = s.sgld(minibatch(), 0.01), np.zeros(2, np.float32)
    blocks = {"position": {"a": zero, "b": zero}, "data": X}
    word = s.Splitting("BAB", {"A": GeodesicFlow(), "B": GradientKick()}, full(), 0.01)
    one_draw = lambda key, data: jax.random.normal(key, (2,))
    return {
        "thin": Call(s.thin, {"kernel": kernel, "num_steps": 2}, run, FLAT),
        "repeat": Call(s.repeat, {"kernel": kernel, "num_steps": 2}, run, FLAT),
        "cycle": Call(lambda a, b: s.cycle(a, b), {"a": kernel, "b": kernel}, run, FLAT, s.cycle),
        "gibbs": Call(
            s.gibbs,
            {"a": lambda rest: s.sgld(minibatch(), 0.01), "b": lambda rest: s.draw(one_draw)},
            run,
            blocks,
        ),
        "draw": Call(s.draw, {"function": one_draw}, run, FLAT),
        "metropolis": Call(
            s.metropolis,
            {
                "kernel": word,
                "energy": lambda state: jnp.sum(state.momentum**2) / 2,
                "redraw": lambda key, state: state._replace(momentum=one_draw(key, None)),
            },
            run,
            FLAT,
        ),
        "scan_kernel": Call(
            s.scan_kernel,
            {
                "key": jax.random.key(0),
                "kernel": kernel,
                "state": kernel.init(jax.random.key(1), jnp.zeros(2), X),
                "data": X,
                "num_steps": 2,
                "record": None,
                "first_step": 3,
            },
        ),
    }
