"""Z: an Euler step of the complete recipe."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PyTree

from .. import _returned
from .._checks import of_kind, schedule, truth
from .._types import Position
from ..arrays import product
from ..random import normal
from ..spaces import Space
from .noise import (
    NoiseCovariance,
    add_counts,
    check_left,
    estimated_matrix,
    known_covariance,
)
from .position_matrix import Divergence, MatrixOrDiagonal, PositionMatrix, dense, times
from .symmetric import eigen
from .transition import Phase, Transition


class RecipeEuler(Transition):
    """Z: `z <- z + h ((D + Q) g + T Gamma) + N(0, 2 h T D - h^2 B)`, B = (D + Q) V (D + Q)'.

    D or, if it is given by a `factor` R, D = R R' is symmetric and positive semi-definite, Q
    antisymmetric, `Gamma_i = sum_j d (D + Q)_ij / d z_j` and V the covariance of g. In an
    `extended` position, a tuple, only the first entry of g has noise. Negative eigenvalues of the
    noise are set to zero and counted.

    Example: at temperature 0, D = 2 I and a rotation.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax.transitions import Phase, PositionMatrix, RecipeEuler
        >>> curl = PositionMatrix("curl", jnp.array([[0.0, -1.0], [1.0, 0.0]]))
        >>> cold = RecipeEuler(PositionMatrix("diffusion", 2.0), curl, temperature=0.0)
        >>> phase, gradient = Phase(jnp.zeros(2)), jnp.array([1.0, 0.0])
        >>> cold(jax.random.key(0), phase, jnp.array(0.5), gradient).position.tolist()
        [1.0, 0.5]

    Reference:
        Ma, Chen and Fox (2015), A complete recipe for stochastic gradient MCMC.
    """

    diffusion: PositionMatrix = eqx.field(converter=of_kind("diffusion", PositionMatrix))
    curl: PositionMatrix | None = eqx.field(
        converter=of_kind("curl", PositionMatrix, none=True), default=None
    )
    gamma: Divergence = eqx.field(converter=of_kind("gamma", Divergence), default=Divergence())
    noise_covariance: NoiseCovariance = known_covariance()
    temperature: Any = eqx.field(converter=schedule("temperature"), default=1.0)
    extended: bool = eqx.field(static=True, default=False)
    factor: bool = eqx.field(static=True, default=False)
    random: ClassVar[bool] = True
    moves: ClassVar[bool] = True
    uses_field: ClassVar[bool] = True
    uses_momentum: ClassVar[bool] = False
    straight: ClassVar[bool] = True
    corrects: ClassVar[bool] = True

    def __check_init__(self):
        truth("factor", self.factor)
        truth("extended", self.extended)

    def __call__(self, key: Any, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Phase:
        z, unravel = ravel_pytree(phase.position)
        key, gamma_key = jax.random.split(key) if self.gamma.how == "jvp" else (key, None)
        drift = self._product(phase.position, ravel_pytree(field)[0].astype(z.dtype))
        if callable(self.diffusion.value) or (self.curl and callable(self.curl.value)):
            gamma = self.gamma(gamma_key, self._product, phase.position)
            drift = drift + self.temperature.astype(z.dtype) * gamma
        noise, clipped = self._noise(key, phase, h)
        position = unravel(z + (h.astype(z.dtype) * drift + noise.astype(z.dtype)))
        return phase._replace(position=position, clipped=add_counts(phase.clipped, clipped))

    def excess(
        self, phase: Phase, h: Float[Array, ""], field: PyTree | None
    ) -> Float[Array, ""] | None:
        """`h g' D g / 2d`, less what is subtracted of V, at most T; not known with a curl."""
        if self.curl is not None or self.extended:
            return None
        d, v = self.diffusion.at(phase.position), self._covariance(phase)
        d = self._squared(d) if self.factor else d
        g = ravel_pytree(field)[0].astype(d.dtype)
        return heat_of(d, g, v, h, self.temperature)

    def _squared(self, factor: MatrixOrDiagonal) -> MatrixOrDiagonal:
        """D, of its factor."""
        return factor * factor if factor.ndim == 1 else product(factor, factor.T)

    def _product(self, position: Position, v: Float[Array, " d"]) -> Float[Array, " d"]:
        """`(D + Q) v`."""
        d = self.diffusion.at(position)
        result = times(d, times(d.T, v) if self.factor else v)
        return result if self.curl is None else result + times(self.curl.at(position), v)

    def _noise(
        self, key: Any, phase: Phase, h: Float[Array, ""]
    ) -> tuple[Float[Array, " d"], Int[Array, ""] | None]:
        """The noise, and how many of its eigenvalues are set to zero."""
        d, v = self.diffusion.at(phase.position), self._covariance(phase)
        if self.factor and v is None:
            xi = normal(key, (len(d),), d.dtype)
            return jnp.sqrt(2 * h * self.temperature).astype(d.dtype) * times(d, xi), None
        return noise_of(key, self._noise_covariance(phase.position, d, v, h).astype(d.dtype))

    def _noise_covariance(
        self, position: Position, d: MatrixOrDiagonal, v: MatrixOrDiagonal | None, h: Any
    ) -> MatrixOrDiagonal:
        """`2 h T D - h^2 B`, the diagonal alone where all of it is diagonal."""
        d = self._squared(d) if self.factor else d
        own = 2 * h * self.temperature * d
        if v is None:
            return own
        m = d if self.curl is None else dense(d) + dense(self.curl.at(position))
        return own_less(own, h, m, v)

    def _covariance(self, phase: Phase) -> MatrixOrDiagonal | None:
        """V over the raveled position, its diagonal where it has no more, or `None`."""
        part = phase.position[0] if self.extended else phase.position
        v = covariance_over(part, phase.covariance, self.noise_covariance)
        if v is None:
            return None
        z, _ = ravel_pytree(phase.position)
        return jnp.pad(v, ((0, len(z) - len(v)),) * v.ndim).astype(z.dtype)

    def check(self, h: Any, space: Space, estimated: str | None = None) -> None:
        check_one_covariance(self.noise_covariance, estimated)

    def check_position(self, position: Position) -> None:
        if self.extended and not (isinstance(position, tuple) and len(position) > 1):
            raise TypeError(
                "position must be a tuple, of which the estimator knows the first entry and "
                f"`energy` all, got {type(position).__name__}"
            )
        self.noise_covariance.check(position[0] if self.extended else position)
        if not self.factor:
            self.diffusion.check(position)
        if self.curl is not None:
            self.curl.check_antisymmetric(position)
        self.gamma.check(self._product, position)

    def check_start(self, position: Position, h: Any) -> None:
        """Raise if a noise covariance that is given exceeds the noise where the chain begins."""
        v = self._covariance(Phase(position))
        if v is None:
            return
        d = self.diffusion.at(position)
        check_left(dense(self._noise_covariance(position, d, v, h)), h)


def check_one_covariance(known: NoiseCovariance, estimated: str | None) -> None:
    """Raise if V is both given and estimated."""
    if estimated and known.eigenvalues is not None:
        raise ValueError(f"noise_covariance must be None: {estimated} estimates it")


def covariance_over(
    position: Position, estimated: PyTree | None, known: NoiseCovariance
) -> MatrixOrDiagonal | None:
    """V over the raveled position: what is estimated, or else what is known, of a diagonal (d,)."""
    if estimated is None:
        return known.over(position)
    if _returned.same_form(estimated, position):
        return ravel_pytree(estimated)[0]
    return estimated_matrix(estimated, position)


def own_less(
    own: MatrixOrDiagonal, h: Any, m: MatrixOrDiagonal, v: MatrixOrDiagonal
) -> MatrixOrDiagonal:
    """`own - h^2 M V M'`, the diagonal alone where all of it is diagonal."""
    if own.ndim == m.ndim == v.ndim == 1:
        return own - h**2 * m * v * m
    m = dense(m)
    return dense(own) - h**2 * product(product(m, dense(v).astype(m.dtype)), m.T)


def heat_of(
    d: MatrixOrDiagonal, g: Float[Array, " d"], v: MatrixOrDiagonal | None, h: Any, temperature: Any
) -> Float[Array, ""]:
    """`h g' D g / 2d`, less what is subtracted of V: at most T, of matrices in the mean."""
    heat = h * product(g, times(d, g)) / (2 * len(g))
    if v is None:
        return heat
    lost = d * v if d.ndim == v.ndim == 1 else jnp.sum(dense(d) * dense(v)) / len(g)
    return heat - jnp.mean(jnp.minimum(h * lost / 2, temperature))


def noise_of(key: Any, covariance: MatrixOrDiagonal) -> tuple[Float[Array, " d"], Int[Array, ""]]:
    """N(0, covariance), the matrix or its diagonal, and how many eigenvalues are set to zero."""
    variances, basis = (covariance, None) if covariance.ndim == 1 else eigen(covariance)
    xi = normal(key, variances.shape, variances.dtype)
    noise = jnp.sqrt(jnp.maximum(variances, 0)) * xi
    clipped = jnp.sum(variances < 0, dtype=jnp.int32)
    return (noise if basis is None else product(basis, noise)), clipped
