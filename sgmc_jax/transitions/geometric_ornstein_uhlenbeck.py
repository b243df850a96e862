"""G: the geometric Ornstein-Uhlenbeck process, whose logarithm is an Ornstein-Uhlenbeck process."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from .. import _tree
from .._checks import real, within
from .._types import Position
from ..spaces import Space
from .noise import NoiseCovariance, NoisyTransition, known_covariance
from .transition import Phase


class GeometricOrnsteinUhlenbeck(NoisyTransition):
    """`y <- m + c (y - m) + N(0, s^2 (1 - c^2) - (1 - c)^2 V)`, c = exp(-h): y is log x.

    The exact solution of `dx = x (m + s^2 - log x) dt + sqrt(2) s x dW`. The location m is the
    field, estimated anew from each minibatch, and V the variance of that estimate.

    Example: without noise, half of the way to the location.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax.transitions import GeometricOrnsteinUhlenbeck, Phase
        >>> phase, location = Phase(jnp.array(2.0)), jnp.array(0.0)
        >>> still = GeometricOrnsteinUhlenbeck(scale=0.0)
        >>> round(float(still(jax.random.key(0), phase, jnp.log(2.0), location).position), 4)
        1.0

    Reference:
        Baker, Fearnhead, Fox and Nemeth (2018), Large-scale stochastic sampling from the
        probability simplex, section 3.3, who propose geometric Brownian motion; see
        `geometric_ornstein_uhlenbeck`.
    """

    scale: Float[Array, "..."] = eqx.field(converter=real("scale", wide=True))
    noise_covariance: NoiseCovariance = known_covariance()
    moves: ClassVar[bool] = True
    uses_field: ClassVar[bool] = True
    uses_momentum: ClassVar[bool] = False
    straight: ClassVar[bool] = True

    def __call__(self, key: Any, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Phase:
        y = phase.position
        noise, clipped = self.noise(key, phase, h)
        drift = jax.tree.map(lambda m, y: m.astype(y.dtype) - y, field, y)
        moved = _tree.axpy(1.0, _tree.axpy(-jnp.expm1(-h), drift, noise), y)
        return phase._replace(position=moved, clipped=clipped)

    def __check_init__(self):
        if not self.scale.size:
            raise ValueError(f"scale must have a number, got shape {self.scale.shape}")

    def check(self, h: Any, space: Space, estimated: str | None = None) -> None:
        # those of coordinates do not belong to the eigenvectors of a matrix
        if self.scale.ndim and (estimated or self.noise_covariance.basis is not None):
            raise ValueError(
                "scale must be one number beside a noise_covariance that is a matrix or estimated, "
                f"got shape {self.scale.shape}"
            )
        super().check(h, space, estimated)

    def check_position(self, position: Position) -> None:
        super().check_position(position)
        for leaf in jax.tree.leaves(position):
            within("scale", self.scale, leaf)

    def variance(self, h: Any, v: Any) -> Float[Array, "..."]:
        return -(self.scale**2) * jnp.expm1(-2 * h) - jnp.expm1(-h) ** 2 * jnp.asarray(v)
