"""R: the momentum drawn anew."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from .. import _tree
from .._checks import schedule
from .transition import Phase, Transition


class MomentumRefreshment(Transition):
    """R: `v <- N(0, T I)`, tangent, of whatever length the time: O where C h is infinite.

    Example: at temperature 0.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax.transitions import MomentumRefreshment, Phase
        >>> phase = Phase(jnp.zeros(2), momentum=jnp.ones(2))
        >>> cold = MomentumRefreshment(temperature=0.0)
        >>> cold(jax.random.key(0), phase, jnp.array(0.1), None).momentum.tolist()
        [0.0, 0.0]

    Reference:
        Nemeth and Fearnhead (2019), Stochastic gradient Markov chain Monte Carlo, section 3.1,
        whose SG-HMC begins every few steps of Chen, Fox and Guestrin (2014) with it.
    """

    temperature: Any = eqx.field(converter=schedule("temperature"), default=1.0)
    random: ClassVar[bool] = True

    def __call__(self, key: Any, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Phase:
        momentum = _tree.scale(jnp.sqrt(self.temperature), phase.space.normal(key, phase.position))
        return phase._replace(momentum=momentum)
