"""How draws are judged: by their kernel Stein discrepancy, in units of the posterior's scale."""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from .. import _checks, _returned
from .._estimators import Estimator
from .._types import Data, Keys, Position
from ..diagnostics import ess, ksd
from ..gradients.curvature import require_derivatives
from ..model import Model
from .curvature import curved, diagonal_scale, exactly, on_batch

_MANY = 1_000  # coordinates, of which the slowest is looked for


class Judge(NamedTuple):
    """By which scores, in which units, how many draws, after which share of the steps."""

    grad: Estimator
    scale: Position
    max_draws: int
    burn_in: float
    max_temperature: float

    def chosen(self, trace: PyTree, most: int) -> PyTree:
        """At most `most` draws, evenly thinned, of those with axes of chains and draws."""
        flat = lambda x: x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])
        draws = jax.tree.map(flat, self._later(trace))
        num = len(jax.tree.leaves(draws)[0])
        some = np.linspace(0, num - 1, min(num, most)).round().astype(int)
        return jax.tree.map(lambda x: jnp.asarray(x[some]), draws)

    def verdict(self, key: Any, draws: PyTree, data: Data) -> tuple[float, float]:
        """The discrepancy and the temperature of draws.

        The configurational temperature is minus the mean of (x - mean x).s over the dimension, s
        being the score: 1 for draws of the target. It sees what the discrepancy does not: draws so
        far out in flat tails that their scores vanish and no two are near each other.
        """
        points, scores = _scaled_scores(key, self.grad, self.scale, draws, data)
        # scores with noise are not independent of themselves: pairs of distinct draws alone
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "positions have .* draws, as many as")
            value = float(ksd(points, scores, statistic="v" if self.grad.exact else "u"))
        temperature = float(-jnp.mean((points - points.mean(0)) * scores))
        return value if math.isfinite(value) else math.inf, temperature

    def extremes(self, trace: PyTree) -> tuple[float, float]:
        """The least and the largest effective sample size of (some of) the coordinates."""
        flat = lambda x: x.reshape(*x.shape[:2], math.prod(x.shape[2:]))
        chains = [flat(x) for x in jax.tree.leaves(self._later(trace))]
        chains = np.concatenate(chains, axis=2)
        if chains.shape[1] < 4:
            return math.inf, math.inf
        some = np.linspace(0, chains.shape[2] - 1, min(chains.shape[2], _MANY)).astype(int)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "x has more chains")
            sizes = np.asarray(ess(chains[:, :, some], kind="mean"))
        still = np.ptp(chains[:, :, some], axis=(0, 1)) == 0  # which `ess` takes for perfect draws
        sizes = np.where(still, 0.0, sizes)
        return float(sizes.min()), float(sizes.max())

    def _later(self, trace: PyTree) -> PyTree:
        """Without the first share of the steps."""
        num = jax.tree.leaves(trace)[0].shape[1]
        return jax.tree.map(lambda x: x[:, math.floor(self.burn_in * num) :], trace)


def as_judge(
    key: Any,
    model: Any,
    position: Position,
    data: Data,
    scale: Any = None,
    max_draws: int = 1_000,
    burn_in: float = 0.5,
    max_temperature: float = 2.0,
) -> Judge:
    """The judge of a model, by exact scores, or of an estimator, by those it draws."""
    _checks.whole("max_draws", max_draws, 2)
    for name, value in {"burn_in": burn_in, "max_temperature": max_temperature}.items():
        _checks.one_number(name, value)
    if not 0 <= burn_in < 1:
        raise ValueError(f"burn_in must be a share of the steps, in [0, 1), got {burn_in}")
    if not isinstance(model, Model | Estimator):
        raise TypeError(
            f"model must be a Model, or an estimator of its gradient, got {type(model).__name__}"
        )
    _checks.positive("max_temperature", max_temperature)
    if scale is None:
        scale = _scale(key, model, position, data)
    _checks.arrays("scale", scale)
    for leaf in jax.tree.leaves(scale):
        _checks.positive("scale", leaf)
    if jax.tree.structure(scale) == jax.tree.structure(0) and jnp.ndim(scale) == 0:
        scale = jax.tree.map(lambda x: jnp.full_like(x, scale), position)
    _returned.like("scale", scale, position, "the position")
    grad = exactly(model) if isinstance(model, Model) else model
    return Judge(grad, scale, max_draws, burn_in, max_temperature)


def _scale(key: Any, model: Model | Estimator, position: Position, data: Data) -> Position:
    """That of the curvature at the position."""
    if isinstance(model, Model):
        model, data = curved(model, data)
    grad = on_batch(model, data) if isinstance(model, Model) else model
    try:
        require_derivatives(grad)
    except TypeError as error:
        raise ValueError(f"scale must be given: {error}") from error
    try:
        return diagonal_scale(key, grad, position, data)
    except ValueError as error:
        raise ValueError(f"scale must be given: {error}") from error


@eqx.filter_jit
def _scaled_scores(
    key: Any, grad: Estimator, scale: Position, draws: PyTree, data: Data
) -> tuple[Float[Array, "K d"], Float[Array, "K d"]]:
    """Draws in units of the scale and the scores there, each from a batch of its own."""
    estate = grad.init(key, jax.tree.map(lambda x: x[0], draws), data)
    unit = ravel_pytree(scale)[0]

    def one(draw: tuple[Array, Position]) -> tuple[Array, Array]:
        own, position = jax.random.fold_in(key, draw[0]), draw[1]
        estimate, _ = grad.estimate(Keys(own, own, None), estate, position, data)
        return ravel_pytree(position)[0] / unit, ravel_pytree(estimate.value)[0] * unit

    return jax.lax.map(one, (jnp.arange(len(jax.tree.leaves(draws)[0])), draws))
