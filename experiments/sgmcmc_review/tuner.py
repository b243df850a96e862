"""Successive halving against a fine grid: its choice, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sgmc_jax import (
    ControlVariate,
    Full,
    FunctionModel,
    Kernel,
    LinearModel,
    Minibatch,
    Model,
    Uniform,
    sghmc,
    sgld,
)
from sgmc_jax.tune import Tuned, grid_search, laplace, successive_halving

from ..common import Options, save, table

NUM_STEPS = {False: 2_000, True: 10_000}  # of each of the settings of the grid
SHARE = 0.3  # of the grid's budget, for the halving


class Target(NamedTuple):
    """A model with data, a family of kernels, and step sizes from far too small to too large."""

    name: str
    model: Model
    position: Any
    data: Any
    make_kernel: Callable[..., Kernel]
    step_sizes: np.ndarray
    cost: int  # gradients a step


def poisson(key: Any) -> Target:
    """Poisson regression from 5,000 items, by Langevin dynamics with control variates."""
    keys = jax.random.split(key, 3)
    x = jax.random.normal(keys[0], (5_000, 6)) @ jnp.diag(jnp.geomspace(0.2, 1.0, 6))
    rate = jnp.exp(0.5 + x @ jnp.linspace(-0.5, 0.5, 6))
    data = x, jax.random.poisson(keys[1], rate).astype(jnp.float32)
    model = LinearModel(lambda w: -0.5 * w @ w, lambda eta, y: y * eta - jnp.exp(eta))
    mode = laplace(keys[2], model, jnp.zeros(6), data).mode
    grad = ControlVariate(Minibatch(model, Uniform(100)), mode)
    steps = np.geomspace(1e-7, 1e-2, 25)
    return Target(
        "Poisson regression", model, mode, data, lambda step_size: sgld(grad, step_size), steps, 200
    )


def student(key: Any) -> Target:
    """Regression with Student's t errors of 3 degrees of freedom, by plain minibatches."""
    keys = jax.random.split(key, 4)
    x = jax.random.normal(keys[0], (2_000, 4))
    y = x @ jnp.array([1.0, -1.0, 0.5, 0.0]) + jax.random.t(keys[1], 3.0, (2_000,))
    model = LinearModel(
        lambda w: -0.5 * w @ w, lambda eta, y: -2.0 * jnp.log1p((y - eta) ** 2 / 3.0)
    )
    mode = laplace(keys[2], model, jnp.zeros(4), (x, y)).mode
    grad = Minibatch(model, Uniform(200))
    steps = np.geomspace(1e-5, 1.0, 25)
    make_kernel = lambda step_size: sghmc(grad, step_size, 20.0)
    return Target("Student regression", model, mode, (x, y), make_kernel, steps, 200)


def two_modes(key: Any) -> Target:
    """Two normals of unit variance, two and a half apart in each of two dimensions."""

    def log_density(x: Any) -> Any:
        return jnp.logaddexp(*(-0.5 * jnp.sum((x - c) ** 2) for c in (-1.25, 1.25)))

    grad, steps = Minibatch(FunctionModel(log_density), Full()), np.geomspace(1e-4, 10.0, 25)
    make_kernel = lambda step_size: sgld(grad, step_size)
    return Target("two modes", grad.model, jnp.full(2, 1.25), None, make_kernel, steps, 1)


def compare(key: Any, target: Target, num_steps: int) -> tuple[Tuned, Tuned, Tuned]:
    """The grid, the halving, and a grid of twice the length, whose discrepancies judge both."""
    grid = {"step_size": [float(h) for h in target.step_sizes]}
    budget = num_steps * target.cost * len(target.step_sizes)
    args = (target.model, target.make_kernel, grid, target.position, target.data)
    keys = jax.random.split(key, 3)
    found = grid_search(keys[0], *args, budget=budget)
    halved = successive_halving(keys[1], *args, budget=SHARE * budget)
    return found, halved, grid_search(keys[2], *args, budget=2 * budget)


def cost(tuned: Tuned, target: Target) -> tuple[float, float]:
    """Gradients of an item's term: those of the runs, and with those that judge, by all items."""
    items = len(jax.tree.leaves(target.data)[0]) if target.data is not None else 1
    judged = items * sum(arm.judged for arm in tuned.arms)
    return tuned.evaluations, tuned.evaluations + judged


def run(options: Options) -> Iterator[str]:
    """A table, and a picture of each target's searches."""
    header = ["target", "search", "step size", "best of the judge", "KSD, ratio"]
    header += ["cost, ratio", "with judging"]
    rows = []
    for i, make in enumerate((poisson, student, two_modes)):
        key = jax.random.fold_in(options.key, i)
        target = make(key)
        found, halved, judge = compare(key, target, NUM_STEPS[options.full])
        seen = {a.setting["step_size"]: a.ksd for a in judge.arms if a.temperature < 2}
        best = min(seen, key=lambda h: seen[h])
        for name, tuned in (("grid", found), ("halving", halved)):
            h = tuned.setting["step_size"]
            shares = np.divide(cost(tuned, target), cost(found, target))
            rows.append(
                [
                    target.name,
                    name,
                    f"{h:.3g}",
                    f"{best:.3g}",
                    f"{seen.get(h, np.inf) / seen[best]:.3f}",
                    *(f"{share:.2f}" for share in shares),
                ]
            )
        yield table(header, rows)
        save(halved.plot().figure, options.out / f"tuner_{i}.png")
