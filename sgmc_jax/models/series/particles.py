"""Nonlinear state-space models, and the particle smoother that draws their states."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, Int, PyTree, Real

from ... import _checks, _returned
from ..._types import Data, Position
from ...arrays import product
from ...batching import Batcher, SeriesWindow
from ...gradients import Latent, LatentMinibatch
from ...model import Model
from .series_model import initial_row, whole_series


class NonlinearStateSpace(Model):
    """Rows y_t of a series given a hidden Markov chain x_t of any law.

        x_t ~ f(x_{t-1}),   y_t ~ g(x_t),   x_1 ~ its stationary law

    The gradient of a window S with its buffer S* is that of Fisher's identity, with the expectation
    given y_{S*} over paths of a particle smoother:

        sum_{t in S} (1/n) sum_i grad log f(x_t^i | x_{t-1}^i) g(y_t | x_t^i).

    It has a bias of order 1 / particles beside that of the buffer; `gradients` makes the estimator.
    A subclass has `logprior` and the five methods here, of one state but for the two draws.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax.models import StochasticVolatility
        >>> model = StochasticVolatility()
        >>> position = model.position(mean=0.0, persistence=0.9, scale=0.2)
        >>> density = model.log_row(position, jnp.array(0.0), jnp.array(0.0))  # of N(0, 1)
        >>> isinstance(model, NonlinearStateSpace), round(float(density), 4)
        (True, -0.9189)
    """

    @abstractmethod
    def draw_first(self, key: Any, position: Position, num: int) -> Real[Array, "n ..."]:
        """`num` states from the stationary law, (num, ...)."""

    @abstractmethod
    def draw_next(
        self, key: Any, position: Position, states: Real[Array, "n *x"]
    ) -> Real[Array, "n *x"]:
        """The states after these, (num, ...), all from one key."""

    @abstractmethod
    def log_first(self, position: Position, state: Real[Array, "..."]) -> Float[Array, ""]:
        """The log density of the stationary law."""

    @abstractmethod
    def log_next(
        self, position: Position, before: Real[Array, "*x"], after: Real[Array, "*x"]
    ) -> Float[Array, ""]:
        """log f(after | before)."""

    @abstractmethod
    def log_row(
        self, position: Position, state: Real[Array, "..."], row: PyTree
    ) -> Float[Array, ""]:
        """log g(row | state)."""

    def gradients(self, batcher: Batcher, num_particles: int) -> LatentMinibatch:
        """The estimator of the gradient of the log posterior.

        Args:
            batcher: `Window(length, buffer)`, or `Window(None)` for one window of all rows.
            num_particles: the number of particles, well above the number of rows of a window with
                its buffer: the paths of as many rows have few ancestors otherwise.
        """
        return LatentMinibatch(self, ParticleSmoother(self, num_particles), batcher)

    def loglik(
        self, position: Position, item: tuple[SeriesWindow, Real[Array, "n s ..."]]
    ) -> Float[Array, ""]:
        """The mean over paths of the terms of a window, log p(x_t, y_t | x_{t-1}) for t in S.

        Args:
            item: a window, and paths (n, w + 1, ...) of the states of its rows, with the state
                before the first.
        """
        if isinstance(item, SeriesWindow) or not isinstance(item, tuple):
            raise TypeError(
                f"the items of {type(self).__name__} must be pairs of a window and paths of its "
                "states: let its method `gradients` make the estimator; a series alone has no "
                "density in closed form, `log_likelihood` estimates it"
            )
        window, paths = item
        terms = jax.vmap(self._terms, (None, None, 0))(position, window, paths)
        return product(window.share.astype(terms.dtype), jnp.mean(terms, axis=0))

    def log_likelihood(
        self, key: Any, position: Position, series: PyTree, num_particles: int
    ) -> Float[Array, ""]:
        """The logarithm of an unbiased estimate of p(y_1:T), by a bootstrap filter."""
        _checks.random_key(key)
        _checks.whole("num_particles", num_particles)
        return jnp.sum(bootstrap(self, key, position, whole_series(series), num_particles).evidence)

    def simulate(self, key: Any, position: Position, length: int) -> Real[Array, "t ..."]:
        """The states alone of `length` rows, (t, ...), and not a pair with the series.

        `StochasticVolatility.simulate_returns` draws both.
        """
        _checks.random_key(key)
        _checks.whole("length", length)
        first_key, key = jax.random.split(key)
        first = self.draw_first(first_key, position, 1)
        move = lambda state, key: (self.draw_next(key, position, state), state[0])
        return jax.lax.scan(move, first, jax.random.split(key, length))[1]

    def _terms(
        self, position: Position, window: SeriesWindow, path: Real[Array, "s ..."]
    ) -> Float[Array, " t"]:
        """log p(x_t, y_t | x_{t-1}) of each row on one path."""
        log_next = lambda x, y: _returned.scalar("log_next", self.log_next(position, x, y))
        log_row = lambda x, y: _returned.scalar("log_row", self.log_row(position, x, y))
        begins = _returned.scalar("log_first", self.log_first(position, path[1]))
        moves = jnp.where(initial_row(window), begins, jax.vmap(log_next)(path[:-1], path[1:]))
        return moves + jax.vmap(log_row)(path[1:], window.rows)


class Particles(NamedTuple):
    """What a bootstrap filter leaves.

    Attributes:
        evidence: (t,) estimates of log p(y_t | y_1, ..., y_{t-1}).
        states: (t + 1, n, ...), from the state before the first row on.
        ancestors: (t, n) whose children the particles of a row are.
        log_weight: (n,) of the last row.
    """

    evidence: Float[Array, " t"]
    states: Real[Array, "s n ..."]
    ancestors: Int[Array, "t n"]
    log_weight: Float[Array, " n"]


class ParticleSmoother(Latent):
    """Paths of the states of a window, from a bootstrap filter with systematic resampling.

    The paths of the particles of the last row, drawn by their weights and traced back through their
    ancestors. Of rows far from the last one there are few ancestors, some num_particles / rows.

    Args:
        model: a `NonlinearStateSpace`.
        num_particles: n.

    Example:
        >>> from sgmc_jax import Window
        >>> from sgmc_jax.models import StochasticVolatility
        >>> grad = StochasticVolatility().gradients(Window(20, buffer=10), num_particles=50)
        >>> isinstance(grad.latent, ParticleSmoother), grad.latent.num_particles
        (True, 50)

    Reference:
        Gordon, Salmond and Smith (1993), Novel approach to nonlinear/non-Gaussian Bayesian state
        estimation; Poyiadjis, Doucet and Singh (2011), Particle approximations of the score,
        algorithm 1, whose sums along paths these are.
    """

    model: NonlinearStateSpace = eqx.field(converter=_checks.of_kind("model", NonlinearStateSpace))
    num_particles: int = eqx.field(static=True)
    exact: ClassVar[bool] = True  # nothing is kept from draw to draw

    def __check_init__(self):
        _checks.whole("num_particles", self.num_particles, 2)

    def draw(self, key: Any, position: Position, items: PyTree, previous: PyTree | None) -> PyTree:
        if not isinstance(items, SeriesWindow):
            raise TypeError(
                f"the items of {type(self.model).__name__} must be windows of a series, got "
                f"{type(items).__name__}: let the batcher be Window(length, buffer), or "
                "Window(None) for all of the series"
            )
        keys = jax.random.split(key, len(items.first))
        paths = jax.vmap(self._paths, (0, None, 0))(keys, position, items)
        return jax.lax.stop_gradient(paths)

    def check(self, position: Position, data: Data) -> None:
        self.model.prior(position)

    def _paths(self, key: Any, position: Position, window: SeriesWindow) -> Real[Array, "n s ..."]:
        filter_key, key = jax.random.split(key)
        particles = bootstrap(self.model, filter_key, position, window, self.num_particles)
        last = systematic(key, particles.log_weight)

        def back(index: Array, row: tuple[Array, Array]) -> tuple[Array, Array]:
            states, ancestors = row
            return ancestors[index], states[index]

        rows = (particles.states[1:], particles.ancestors)
        first, path = jax.lax.scan(back, last, rows, reverse=True)
        path = jnp.concatenate([particles.states[0][first][None], path])
        return jnp.swapaxes(path, 0, 1)


def bootstrap(
    model: NonlinearStateSpace, key: Any, position: Position, window: SeriesWindow, num: int
) -> Particles:
    """The bootstrap filter, resampled at each row; rows that are not real are not observed."""
    first_key, key = jax.random.split(key)
    first = model.draw_first(first_key, position, num)

    def row(carry: tuple[Array, Array], row: tuple) -> tuple:
        (states, log_weight), (key, y, seen) = carry, row
        choice, move = jax.random.split(key)
        ancestors = systematic(choice, log_weight)
        states = model.draw_next(move, position, states[ancestors])
        log_rows = jax.vmap(lambda x: _returned.scalar("log_row", model.log_row(position, x, y)))
        log_rows = jnp.where(seen, log_rows(states).astype(log_weight.dtype), 0)
        evidence = logsumexp(log_rows) - jnp.log(num)
        return (states, log_rows), (evidence, states, ancestors)

    keys = jax.random.split(key, len(window.real))
    log_first = lambda x: _returned.scalar("log_first", model.log_first(position, x))
    flat = jnp.zeros_like(jax.vmap(log_first)(first))
    (_, log_weight), (evidence, states, ancestors) = jax.lax.scan(
        row, (first, flat), (keys, window.rows, window.real)
    )
    return Particles(evidence, jnp.concatenate([first[None], states]), ancestors, log_weight)


def systematic(key: Any, log_weight: Float[Array, " n"]) -> Int[Array, " n"]:
    """Indices with frequencies near n times the weights, by one uniform number."""
    edges = jnp.cumsum(jax.nn.softmax(log_weight))
    num = len(log_weight)
    marks = (jnp.arange(num) + jax.random.uniform(key, dtype=edges.dtype)) / num
    # by bisection: a processor sorts edges and marks, of all windows, in ten times as long
    return jnp.minimum(jnp.searchsorted(edges, marks * edges[-1], method="scan"), num - 1)
