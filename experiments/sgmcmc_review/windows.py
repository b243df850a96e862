"""What both series share: a model in whitened coordinates, runs that are timed, predictives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.tree_util import Partial
from jaxtyping import Array, Float

from sgmc_jax import FunctionModel, Kernel, Model, ess, sample

from ..common import clocked

CHAINS = 4


def whitened(model: Model, mode: Any, data: Any) -> tuple[FunctionModel, Callable]:
    """The model of z, position = mode + L z with L L' the inverse Hessian at the mode; the map."""
    flat, unravel = ravel_pytree(mode)
    hessian = jax.jit(jax.hessian(lambda x: -model.logdensity(unravel(x), data)))(flat)
    scale = np.linalg.cholesky(np.linalg.inv(np.asarray(hessian, np.float64)))
    position = Partial(
        lambda at, scale, z: unravel(at + scale @ z), flat, jnp.asarray(scale, flat.dtype)
    )
    prior = Partial(lambda position, z: model.logprior(position(z)), position)
    loglik = Partial(lambda position, z, item: model.loglik(position(z), item), position)
    return FunctionModel(prior, loglik), position


class Drawn(NamedTuple):
    """Draws after a fifth of burn-in, the processor seconds of them alone once compiled, and by how
    much the chain is too hot for the noise of its gradients, if it is told."""

    trace: Any
    seconds: float
    excess: float | None


def run(key: Array, kernel: Kernel, start: Any, data: Any, num: int, thin: int) -> Drawn:
    """So many steps of all chains."""
    args = {"num_chains": CHAINS, "thin": thin, "chunk": num // 5}
    go = partial(sample, key, kernel, data=data, **args)
    done, seconds = clocked(go, go(position=start, num_steps=num // 5), num - num // 5)
    told = getattr(done.info.kernel, "excess_temperature", None)
    return Drawn(done.trace, seconds, None if told is None else float(np.mean(told)))


def row(values: Float[np.ndarray, "c n k"], seconds: float) -> tuple[list[str], str, str]:
    """Mean and deviation of each column, seconds, and the least ESS a second."""
    mean, deviation = values.mean((0, 1)), values.std((0, 1))
    cells = [f"{m:.3f} ± {s:.3f}" for m, s in zip(mean, deviation)]
    least = float(np.min(np.asarray(ess(jnp.asarray(values)))))
    return cells, f"{seconds:.0f}", f"{least / seconds:.1f}"


def log_mean_exp(values: Float[np.ndarray, " n"]) -> float:
    """log of the mean of exponentials."""
    return float(np.logaddexp.reduce(values) - np.log(len(values)))
