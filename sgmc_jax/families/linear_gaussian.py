"""Items that are sums of features plus normal noise."""

from __future__ import annotations

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Bool, Float, Int

from .. import _checks
from ..arrays import product
from ..random import log_gamma
from ..random.slots import slot_normal
from . import _inputs
from ._from_data import items_of
from ._inputs import check_rows, positive_number
from .feature_family import FeatureFamily, FeatureRows, Hyper
from .linear_rows import LinearRow, LinearRows
from .linear_tail import LinearSums, LinearTail, factor

Theta = Float[Array, "K D"]

_CANCELS = 1e-3  # of a sum of squares: what is left of it has few digits in float32


class LinearGaussian(FeatureFamily):
    """Items that are sums of features plus normal noise.

        X = Z theta + s E,   E_id ~ N(0, 1),   theta_kd ~ N(0, s_A^2)

    With Q = Z'Z + (s / s_A)^2 I the features given all else are normal, theta = Q^-1 Z'X + s L^-T E
    where Q = L L'. In the tail, let M = Q^-1 and mu = M Z'R be those of the other rows and of the
    features that are integrated out, R being the residual of the instantiated ones; then a row is

        r ~ N(z mu, (s^2 (1 + z M z') + s_A^2 sum_own z_k^2) I),

    the last sum being over features of no other row. As a row leaves or joins, M, mu and mu mu' are
    changed by matrices of rank one and two, at K (K + D) with K the slots; from Z'Z, whose whole
    numbers are exact, they are made anew, at K^2 (K + D), once rounding may have added up: every
    50 rows, and wherever z M z or a variance in M is large, as where s is much below s_A. Sums
    over items are taken of the residuals of a reference theta, so that the sum of squares that
    draws s does not cancel. Two equal columns of m ones leave (s / s_A)^2 alone in Q: in float32
    keep that well above m / 1e7, or enable `jax_enable_x64`.

    Args:
        dim: D, the dimension of an item.
        noise_scale: s > 0, a standard deviation; its first value if it has a prior.
        feature_scale: s_A > 0, likewise.
        noise_prior: `None` for a fixed value, or the shape a and scale b of the inverse-gamma prior
            of s^2, of density ~ v^(-a-1) exp(-b / v). The pair (nu, b) of the inverse Wishart
            priors of `LinearGaussianStateSpace` is a = nu / 2 and b / 2 here, half of both numbers.
        feature_prior: the same for s_A^2.

    Raises:
        ValueError: if a number is not positive.

    Example:
        >>> import jax.numpy as jnp
        >>> family = LinearGaussian(dim=2, noise_scale=0.5)
        >>> Z, X = jnp.array([[1, 1, 0]]), jnp.array([[1.0, 0.0], [3.0, 2.0], [9.0, 9.0]])
        >>> rows = FeatureRows(X, Z, jnp.ones(3, bool))
        >>> family.statistics(jnp.zeros((1, 2)), rows).cross.tolist()
        [[4.0, 2.0]]

    Reference:
        Griffiths and Ghahramani (2011), The Indian buffet process: an introduction and review;
        Doshi-Velez and Ghahramani (2009), Accelerated sampling for the Indian buffet process,
        for the rank-one updates.
    """

    dim: int = eqx.field(static=True)
    noise_scale: Float[Array, ""]
    feature_scale: Float[Array, ""]
    noise_prior: Any
    feature_prior: Any

    explicit = False

    def __init__(
        self,
        dim: int,
        noise_scale: Any = 1.0,
        feature_scale: Any = 1.0,
        noise_prior: tuple[Any, Any] | None = None,
        feature_prior: tuple[Any, Any] | None = None,
    ):
        _checks.whole("dim", dim)
        self.dim = dim
        self.noise_scale = positive_number("noise_scale", noise_scale)
        self.feature_scale = positive_number("feature_scale", feature_scale)
        pair = partial(_checks.positive_pair, parts="(shape, scale)")
        self.noise_prior = pair("noise_prior", noise_prior)
        self.feature_prior = pair("feature_prior", feature_prior)

    @classmethod
    def from_data(cls, data: Any) -> LinearGaussian:
        """Scales that are learnt, from where the items' size puts them.

        With v the mean square of all entries, s^2 begins at v / 4 and s_A^2 at v, and their priors
        are inverse-gamma with shape 1 and those scales, as vague as they can be. Features are
        centred at zero: subtract the mean of data whose zero means nothing.

        Args:
            data: all items (N, D), an array or a frame.

        Raises:
            ValueError: if all are zero, or the data are no finite rows.

        Example:
            >>> import jax.numpy as jnp
            >>> family = LinearGaussian.from_data(jnp.array([[2.0, -2.0], [0.0, 4.0]]))
            >>> round(family.feature_scale.item(), 4)  # the root of 6
            2.4495
        """
        rows = items_of(data)
        size = float(np.mean(rows**2))
        if not size > 0:
            raise ValueError("data must not be all zero, to make a prior from")
        return cls(rows.shape[1], size**0.5 / 2, size**0.5, (1.0, size / 4), (1.0, size))

    def start(self) -> Hyper:
        return {"noise_scale": self.noise_scale, "feature_scale": self.feature_scale}

    @property
    def priors(self) -> dict[str, Any]:
        return {"noise_scale": self.noise_prior, "feature_scale": self.feature_prior}

    def parameters(self, key: Any, capacity: int, items: Any) -> Theta:
        return jnp.zeros((capacity, self.dim), _inputs.rows(items, self.dim).dtype)

    def births(self, key: Any, params: Theta, born: Bool[Array, " K"]) -> Theta:
        return params

    def marginalise(self, params: Theta, instantiated: Bool[Array, " K"]) -> Theta:
        return jnp.where(instantiated[:, None], params, 0)

    def check(self, data: Any) -> None:
        check_rows(data, self.dim)

    # ------------------------------------------------------------------ at a synchronisation

    def statistics(self, params: Theta, rows: FeatureRows) -> LinearSums:
        entries = rows.features.astype(params.dtype)
        residual = self._residual(rows.items, entries, params)
        residual = jnp.where(rows.real[:, None], residual, 0)
        square = jnp.sum(jnp.sum(residual**2, axis=1))
        return LinearSums(product(entries, entries.T), product(entries, residual), square)

    def redraw(
        self,
        key: Any,
        hyper: Hyper,
        params: Theta,
        stats: LinearSums,
        counts: Int[Array, " K"],
        rows: FeatureRows,
        num_items: Any,
        comm: Any,
    ) -> tuple[Hyper, Theta]:
        feature_key, scale_key = jax.random.split(key)
        step = self._step(feature_key, hyper, params, stats)
        rest = stats.square + jnp.sum(step * (product(stats.gram, step) - 2 * stats.cross))
        drawn = params + step
        if self.noise_prior is not None:
            # from a far reference, as the first is, the sum of squares cancels
            anew = lambda: comm.sum(self.statistics(drawn, rows).square)
            rest = jax.lax.cond(rest < _CANCELS * stats.square, anew, lambda: rest)
        active = counts > 0
        size = jnp.sum(jnp.where(active[:, None], drawn**2, 0))
        num = jnp.stack([jnp.asarray(num_items, float) * self.dim, jnp.sum(active) * self.dim])
        new = _redraw_scales(scale_key, self.priors, hyper, num, jnp.stack([rest, size]))
        # the scale's draw integrates out what no item has, which must then be of the new scale
        rescaled = drawn * (new["feature_scale"] / hyper["feature_scale"]).astype(drawn.dtype)
        return new, jnp.where(active[:, None], drawn, rescaled)

    def report(
        self, key: Any, hyper: Hyper, params: Theta, stats: LinearSums, counts: Int[Array, " K"]
    ) -> Theta:
        drawn = params + self._step(key, hyper, params, stats)
        return jnp.where(counts[:, None] > 0, drawn, 0)

    def _step(self, key: Any, hyper: Hyper, params: Theta, stats: LinearSums) -> Theta:
        """What to add to the reference for a draw: the posterior mean less it, and noise."""
        noise, ratio = _scales(hyper, params.dtype)
        root = factor(stats.gram, ratio)
        spread = noise * slot_normal(key, params.shape, params.dtype)
        half = solve_triangular(root, stats.cross - ratio * params, lower=True)
        return solve_triangular(root, half + spread, lower=True, trans="T")

    def logdensity(self, hyper: Hyper, params: Theta, rows: FeatureRows) -> Float[Array, ""]:
        """-(n D / 2) log 2 pi s^2 - (D / 2) log |Q / r| - (|X - Z m|^2 + r |m|^2) / 2 s^2.

        m = Q^-1 Z'X and r = (s / s_A)^2; |X|^2 - |L^-1 Z'X|^2 is the same, and would cancel.
        """
        noise, ratio = _scales(hyper, params.dtype)
        gram, cross, _ = self.statistics(jnp.zeros_like(params), rows)
        root = factor(gram, ratio)
        mean = cho_solve((root, True), cross)
        square = self.statistics(mean, rows).square
        log_root = jnp.sum(jnp.log(jnp.diagonal(root))) - params.shape[0] * jnp.log(ratio) / 2
        num = jnp.sum(rows.real) * (self.dim / 2)  # no product of whole numbers, which may wrap
        log_scale = num * jnp.log(2 * jnp.pi * noise**2) + self.dim * log_root
        return -log_scale - (square + ratio * jnp.sum(mean**2)) / (2 * noise**2)

    def _residual(self, items: Any, entries: Array, params: Theta) -> Float[Array, "n D"]:
        items = _inputs.rows(items, self.dim).astype(params.dtype)
        return items - product(entries.T, params)

    # ----------------------------------------------------------------- rows, together or alone

    def together(self, hyper: Hyper, params: Theta, rows: FeatureRows) -> LinearRows:
        noise, _ = _scales(hyper, params.dtype)
        entries, scaled = rows.features.astype(params.dtype), params / noise**2
        residual = self._residual(rows.items, entries, params)
        nothing = jnp.zeros_like(entries)
        return LinearRows(product(scaled, residual.T), product(scaled, params.T), nothing)

    def carried(
        self, hyper: Hyper, stats: LinearSums, instantiated: Bool[Array, " K"]
    ) -> LinearTail:
        return LinearTail.of(stats, ~instantiated, _scales(hyper, stats.gram.dtype)[1])

    def move(
        self,
        carried: LinearTail,
        params: Theta,
        item: Any,
        entries: Int[Array, " K"],
        sign: Int[Array, ""],
    ) -> LinearTail:
        z, x = entries.astype(params.dtype), _inputs.row(item, self.dim).astype(params.dtype)
        return carried.moved(z, x - product(z, params), x, sign)

    def demote(
        self, carried: LinearTail, params: Theta, instantiated: Bool[Array, " K"]
    ) -> tuple[LinearTail, Theta]:
        fewer = self.marginalise(params, instantiated)
        return carried.without(params, fewer, ~instantiated), fewer

    def restored(self, carried: LinearTail, params: Theta) -> LinearTail:
        return carried.restored(params)

    def alone(
        self,
        hyper: Hyper,
        params: Theta,
        carried: LinearTail,
        shared: Bool[Array, " K"],
        own: Bool[Array, " K"],
        item: Any,
        entries: Int[Array, " K"],
    ) -> LinearRow:
        dtype, z = params.dtype, entries.astype(params.dtype)
        noise, ratio = _scales(hyper, dtype)
        # nothing is expected of a feature that is the row's alone, and its variance is in `own`
        means = carried.means
        residual = _inputs.row(item, self.dim).astype(dtype) - product(z, means)
        spread = product(carried.variance, shared * z)
        return LinearRow(
            levels=jnp.stack([product(residual, residual), 1 + product(shared * z, spread)]),
            slopes=jnp.stack([-product(means, residual), spread]),
            curves=jnp.stack([carried.products, carried.variance], axis=1),
            own=own.astype(dtype) / ratio,
            alone=jnp.sum(own * z**2) / ratio,
            noise_variance=noise**2,
            dim=self.dim,
        )


def _scales(hyper: Hyper, dtype: Any) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """s, and (s / s_A)^2."""
    noise, scale = (hyper[name].astype(dtype) for name in ("noise_scale", "feature_scale"))
    return noise, (noise / scale) ** 2


def _redraw_scales(
    key: Any,
    priors: dict[str, Any],
    hyper: Hyper,
    num: Float[Array, "2"],
    square: Float[Array, "2"],
) -> Hyper:
    """Standard deviations of `num` normals whose squares add up to `square`."""
    if all(prior is None for prior in priors.values()):
        return hyper
    shape, scale = (jnp.stack([(p or (1.0, 1.0))[i] for p in priors.values()]) for i in (0, 1))
    log_precision = log_gamma(key, shape + num / 2) - jnp.log(scale + square / 2)
    drawn = dict(zip(priors, jnp.exp(-log_precision / 2)))
    return hyper | {
        name: drawn[name].astype(hyper[name].dtype)
        for name, prior in priors.items()
        if prior is not None
    }
