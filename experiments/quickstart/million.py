"""A million items: what stochastic gradients are for, against NUTS on the same data."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from sgmc_jax import ess, sample
from sgmc_jax.models import LogisticRegression
from sgmc_jax.tune import Laplace, default_kernel, laplace

from ..common import chain_of, clocked
from .compare import markdown

MODEL = LogisticRegression()
DIM = 10
STEP = 0.7  # of NUTS


class Size(NamedTuple):
    """Items, chains and their steps, draws of NUTS."""

    items: int
    chains: int
    steps: int
    nuts: int


SIZES = {"full": Size(1_000_000, 16, 2_000, 150), "small": Size(20_000, 8, 1_000, 100)}


class Draws(NamedTuple):
    """Draws, (chain, draw, d), and the processor seconds before and during them."""

    name: str
    trace: np.ndarray
    setting_up: float
    drawing: float


def run(key: Any, size: Size) -> str:
    """The table; NUTS is given the metric that the library has found; its step is not searched."""
    keys = jax.random.split(key, 4)
    data = MODEL.simulate(keys[0], size.items, DIM)[1]
    began = time.process_time()
    fit = laplace(keys[1], MODEL, jnp.zeros(DIM), data)
    kernel = default_kernel(keys[1], MODEL, fit.mode, data, fit=fit)
    args = {"num_chains": size.chains, "chunk": size.steps // 2}
    go = partial(sample, keys[2], kernel, data=data, **args)
    own, drawing = clocked(go, go(position=fit.mode, num_steps=size.steps // 2), size.steps)
    setting_up = time.process_time() - began - drawing
    ours = Draws("`default_kernel`", own.trace, setting_up, drawing)
    peer = _nuts(keys[3], fit, data, size.nuts)
    shown, of_peer = [ours], "There is no NUTS to compare with: blackjax is not installed."
    if peer is not None:
        shown, of_peer = [ours, peer], "NUTS begins at the mode and in that metric, which it need "
        of_peer += f"not adapt; its step is {STEP:g}, not searched."
    rates = [float(np.min(ess(draws.trace))) / draws.drawing for draws in shown]
    sd = np.linalg.norm(fit.space.cholesky, axis=1)
    lines = [_line(draws, rate, rates[-1], sd) for draws, rate in zip(shown, rates)]
    header = ["sampler", "set-up, s", "drawing, s", "least ESS", "per CPU-second", "ratio", "sd"]
    return "\n".join(
        [
            f"{size.items:,} simulated items: logistic regression, {DIM} coefficients; "
            f"{size.chains} chains.",
            "",
            markdown(header, lines),
            "",
            f"Setting up finds the mode, the metric and the batches ({_batch(kernel)} items), and "
            f"compiles. {of_peer} The last column has the standard deviations, relative to those "
            "of the Laplace approximation.",
        ]
    )


def _batch(kernel: Any) -> str:
    return f"{kernel.grad.inner.batcher.cost.items:,.0f}"


def _line(draws: Draws, rate: float, slow: float, sd: np.ndarray) -> list[str]:
    ratio = draws.trace.std((0, 1)) / sd
    return [
        draws.name,
        f"{draws.setting_up:.1f}",
        f"{draws.drawing:.2f}",
        f"{rate * draws.drawing:.0f}",
        f"{rate:.3g}",
        f"{rate / slow:.3g}",
        f"{ratio.min():.2f} to {ratio.max():.2f}",
    ]


def _nuts(key: Any, fit: Laplace, data: Any, num: int) -> Draws | None:
    """Draws of blackjax's NUTS; `None` without it."""
    try:
        import blackjax
    except ImportError:
        return None
    metric = fit.space.cholesky @ fit.space.cholesky.T

    def chain(key: Any, start: Array, data: Any) -> Array:
        kernel = blackjax.nuts(partial(MODEL.logdensity, data=data), STEP, metric)
        return chain_of(kernel, key, kernel.init(start), num)

    began = time.process_time()
    compiled = jax.jit(chain).lower(key, fit.mode, data).compile()
    middle = time.process_time()
    trace = np.asarray(compiled(key, fit.mode, data))[None]
    return Draws("NUTS (blackjax)", trace, middle - began, time.process_time() - middle)
