"""Linear-Gaussian state-space models."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ... import _checks, _returned
from ..._types import Position
from ...arrays import product
from ...batching import SeriesWindow
from . import kalman
from .kalman import LinearGaussianLaw, expected_log_normal
from .matrices import (
    NAMES,
    NOISES,
    all_packed,
    check_definite,
    covariances,
    log_inverse_wishart,
    named_matrices,
)
from .series_model import (
    SeriesModel,
    check_shapes,
    initial_row,
    whole_series,
    with_gradient_of,
)

_FEW_DIGITS = 0.01


class LinearGaussianStateSpace(SeriesModel):
    """Rows y_t in R^m of a series, linear in hidden states x_t in R^d, with normal noise.

        x_t ~ N(A x_{t-1}, Q),   y_t ~ N(C x_t, R),   x_1 ~ its stationary law N(0, A S A' + Q = S)

    The position is a dict of unconstrained arrays, but for those that are `known`::

        transition: (d, d), A;
        state_noise: (d (d + 1) / 2,), the lower triangle, row by row, of the Cholesky factor of Q,
            with the logarithm of its diagonal;
        observation: (m, d), C;
        observation_noise: (m (m + 1) / 2,), that of R.

    Entries of A and C have the prior N(0, s^2), Q and R inverse Wishart ones with the Jacobian.
    All four together are not identified: an invertible map of the states changes nothing. The data
    are a series (T, m), or (T,) if m = 1, and a batch is windows of it: `Minibatch(model,
    Window(50, buffer=10))`, or `Window(None)` for the exact gradient. States are integrated out by
    the filter of Kalman and the smoother of Rauch, Tung and Striebel. The bias of a buffer of B
    rows is of order rho^B, in one dimension with C = 1 for rho = |A| (1 - K), K the limit of
    Kalman's gain: for A = .9, Q = .5, R = 1 it is .48.

    There is no stationary law if A has an eigenvalue of modulus 1 or more: a chain that goes there
    overflows or is drawn back by the likelihood, and `sample` stops one that is not finite. Moduli
    above .9999 are taken for that.

    Args:
        state_dim: d.
        observation_dim: m.
        known: those of A, Q, C and R, by the names above and as matrices, that are not sampled.
        scale: s > 0.
        noise_prior: (nu, b), the degrees of freedom, above their dimension less one, and the scale
            b I of the inverse Wishart priors. In one dimension they are inverse gamma, of shape
            nu / 2 and scale b / 2: twice the numbers that `families.LinearGaussian` takes.
        initial: a pair (mean, covariance) of the law of x_1, or `None` for the stationary law, with
            its gradient.

    Raises:
        TypeError, ValueError: if a number is out of its range, or a shape wrong; if the items are
            not windows.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Minibatch, Window, sample, sgld
        >>> model = LinearGaussianStateSpace(1, 1, known={"observation": jnp.eye(1)})
        >>> a, q, r = (jnp.full((1, 1), x) for x in (0.9, 0.5, 1.0))
        >>> start = model.position(transition=a, state_noise=q, observation_noise=r)
        >>> states, series = model.simulate(jax.random.key(0), start, 200)
        >>> kernel = sgld(Minibatch(model, Window(20, buffer=8)), 1e-4)
        >>> run = sample(jax.random.key(1), kernel, start, series, num_steps=20)
        >>> run.trace["transition"].shape
        (20, 1, 1)

    Reference:
        Aicher, Ma, Foti and Fox (2019), Stochastic gradient MCMC for state space models, section 4;
        Shumway and Stoffer (1982), An approach to time series smoothing and forecasting using the
        EM algorithm, for the moments. The state before an interior window has its stationary law,
        and the pair of it with the first row counts, which halves the error without a buffer. The
        recursions are our own, some sixty lines: of libraries, dynamax 1.0 asks for a nightly build
        of TensorFlow Probability, and cuthbert is at version 0.1.
    """

    unconstrained: ClassVar[bool] = True

    state_dim: int = eqx.field(static=True)
    observation_dim: int = eqx.field(static=True)
    known: dict[str, Float[Array, "_ _"]]
    scale: Float[Array, ""]
    noise_prior: tuple[Float[Array, ""], Float[Array, ""]]
    initial: tuple[Float[Array, " d"], Float[Array, "d d"]] | None

    def __init__(
        self,
        state_dim: int,
        observation_dim: int,
        *,
        known: Mapping[str, Any] | None = None,
        scale: Any = 1.0,
        noise_prior: Any = (3.0, 1.0),
        initial: Any = None,
    ):
        _checks.whole("state_dim", state_dim)
        _checks.whole("observation_dim", observation_dim)
        _checks.shaped("scale", scale)
        _checks.positive("scale", scale)
        self.state_dim, self.observation_dim = state_dim, observation_dim
        given = named_matrices("known", {} if known is None else known, self._shapes())
        if set(given) == set(NAMES):
            raise ValueError("known must leave one of the four matrices to be sampled")
        self.known = given
        self.scale = _checks.as_real(scale, "scale")
        pair = _checks.positive_pair("noise_prior", noise_prior, "(degrees of freedom, scale)")
        sizes = [self._shapes()[name][0] for name in NOISES if name not in given]
        most = max(sizes, default=1) - 1
        if pair is None or _checks.certainly(lambda nu: nu <= most, pair[0]):
            got = _checks.shown(noise_prior)
            raise ValueError(f"noise_prior must have degrees of freedom above {most}, got {got}")
        self.noise_prior = pair
        self.initial = None
        if initial is not None:
            if not isinstance(initial, tuple | list) or len(initial) != 2:
                got = _checks.shown(initial)
                raise TypeError(f"initial must be a pair (mean, covariance), got {got}")
            mean, covariance = (_checks.as_real(x, "initial") for x in initial)
            if (mean.shape, covariance.shape) != ((state_dim,), (state_dim, state_dim)):
                raise ValueError(
                    f"initial must be a mean and a covariance of shapes {(state_dim,)} and "
                    f"{(state_dim, state_dim)}, got {mean.shape} and {covariance.shape}"
                )
            check_definite("initial", covariance)
            self.initial = (mean, covariance)

    # -- the density

    def logprior(self, position: Position) -> Float[Array, ""]:
        self._check(position)
        total = jnp.zeros(())
        for name, value in position.items():
            if name in NOISES:
                size = self._shapes()[name][0]
                total = total + log_inverse_wishart(value, size, self.noise_prior)
            else:
                total = total - 0.5 * jnp.sum((value / self.scale) ** 2)
        return total

    def log_likelihood(
        self, position: Position, series: Float[Array, "t m"] | Float[Array, " t"]
    ) -> Float[Array, ""]:
        window = whole_series(series)
        filtered = kalman.kalman_filter(self._law(position), self._rows(window), window.real)
        return jnp.sum(filtered.predictive)

    def window_loglik(self, position: Position, window: SeriesWindow) -> Float[Array, ""]:
        law, rows = self._law(position), self._rows(window)
        filtered, states = jax.lax.stop_gradient(self._smoothed(law, window))
        # centred before it is squared: far from zero the second moments' difference is rounding
        drift = states.mean[1:] - product(states.mean[:-1], law.transition.T)
        moved = product(states.cross, law.transition.T)
        steps = states.covariance[1:] - moved - _transpose(moved) + _outer(drift, drift)
        steps = steps + kalman.congruent(law.transition, states.covariance[:-1])
        moves = expected_log_normal(steps, law.state_noise)
        begun = states.covariance[1] + jnp.outer(
            states.mean[1] - law.mean, states.mean[1] - law.mean
        )
        begins = expected_log_normal(begun, law.covariance)
        moves = jnp.where(initial_row(window), begins, moves)
        gaps = rows - product(states.mean[1:], law.observation.T)
        spread = kalman.congruent(law.observation, states.covariance[1:])
        emits = expected_log_normal(_outer(gaps, gaps) + spread, law.observation_noise)
        share = window.share.astype(moves.dtype)
        return with_gradient_of(product(share, filtered.predictive), product(share, moves + emits))

    def check(self, position: Position, data: PyTree) -> None:
        super().check(position, data)
        _tell_of_few_digits(self._law(position))

    # -- states

    def smoothed(
        self, position: Position, series: Float[Array, "t m"] | Float[Array, " t"]
    ) -> tuple[Float[Array, "t d"], Float[Array, "t d d"]]:
        """The means and the covariances of the states given all rows."""
        states = self._smoothed(self._law(position), whole_series(series))[1]
        return states.mean[1:], states.covariance[1:]

    def simulate(
        self, key: Any, position: Position, length: int
    ) -> tuple[Float[Array, "t d"], Float[Array, "t m"]]:
        """States and a series of `length` rows: the pair `states, series`."""
        _checks.random_key(key)
        _checks.whole("length", length)
        law, (first_key, key, row_key) = self._law(position), jax.random.split(key, 3)
        normal = lambda key, covariance, *shape: product(
            jax.random.normal(key, (*shape, len(covariance))), jnp.linalg.cholesky(covariance).T
        )
        first = law.mean + normal(first_key, law.covariance)

        def move(
            state: Float[Array, " d"], noise: Float[Array, " d"]
        ) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
            return product(law.transition, state) + noise, state

        states = jax.lax.scan(move, first, normal(key, law.state_noise, length))[1]
        noise = normal(row_key, law.observation_noise, length)
        return states, product(states, law.observation.T) + noise

    # -- the position

    def position(self, **matrices: Any) -> dict[str, Float[Array, "..."]]:
        """The position of A, Q, C and R as matrices, by the names of the position."""
        return self._free(named_matrices("position", matrices, self._shapes()))

    def matrices(self, position: Position) -> dict[str, Float[Array, "_ _"]]:
        """A, Q, C and R as matrices, the known ones too, by the names of the position."""
        self._check(position)
        return dict(self.known) | self.constrain(position)

    def constrain(self, position: Position) -> dict[str, Float[Array, "... _ _"]]:
        """A, Q, C and R as matrices, but for those that are known.

        Args:
            position: with any leading axes, such as chains and draws: `run.trace`.
        """
        sizes = {name: self._shapes()[name][0] for name in NOISES}
        matrix = lambda name, x: covariances(x, sizes[name]) if name in NOISES else x
        return {name: matrix(name, jnp.asarray(value)) for name, value in position.items()}

    def unconstrain(self, position: Mapping[str, Any]) -> dict[str, Float[Array, "..."]]:
        """The position, with any leading axes, of matrices as `constrain` tells them."""
        return self._free(named_matrices("position", position, self._shapes(), draws=True))

    def _free(self, matrices: dict[str, Float[Array, "... _ _"]]) -> dict[str, Float[Array, "..."]]:
        wanted = set(NAMES) - set(self.known)
        if set(matrices) != wanted:
            raise ValueError(f"position must be made of {sorted(wanted)}, got {sorted(matrices)}")
        return {name: all_packed(x) if name in NOISES else x for name, x in matrices.items()}

    def _shapes(self) -> dict[str, tuple[int, int]]:
        d, m = self.state_dim, self.observation_dim
        return dict(zip(NAMES, ((d, d), (d, d), (m, d), (m, m))))

    def _check(self, position: Position) -> None:
        free = {name: shape for name, shape in self._shapes().items() if name not in self.known}
        packed = lambda name, n: (n * (n + 1) // 2,) if name in NOISES else free[name]
        shapes = {name: packed(name, shape[0]) for name, shape in free.items()}
        check_shapes("LinearGaussianStateSpace", position, shapes)

    def _rows(self, window: SeriesWindow) -> Float[Array, "t m"]:
        rows, wanted = window.rows, self.observation_dim
        if _returned.dtype_of(rows) is None:
            raise TypeError(f"the series must be one array, got rows {_returned.describe(rows)}")
        rows = rows[:, None] if jnp.ndim(rows) == 1 else rows
        if jnp.ndim(rows) != 2 or rows.shape[1] != wanted:
            raise ValueError(
                f"the series must be of shape (T, {wanted}), observation_dim, got rows of shape "
                f"{jnp.shape(window.rows)[1:]}"
            )
        return rows

    def _law(self, position: Position) -> LinearGaussianLaw:
        found = self.matrices(position)
        dtype = jnp.result_type(*found.values())  # of which some may be known in another one
        a, q, c, r = (found[name].astype(dtype) for name in NAMES)
        covariance = kalman.stationary(a, q)
        initial = self.initial or (jnp.zeros(self.state_dim), covariance)
        mean, first = (x.astype(dtype) for x in initial)
        return LinearGaussianLaw(a, q, c, r, covariance, mean, first)

    def _smoothed(
        self, law: LinearGaussianLaw, window: SeriesWindow
    ) -> tuple[kalman.Filtered, kalman.Smoothed]:
        choose = lambda first, inside: jnp.where(window.first, first, inside)
        law = law._replace(
            mean=choose(law.mean, jnp.zeros_like(law.mean)),
            covariance=choose(law.covariance, law.stationary),
        )
        filtered = kalman.kalman_filter(law, self._rows(window), window.real)
        return filtered, kalman.smooth(law, filtered)


def _outer(x: Float[Array, "t d"], y: Float[Array, "t d"]) -> Float[Array, "t d d"]:
    return x[..., :, None] * y[..., None, :]


def _transpose(x: Float[Array, "t d d"]) -> Float[Array, "t d d"]:
    return jnp.swapaxes(x, -1, -2)


def _tell_of_few_digits(law: LinearGaussianLaw) -> None:
    """Warn if the first state is so wide that the filter's differences have few digits."""
    seen = kalman.congruent(law.observation, law.covariance)
    ratio = jnp.trace(seen) / jnp.min(jnp.linalg.eigvalsh(law.observation_noise))
    most = _FEW_DIGITS / jnp.finfo(ratio.dtype).eps
    if _checks.certainly(lambda ratio: ratio > most, ratio):
        warnings.warn(
            f"the covariance of the first state is {float(ratio):.1g} times the noise of the "
            f"observations, of which the filter keeps few digits in {ratio.dtype}: give a "
            "narrower initial, or enable jax_enable_x64",
            stacklevel=3,
        )
