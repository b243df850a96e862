"""The covariance of an estimate's noise, estimated from earlier batches."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from .. import _checks, _tree
from .._estimators import BatchEstimator, Estimate, Pull
from .._functions import as_optional
from .._types import Data, Key, Position
from .wrapper import Wrapper


class FisherState(NamedTuple):
    """The inner estimator's state, the running mean of V, and the number of batches in it.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import EmpiricalFisher, Minibatch, Summand, Uniform
        >>> grad = EmpiricalFisher(Minibatch(Summand(0.0, lambda x, y: y - x), Uniform(2)))
        >>> state = grad.init(jax.random.key(0), jnp.zeros(()), jnp.arange(4.0))
        >>> state.covariance.shape, int(state.count)
        ((), 0)
    """

    inner: PyTree
    covariance: PyTree
    count: Int[Array, ""]


class EmpiricalFisher(Wrapper):
    """The inner estimate, and V, the running mean of its noise's covariance in earlier batches.

    With g_i the terms of a batch S of n items and w_i their weights, the estimate from one batch is

        V_S = n/(n - 1) sum_{i in S} w_i (w_i - 1) (g_i - mean(g)) (g_i - mean(g))',

    w_i^2 in place of w_i (w_i - 1) if items are drawn with replacement: (N^2/n)(1 - n/N) times the
    sample covariance for `Uniform(n)`, unbiased for the covariance of the estimate; 0 for `Full()`.
    A batch of one item tells nothing, and is taken for one without noise: let n be 2 at least. The
    t-th batch enters as

        V <- V + max(1/t, 1 - decay) (V_S - V).

    V comes with each estimate before its own batch is in it, so that it is independent of the noise
    it is to make up for, and is 0 with the first. Every letter with noise that can subtracts it:
    those of `sgld`, `psgld`, `projected_sgld`, `reflected_sgld`, `recipe`, `sgrld` and `sgrhmc`,
    of `sgnht` and `gsgnht`, whose thermostat takes up what is not subtracted, of `sghmc` and
    `sggmc` with the words ABOBA, AFBNFA and EA, and that of `mirrored_sgld`, whose V is one of dual
    coordinates. On a `Euclidean` space with a scale or a matrix S it is that of S'g, in the units
    of the metric; no other metric has one for all positions. Where V is more than the sampler's own
    noise, as a mean of few batches may be, what would be negative is set to zero and counted in
    `info.clipped`. A step costs the batch's gradients a second time, item by item.

    V stays where it is when other kernels move the position or, in `gibbs`, change the target or
    the metric: then let `decay` forget those before.

    Args:
        inner: the estimator whose noise is to be subtracted, a `BatchEstimator` such as
            `Minibatch(model, Uniform(100))`, also inside `ControlVariate` or `AllReduce`; not
            `SVRG`, whose batches are its own.
        decay: in [0, 1]; 1 for the mean of all earlier batches, less to forget them.
        full: whether V is a matrix over the raveled position, of d^2 numbers and with an `eigh` a
            step, or a diagonal.
        pull: `(position, gradient) -> gradient` in other coordinates, in which the g_i are then:
            what a kernel that moves the position in coordinates of its own sets (`told_in`).

    Raises:
        TypeError: if the estimator is no `BatchEstimator`, or does not tell its noise.
        ValueError: if `decay` is out of its range; from a kernel that cannot subtract V, or is
            given a `noise_covariance` too.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import FunctionModel, Minibatch, Uniform, sample, sgld
        >>> model = FunctionModel(lambda x: -0.5 * x**2, lambda x, y: -0.5 * (y - x) ** 2)
        >>> grad = EmpiricalFisher(Minibatch(model, Uniform(10)))
        >>> kernel, data = sgld(grad, step_size=1e-3), jnp.arange(100.0)
        >>> record = lambda state, info: (state.estimator.covariance, info.clipped)
        >>> start, args = jnp.zeros(()), {"num_steps": 500, "record": record}
        >>> v, clipped = sample(jax.random.key(0), kernel, start, data, **args).trace
        >>> exact = 100**2 / 10 * (1 - 10 / 100) * data.var(ddof=1)
        >>> bool(abs(v[-1] / exact - 1) < 0.1)
        True

    Reference:
        Ahn, Korattikara and Welling (2012), Bayesian posterior sampling via stochastic gradient
        Fisher scoring, whose V is the mean over all earlier batches (kappa_t = 1/t), without the
        factor 1 - n/N.
    """

    inner: BatchEstimator
    decay: Float[Array, ""] = eqx.field(converter=_checks.scalar("decay"), default=1.0)
    full: bool = eqx.field(static=True, default=False)
    pull: Pull | None = eqx.field(
        converter=lambda pull: as_optional(pull, "pull", ("position", "gradient")), default=None
    )
    tells_covariance: ClassVar[bool] = True
    evaluations: ClassVar[int] = 2

    def __check_init__(self):
        _checks.batch_estimator("inner", self.inner, "EmpiricalFisher")
        if not self.inner.measures_noise:
            name = type(self.inner).__name__
            raise TypeError(
                f"inner must tell the covariance of its noise (`measures_noise`), got {name}"
            )
        _checks.positive("decay", self.decay, zero=True)
        if _checks.certainly(lambda decay: decay > 1, self.decay):
            raise ValueError(f"decay must be at most 1, got {np.asarray(self.decay)}")

    def init(self, key: Key, position: Position, data: Data) -> FisherState:
        like = position if self.pull is None else self.pull(position, position)
        covariance = jax.tree.map(jnp.zeros_like, like)
        if self.full:
            shape = (_tree.size(covariance),) * 2
            covariance = jnp.zeros(shape, jnp.result_type(*jax.tree.leaves(covariance)))
        inner = self.inner.init(key, position, data)
        return FisherState(inner, covariance, jnp.zeros((), jnp.int32))

    def estimate(
        self, key: Key, estate: FisherState, position: Position, data: Data
    ) -> tuple[Estimate, FisherState]:
        batch, inner = self.inner.draw(key, estate.inner, data)
        estimate = self.inner.on(batch, position)._replace(covariance=estate.covariance)
        terms = self.inner.per_item(batch, position)
        if self.pull is not None:
            terms = jax.vmap(partial(self.pull, position))(terms)
        covariance = self.inner.covariance(batch, terms, self.full)
        gap = jax.tree.map(jnp.subtract, covariance, estate.covariance)
        count = estate.count + 1
        weight = jnp.maximum(1 / count, 1 - self.decay)
        return estimate, FisherState(inner, _tree.axpy(weight, gap, estate.covariance), count)

    def told_in(self, pull: Pull | None) -> EmpiricalFisher:
        return replace(self, pull=pull)

    def refresh(self, key: Key, estate: FisherState, position: Position, data: Data) -> FisherState:
        return estate._replace(inner=self.inner.refresh(key, estate.inner, position, data))

    def retarget(
        self, key: Key, estate: FisherState, position: Position, data: Data
    ) -> FisherState:
        return estate._replace(inner=self.inner.retarget(key, estate.inner, position, data))
