"""The recursions of linear-Gaussian state-space models."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_factor, cho_solve
from jaxtyping import Array, Bool, Float

from ...arrays import product

_DOUBLINGS = 16  # of the steps that the stationary covariance sums over


class LinearGaussianLaw(NamedTuple):
    """x_t ~ N(A x_{t-1}, Q), y_t ~ N(C x_t, R), x_1 ~ N(mean, covariance)."""

    transition: Float[Array, "d d"]
    state_noise: Float[Array, "d d"]
    observation: Float[Array, "m d"]
    observation_noise: Float[Array, "m m"]
    stationary: Float[Array, "d d"]
    mean: Float[Array, " d"]
    covariance: Float[Array, "d d"]


class Filtered(NamedTuple):
    """log p(y_t | y_1, ..., y_{t-1}), and the law of x_t given y_1, ..., y_{t-1}, or y_t too."""

    predictive: Float[Array, " t"]
    predicted: tuple[Float[Array, "t d"], Float[Array, "t d d"]]
    updated: tuple[Float[Array, "t d"], Float[Array, "t d d"]]


class Smoothed(NamedTuple):
    """The law of the states given all rows, from the state before the first row on.

    Attributes:
        mean: (t + 1, d).
        covariance: (t + 1, d, d).
        cross: (t, d, d) Cov(x_t, x_{t-1} | y).
    """

    mean: Float[Array, "s d"]
    covariance: Float[Array, "s d d"]
    cross: Float[Array, "t d d"]


def kalman_filter(
    law: LinearGaussianLaw, series: Float[Array, "t m"], real: Bool[Array, " t"]
) -> Filtered:
    """Kalman's filter; rows that are not real are not observed."""
    a, q, c, r, *_ = law
    series = series.astype(law.mean.dtype)

    def row(predicted: tuple[Array, Array], row: tuple[Array, Array]) -> tuple:
        (mean, covariance), (y, seen) = predicted, row
        across = product(c, covariance)
        factor = cho_factor(product(across, c.T) + r, lower=True)
        gap = y - product(c, mean)
        gain = cho_solve(factor, across).T
        scaled = cho_solve(factor, gap)
        logdet = 2 * jnp.sum(jnp.log(jnp.diagonal(factor[0])))
        evidence = -0.5 * (product(gap, scaled) + logdet + len(gap) * jnp.log(2 * jnp.pi))
        mean = mean + jnp.where(seen, product(gain, gap), 0)
        covariance = symmetric(covariance - jnp.where(seen, product(gain, across), 0))
        following = (product(a, mean), symmetric(congruent(a, covariance) + q))
        return following, (jnp.where(seen, evidence, 0), predicted, (mean, covariance))

    return Filtered(*jax.lax.scan(row, (law.mean, law.covariance), (series, real))[1])


def smooth(law: LinearGaussianLaw, filtered: Filtered) -> Smoothed:
    """Rauch, Tung and Striebel's smoother, with the state before the first row."""
    a = law.transition
    before = (jnp.zeros_like(law.mean), law.stationary)
    earlier = jax.tree.map(
        lambda x0, x: jnp.concatenate([x0[None], x[:-1]]), before, filtered.updated
    )

    def row(later: tuple[Array, Array], row: tuple) -> tuple:
        (mean, covariance), (predicted_mean, predicted), (at, spread) = later, *row
        gain = cho_solve(cho_factor(predicted, lower=True), product(a, spread)).T
        smoothed = at + product(gain, mean - predicted_mean)
        left = symmetric(spread + congruent(gain, covariance - predicted))
        return (smoothed, left), (smoothed, left, product(covariance, gain.T))

    last = jax.tree.map(lambda x: x[-1], filtered.updated)
    _, (mean, covariance, cross) = jax.lax.scan(
        row, last, (filtered.predicted, earlier), reverse=True
    )
    join = lambda x, end: jnp.concatenate([x, end[None]])
    return Smoothed(join(mean, last[0]), join(covariance, last[1]), cross)


def stationary(a: Float[Array, "d d"], q: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """sum_j A^j Q A^j', the covariance S = A S A' + Q, by doubling the number of terms.

    Reference:
        Smith (1968), Matrix equation XA + BX = C.
    """

    def double(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
        total, power = carry
        return (total + congruent(power, total), product(power, power)), None

    return jax.lax.scan(double, (q, a), None, length=_DOUBLINGS)[0][0]


def congruent(a: Float[Array, "m d"], b: Float[Array, "*t d d"]) -> Float[Array, "*t m m"]:
    """A B A'."""
    return product(product(a, b), a.T)


def symmetric(x: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """The symmetric part."""
    return (x + x.T) / 2


def expected_log_normal(
    square: Float[Array, "*t d d"], covariance: Float[Array, "d d"]
) -> Float[Array, "*t"]:
    """E log N(e; 0, covariance), with E e e' = square."""
    factor = cho_factor(covariance, lower=True)
    precision = cho_solve(factor, jnp.eye(len(covariance), dtype=covariance.dtype))
    logdet = 2 * jnp.sum(jnp.log(jnp.diagonal(factor[0])))
    trace = jnp.sum(precision * square, axis=(-2, -1))
    return -0.5 * (trace + logdet + len(covariance) * jnp.log(2 * jnp.pi))
