"""The moments of SCIR in closed form, from which to choose its step size and batch size."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .. import _checks


class SCIRMoments(NamedTuple):
    """The mean and the variance of theta, as `scir_moments` returns them.

    Example:
        >>> moments = SCIRMoments(jnp.array(3.0), jnp.array(4.0))
        >>> float(moments.mean), float(moments.variance)
        (3.0, 4.0)
    """

    mean: Float[Array, "..."]
    variance: Float[Array, "..."]


def scir_moments(
    theta: Any, shape: Any, step_size: Any, num_steps: Any = jnp.inf, shape_variance: Any = 0.0
) -> SCIRMoments:
    """The mean and variance of `scir(..., scale="none")` after some steps.

    After M steps of size h from theta, with shapes of mean a and variance V, e = exp(-M h),

        mean = theta e + a (1 - e),
        variance = 2 theta (e - e^2) + a (1 - e)^2 + (1 - e^2) tanh(h/2) V.

    Args:
        theta: where the chain begins, positive.
        shape: a, the mean of the estimated shape: the exact one.
        step_size: h.
        num_steps: M; infinity, the default, is the stationary law.
        shape_variance: V, the variance of the estimate; see `counts_variance`.

    Example: a stationary law without and with minibatch noise.
        >>> [float(x) for x in scir_moments(1.0, 3.0, 0.1)]
        [3.0, 3.0]
        >>> round(float(scir_moments(1.0, 3.0, 0.1, shape_variance=20.0).variance), 3)
        3.999

    Reference:
        Baker, Fearnhead, Fox and Nemeth (2018), corollary 4.2.
    """
    theta, shape, step_size, num_steps, shape_variance = _checks.broadcasting(
        theta=theta,
        shape=shape,
        step_size=step_size,
        num_steps=num_steps,
        shape_variance=shape_variance,
    )
    theta, num_steps = (x.astype(jnp.result_type(x, float)) for x in (theta, num_steps))
    decay = jnp.exp(-num_steps * step_size)
    gone, twice = (-jnp.expm1(-r * num_steps * step_size) for r in (1, 2))
    exact = 2 * theta * decay * gone + shape * gone**2
    noise = twice * jnp.tanh(step_size / 2) * shape_variance
    return SCIRMoments(theta * decay + shape * gone, exact + noise)


def counts_variance(
    counts: Any, batch_size: Any, *, replace: bool = False
) -> Float[Array, "... d"]:
    """The variance of the counts of one categorical variable, estimated from n of N items.

    With p = counts / N it is `(N^2 / n) p (1 - p)`, times (N - n) / (N - 1) for batches drawn
    without replacement.

    Args:
        counts: the exact counts of all categories, shape (d,), whose sum is N.
        batch_size: n.
        replace: whether batches are drawn with replacement.

    Example:
        >>> counts_variance(jnp.array([2.0, 2.0]), 1).tolist()
        [4.0, 4.0]

    Reference:
        Baker, Fearnhead, Fox and Nemeth (2018), Large-scale stochastic sampling from the
        probability simplex; batches without replacement are ours.
    """
    _checks.truth("replace", replace)
    _checks.shaped("counts", counts, "d")
    counts, batch_size = _checks.broadcasting(counts=counts, batch_size=batch_size)
    total = jnp.sum(counts.astype(jnp.result_type(counts, float)))  # which int32 may not hold
    sums = lambda x: jnp.append(0, jnp.cumsum(x[:-1].astype(total.dtype)))
    others = sums(counts) + sums(counts[::-1])[::-1]
    left = jnp.maximum(total - batch_size, 0)  # no more than all can be drawn
    correction = 1.0 if replace else left / jnp.maximum(total - 1, 1)
    return counts / batch_size * others * correction  # and not by 1 - p, of which p may be all


def scir_inflation(step_size: Any, num_items: Any, batch_size: Any) -> Float[Array, "..."]:
    """How much minibatches widen a point of the simplex: its variance is 1 + this times the exact.

    `tanh(h/2) (N - n) / n`, for one simplex of N observed categorical items of which batches hold
    n; up to a relative error of order 1/N.

    Example:
        >>> round(float(scir_inflation(0.2, 1000, 100)), 3)
        0.897
    """
    step_size, num_items, batch_size = _checks.broadcasting(
        step_size=step_size, num_items=num_items, batch_size=batch_size
    )
    return jnp.tanh(step_size / 2) * jnp.maximum(num_items - batch_size, 0) / batch_size


def scir_step_size(inflation: Any, num_items: Any, batch_size: Any) -> Float[Array, "..."]:
    """The largest step size with at most that inflation; infinite where any will do.

    Example:
        >>> round(float(scir_step_size(0.1, 1000, 100)), 4)
        0.0222
    """
    inflation, num_items, batch_size = _checks.broadcasting(
        inflation=inflation, num_items=num_items, batch_size=batch_size
    )
    left = jnp.maximum(num_items - batch_size, 0)
    slope = jnp.where(left > 0, inflation * batch_size / jnp.where(left > 0, left, 1), 1)
    return 2 * jnp.arctanh(jnp.minimum(slope, 1))


def scir_batch_size(inflation: Any, num_items: Any, step_size: Any) -> Int[Array, "..."]:
    """The smallest batch size with at most that inflation.

    Example:
        >>> int(scir_batch_size(0.1, 1000, 0.02))
        91
    """
    inflation, num_items, step_size = _checks.broadcasting(
        inflation=inflation, num_items=num_items, step_size=step_size
    )
    noise = jnp.tanh(step_size / 2)
    share = jnp.where(noise > 0, noise / jnp.where(noise > 0, inflation + noise, 1), 0)
    wanted = jnp.ceil(num_items * share * (1 - 1e-6))  # which rounding may have taken past one more
    return jnp.clip(wanted, 1, num_items).astype(jnp.int32)
