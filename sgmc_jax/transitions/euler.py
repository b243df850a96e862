"""E, L: Euler steps of the momentum and of the overdamped Langevin diffusion, also on manifolds."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from .. import _tree
from .._checks import scalar, schedule
from .noise import NoiseCovariance, NoisyTransition, known_covariance
from .transition import Phase


class EulerMomentum(NoisyTransition):
    """E: `v <- (1 - h C) v + h grad log p(x) + N(0, 2 C T h - h^2 V)`, the Riemannian gradient.

    With a thermostat, its value takes the place of C in the decay, not in the noise.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax.transitions import EulerMomentum, Phase
        >>> phase, gradient = Phase(jnp.array(0.0), momentum=jnp.array(4.0)), jnp.array(6.0)
        >>> cold = EulerMomentum(friction=1.0, temperature=0.0)
        >>> float(cold(jax.random.key(0), phase, jnp.array(0.5), gradient).momentum)  # 2 + 3
        5.0

    Reference:
        Chen, Fox and Guestrin (2014), Stochastic gradient Hamiltonian Monte Carlo; Ding et al.
        (2014), Bayesian sampling using stochastic gradient thermostats.
    """

    friction: Float[Array, ""] = eqx.field(converter=scalar("friction"))
    temperature: Any = eqx.field(converter=schedule("temperature"), default=1.0)
    noise_covariance: NoiseCovariance = known_covariance()
    uses_field: ClassVar[bool] = True

    def __call__(self, key: Any, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Phase:
        noise, clipped = self.noise(key, phase, h)
        friction = phase.auxiliary.get("thermostat", self.friction)
        force = phase.space.gradient(phase.position, field)
        # not (1 - h C) v: where h C is small its digits would be few
        change = _tree.axpy(-h * friction, phase.momentum, _tree.axpy(h, force, noise))
        return phase._replace(momentum=_tree.axpy(1.0, change, phase.momentum), clipped=clipped)

    def variance(self, h: Any, v: Any) -> Float[Array, "..."]:
        return 2 * self.friction * self.temperature * h - h**2 * v


class EulerLangevin(NoisyTransition):
    """L: `x <- x + h g + N(0, 2 T h - h^2 V)`.

    Example: at temperature 0 a step of gradient ascent.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax.transitions import EulerLangevin, Phase
        >>> phase, gradient = Phase(jnp.array(1.0)), jnp.array(6.0)
        >>> float(EulerLangevin(0.0)(jax.random.key(0), phase, jnp.array(0.5), gradient).position)
        4.0

    Reference:
        Welling and Teh (2011), Bayesian learning via stochastic gradient Langevin dynamics.
    """

    temperature: Any = eqx.field(converter=schedule("temperature"), default=1.0)
    noise_covariance: NoiseCovariance = known_covariance()
    moves: ClassVar[bool] = True
    uses_field: ClassVar[bool] = True
    uses_momentum: ClassVar[bool] = False
    straight: ClassVar[bool] = True

    def __call__(self, key: Any, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Phase:
        x = phase.position
        noise, clipped = self.noise(key, phase, h)
        # one addition to x: a drift below the rounding of x counts together with the noise
        step = _tree.axpy(h, field, noise)
        return phase._replace(position=_tree.axpy(1.0, step, x), clipped=clipped)

    def excess(self, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Float[Array, ""]:
        """`h |g|^2 / 2d`, less what is subtracted of V, at most T."""
        x, space = phase.position, phase.space
        heat = h * space.squared_norm(x, space.gradient(x, field)) / (2 * space.dim(x))
        return heat - self.subtracted(phase, h)

    def variance(self, h: Any, v: Any) -> Float[Array, "..."]:
        return 2 * self.temperature * h - h**2 * jnp.asarray(v)


class GeodesicLangevin(EulerLangevin):
    """L: where the geodesic from x with velocity `h s + N(0, 2 T h - h^2 V)` is after time 1.

    s is the Riemannian gradient and the noise tangent; on R^n an Euler step.

    Example: at temperature 0, a quarter of a circle.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Sphere
        >>> from sgmc_jax.transitions import GeodesicLangevin, Phase
        >>> phase, gradient = Phase(jnp.array([1.0, 0.0]), space=Sphere()), jnp.array([7.0, jnp.pi])
        >>> moved = GeodesicLangevin(0.0)(jax.random.key(0), phase, jnp.array(0.5), gradient)
        >>> moved.position.round(3).tolist()
        [0.0, 1.0]
    """

    straight: ClassVar[bool] = False

    def __call__(self, key: Any, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Phase:
        x, space = phase.position, phase.space
        noise, clipped = self.noise(key, phase, h)
        velocity = _tree.axpy(h, space.gradient(x, field), noise)
        return phase._replace(position=space.flow(x, velocity, 1.0)[0], clipped=clipped)
