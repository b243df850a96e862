"""The recursions of hidden Markov chains, in logarithms."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, Int

from ...arrays import product

LogLiks = Float[Array, "t k"]  # log p(y_t | x_t = k)


class Smoothed(NamedTuple):
    """The law of the states given all rows.

    Attributes:
        predictive: (t,) log p(y_t | y_1, ..., y_{t-1}).
        states: (t, k) P(x_t = k | y).
        pairs: (t, k, k) P(x_{t-1} = i, x_t = j | y); the first with the state before the rows.
    """

    predictive: Float[Array, " t"]
    states: Float[Array, "t k"]
    pairs: Float[Array, "t k k"]


def forward(
    log_first: Float[Array, " k"], log_transition: Float[Array, "k k"], logliks: LogLiks
) -> tuple[Float[Array, " t"], Float[Array, "t k"]]:
    """log p(y_t | y_1, ..., y_{t-1}) and log P(x_t | y_1, ..., y_t).

    Args:
        log_first: log P(x_1).
    """
    # of a series in double precision and a position that is not
    dtype = jnp.result_type(log_first, log_transition, logliks)
    log_first, logliks = log_first.astype(dtype), logliks.astype(dtype)

    def row(predicted: Array, loglik: Array) -> tuple[Array, tuple[Array, Array]]:
        joint = predicted + loglik
        evidence = logsumexp(joint)
        filtered = joint - jnp.where(evidence > -jnp.inf, evidence, 0)  # of what cannot be: never
        return logsumexp(filtered[:, None] + log_transition, axis=0), (evidence, filtered)

    return jax.lax.scan(row, log_first, logliks)[1]


def backward(log_transition: Float[Array, "k k"], logliks: LogLiks) -> Float[Array, "t k"]:
    """log p(y_{t+1}, ..., y_T | x_t) up to a constant in x_t; 0 for the last row."""

    def row(message: Array, loglik: Array) -> tuple[Array, Array]:
        before = logsumexp(log_transition + loglik + message, axis=1)
        return before - jnp.max(before), message

    last = jnp.zeros_like(logliks[0], jnp.result_type(log_transition, logliks))
    return jax.lax.scan(row, last, logliks, reverse=True)[1]


def smooth(
    log_before: Float[Array, " k"],
    log_first: Float[Array, " k"],
    log_transition: Float[Array, "k k"],
    logliks: LogLiks,
) -> Smoothed:
    """The law of states and of pairs of neighbours given all rows.

    Args:
        log_before: log P(x_0), of the state before the first row.
        log_first: log P(x_1).
    """
    predictive, filtered = forward(log_first, log_transition, logliks)
    behind = backward(log_transition, logliks)
    states = jax.nn.softmax(filtered + behind, axis=-1)
    earlier = jnp.concatenate([log_before[None], filtered[:-1]])
    joint = earlier[:, :, None] + log_transition + (logliks + behind)[:, None, :]
    return Smoothed(predictive, states, jax.nn.softmax(joint, axis=(-2, -1)))


def most_likely(
    log_first: Float[Array, " k"], log_transition: Float[Array, "k k"], logliks: LogLiks
) -> Int[Array, " t"]:
    """The most probable path of states given all rows, by Viterbi's algorithm."""

    def row(best: Array, loglik: Array) -> tuple[Array, Array]:
        through = best[:, None] + log_transition
        new = jnp.max(through, axis=0) + loglik
        # relative to the best: of a long path the sum would have no digits for what differs
        most = jnp.max(new)
        return new - jnp.where(most > -jnp.inf, most, 0), jnp.argmax(through, axis=0)

    logliks = logliks.astype(jnp.result_type(log_first, log_transition, logliks))
    best, came_from = jax.lax.scan(row, log_first + logliks[0], logliks[1:])

    def back(state: Array, origin: Array) -> tuple[Array, Array]:
        return origin[state], state

    first, path = jax.lax.scan(back, jnp.argmax(best), came_from, reverse=True)
    return jnp.concatenate([first[None], path])


def stationary(transition: Float[Array, "k k"]) -> Float[Array, " k"]:
    """The law pi = pi P, by taking out one state after another: no differences are formed.

    Of the last of n states the chain on the others goes through it by P_in P_nj / (1 - P_nn), and
    1 - P_nn is the sum of what goes elsewhere, which has its digits also where it is little.

    Reference:
        Grassmann, Taksar and Heyman (1985), Regenerative analysis and steady state distributions.
    """
    size = len(transition)
    for n in range(size - 1, 0, -1):
        out = jnp.maximum(jnp.sum(transition[n, :n]), jnp.finfo(transition.dtype).tiny)
        into = transition[:n, n] / out
        through = jnp.outer(into, transition[n, :n])
        transition = transition.at[:n, n].set(into).at[:n, :n].add(through)
    law = jnp.ones(1, transition.dtype)
    for n in range(1, size):
        law = jnp.append(law, product(law, transition[:n, n]))
    return law / jnp.sum(law)
