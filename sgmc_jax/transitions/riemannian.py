"""P, X: the momentum and the position of Hamiltonian dynamics with a metric of its own."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from .._checks import of_kind, scalar, schedule, truth
from .._types import Position
from ..arrays import product
from ..random import normal
from ..spaces import Space
from .noise import NoiseCovariance, add_counts, check_left, known_covariance
from .position_matrix import Divergence, MatrixOrDiagonal, PositionMatrix, dense, times
from .recipe import check_one_covariance, covariance_over, noise_of, own_less
from .transition import Phase, Transition


class InverseMetric(eqx.Module):
    """The inverse of a metric at each position, or a factor R of it, G^-1 = R R'.

    Example:
        >>> import jax.numpy as jnp
        >>> metric = InverseMetric(PositionMatrix("metric", lambda x: x**2))
        >>> metric.root(jnp.array([2.0, 3.0])).tolist()
        [2.0, 3.0]
    """

    matrix: PositionMatrix = eqx.field(converter=of_kind("matrix", PositionMatrix))
    factor: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        truth("factor", self.factor)

    def root(self, position: Position) -> Float[Array, " d"] | Float[Array, "d d"]:
        """R, or its diagonal; of G^-1 the Cholesky factor."""
        matrix = self.matrix.at(position)
        if self.factor:
            return matrix
        if matrix.ndim == 1:
            return jnp.sqrt(matrix)
        wide = jnp.promote_types(matrix.dtype, jnp.float32)  # there is no half precision of it
        return jnp.linalg.cholesky(matrix.astype(wide)).astype(matrix.dtype)

    def check(self, position: Position) -> None:
        """Raise unless it is positive definite at a position."""
        if self.factor:
            self.matrix.check_factor(position)
        else:
            self.matrix.check(position, definite=True)


class RiemannianMomentum(Transition):
    """P: `v <- v + h (R' g - C R R' v + T div R') + N(0, 2 h C T R R' - h^2 R' V R)`, G^-1 = R R'.

    `(div R')_i = sum_j d R_ji / d x_j`. Negative eigenvalues of the noise are set to zero and
    counted.

    Example: at temperature 0, 1 + h (2 * 3 - 0.5 * 4 * 1).
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax.transitions import Phase, RiemannianMomentum
        >>> metric = InverseMetric(PositionMatrix("metric", 4.0))  # R = 2
        >>> cold = RiemannianMomentum(metric, friction=0.5, temperature=0.0)
        >>> phase, gradient = Phase(jnp.zeros(1), jnp.ones(1)), jnp.array([3.0])
        >>> cold(jax.random.key(0), phase, jnp.array(0.5), gradient).momentum.tolist()
        [3.0]

    Reference:
        Ma, Chen and Fox (2015), A complete recipe for stochastic gradient MCMC, for SGRHMC.
    """

    metric: InverseMetric = eqx.field(converter=of_kind("metric", InverseMetric))
    friction: Float[Array, ""] = eqx.field(converter=scalar("friction"))
    gamma: Divergence = eqx.field(converter=of_kind("gamma", Divergence), default=Divergence())
    noise_covariance: NoiseCovariance = known_covariance()
    temperature: Any = eqx.field(converter=schedule("temperature"), default=1.0)
    random: ClassVar[bool] = True
    uses_field: ClassVar[bool] = True
    straight: ClassVar[bool] = True
    corrects: ClassVar[bool] = True

    def __call__(self, key: Any, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Phase:
        v, unravel = ravel_pytree(phase.momentum)
        key, gamma_key = jax.random.split(key) if self.gamma.how == "jvp" else (key, None)
        root = self.metric.root(phase.position)
        g = ravel_pytree(field)[0].astype(v.dtype)
        force = times(root.T, g) - self.friction.astype(v.dtype) * times(root, times(root.T, v))
        if callable(self.metric.matrix.value):
            divergence = self.gamma(gamma_key, self._product, phase.position)
            force = force + self.temperature.astype(v.dtype) * divergence
        covariance = covariance_over(phase.position, phase.covariance, self.noise_covariance)
        if covariance is None:
            deviation = jnp.sqrt(2 * h * self.friction * self.temperature).astype(v.dtype)
            noise = deviation * times(root, normal(key, v.shape, v.dtype))
            clipped = None
        else:
            left = self._noise_covariance(root, covariance, h)
            noise, clipped = noise_of(key, left.astype(v.dtype))
        momentum = unravel(v + h.astype(v.dtype) * force + noise.astype(v.dtype))
        return phase._replace(momentum=momentum, clipped=add_counts(phase.clipped, clipped))

    def _product(self, position: Position, z: Float[Array, " d"]) -> Float[Array, " d"]:
        """`R' z`."""
        return times(self.metric.root(position).T, z)

    def _noise_covariance(
        self, root: MatrixOrDiagonal, v: MatrixOrDiagonal, h: Any
    ) -> MatrixOrDiagonal:
        scale = 2 * h * self.friction * self.temperature
        own = root**2 if root.ndim == 1 else product(root, root.T)
        return own_less(scale * own, h, root.T, v)

    def check(self, h: Any, space: Space, estimated: str | None = None) -> None:
        check_one_covariance(self.noise_covariance, estimated)

    def check_position(self, position: Position) -> None:
        self.noise_covariance.check(position)
        self.metric.check(position)
        self.gamma.check(self._product, position)

    def check_start(self, position: Position, h: Any) -> None:
        """Raise if a noise covariance that is given exceeds the noise where the chain begins."""
        v = self.noise_covariance.over(position)
        if v is not None:
            check_left(dense(self._noise_covariance(self.metric.root(position), v, h)), h)


class RiemannianFlow(Transition):
    """X: `x <- x + h R v`, R as it is where x has been.

    Example:
        >>> import jax.numpy as jnp
        >>> from sgmc_jax.transitions import InverseMetric, Phase, PositionMatrix, RiemannianFlow
        >>> piece = RiemannianFlow(InverseMetric(PositionMatrix("metric", 4.0)))  # R = 2
        >>> piece(None, Phase(jnp.zeros(1), jnp.ones(1)), jnp.array(0.5), None).position.tolist()
        [1.0]
    """

    metric: InverseMetric = eqx.field(converter=of_kind("metric", InverseMetric))
    moves: ClassVar[bool] = True
    straight: ClassVar[bool] = True

    def __call__(self, key: Any, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Phase:
        x, unravel = ravel_pytree(phase.position)
        v, _ = ravel_pytree(phase.momentum)
        moved = x + h.astype(x.dtype) * times(self.metric.root(phase.position), v.astype(x.dtype))
        return phase._replace(position=unravel(moved))
