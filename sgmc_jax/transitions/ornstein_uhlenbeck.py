"""O, F, N: friction and noise on the momentum, together or one at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from .. import _tree
from .._checks import one_number, scalar, schedule
from .noise import NoiseCovariance, NoisyTransition, known_covariance
from .transition import Phase, Transition


class OrnsteinUhlenbeck(NoisyTransition):
    """O: the exact solution of `dv = -C v dt + sqrt(2 C T) dW`.

    `v <- c v + N(0, T (1 - c^2) - ((1 + c) h)^2 V / 4)`, c = exp(-C h). The subtracted part makes
    up for the noise of one stochastic gradient that kicks for h/2 before and h/2 after this piece.

    Example:
        >>> import jax.numpy as jnp
        >>> round(float(OrnsteinUhlenbeck(friction=1.0).variance(jnp.log(2.0), 0.0)), 4)  # 1 - 1/4
        0.75

    Reference:
        Leimkuhler and Matthews (2013), Rational construction of stochastic numerical methods for
        molecular sampling. What is subtracted is ours.
    """

    friction: Float[Array, ""] = eqx.field(converter=scalar("friction"))
    temperature: Any = eqx.field(converter=schedule("temperature"), default=1.0)
    noise_covariance: NoiseCovariance = known_covariance()

    def __call__(self, key: Any, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Phase:
        # in the precision of the momentum, where c is rounded as it is in the variance, but not in
        # half precision, where it would be 1 and leave neither friction nor noise
        dtype = jnp.result_type(jnp.float32, *jax.tree.leaves(phase.momentum))
        own, h = replace(self, friction=self.friction.astype(dtype)), h.astype(dtype)
        noise, clipped = own.noise(key, phase, h)
        decay = jnp.exp(-own.friction * h)
        both = lambda v, e: (e.astype(dtype) + decay * v.astype(dtype)).astype(v.dtype)
        momentum = jax.tree.map(both, phase.momentum, noise)
        return phase._replace(momentum=momentum, clipped=clipped)

    def variance(self, h: Any, v: Any) -> Float[Array, "..."]:
        decay = jnp.exp(-self.friction * h)
        # 1 - c^2 of c as it is rounded: where C h is small its digits are few, and T is right still
        exact = self.temperature * (1 - decay) * (1 + decay)
        return exact - ((1 + decay) * h / 2) ** 2 * v


def optional_friction(value: Any) -> Float[Array, ""] | None:
    """A friction, or `None` for the thermostat's."""
    return None if value is None else one_number("friction", value)


class Friction(Transition):
    """F: `v <- exp(-C h) v`; without a friction C of its own it uses the thermostat's.

    Example:
        >>> import jax.numpy as jnp
        >>> from sgmc_jax.transitions import Friction, Phase
        >>> phase = Phase(jnp.array(0.0), momentum=jnp.array(6.0))
        >>> round(float(Friction(1.0)(None, phase, jnp.log(2.0), None).momentum), 4)
        3.0
    """

    friction: Float[Array, ""] | None = eqx.field(converter=optional_friction, default=None)

    def __call__(self, key: Any, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Phase:
        friction = phase.auxiliary.get("thermostat") if self.friction is None else self.friction
        if friction is None:
            raise ValueError("Friction() needs a thermostat, and no letter of the word is one")
        # by what it takes off, which keeps its digits where C h is small
        lost = _tree.scale(jnp.expm1(-friction * h), phase.momentum)
        return phase._replace(momentum=_tree.axpy(1.0, lost, phase.momentum))


class Noise(NoisyTransition):
    """N: `v <- v + N(0, 2 C T h - h^2 V)`.

    Example:
        >>> [float(Noise(friction=3.0).variance(0.5, v)) for v in (0.0, 4.0)]  # 3 - 4 / 4
        [3.0, 2.0]
    """

    friction: Float[Array, ""] = eqx.field(converter=scalar("friction"))
    temperature: Any = eqx.field(converter=schedule("temperature"), default=1.0)
    noise_covariance: NoiseCovariance = known_covariance()

    def __call__(self, key: Any, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Phase:
        noise, clipped = self.noise(key, phase, h)
        momentum = _tree.axpy(1.0, phase.momentum, noise)
        return phase._replace(momentum=momentum, clipped=clipped)

    def variance(self, h: Any, v: Any) -> Float[Array, "..."]:
        return 2 * self.friction * self.temperature * h - h**2 * v
