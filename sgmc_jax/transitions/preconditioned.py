"""L: a preconditioned Euler step of Langevin dynamics."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, PyTree

from .. import _tree
from .._checks import real, schedule
from .._types import Position
from .transition import Phase, Transition


class PreconditionedLangevin(Transition):
    """`x <- x + h P g + N(0, 2 h T P)`, P = 1 / (epsilon + sqrt(v)), then `v <- a v + (1 - a) g^2`.

    Elementwise. P is made of earlier gradients, so that it and g share no noise. v is the
    `"mean_square"` of the phase; it begins as the mean over all coordinates of the first g^2, and
    is fixed after `freeze_after` steps, which the phase counts as `"updates"`.
    """

    decay: Array = eqx.field(converter=real("decay"))
    epsilon: Array = eqx.field(converter=real("epsilon"))
    temperature: Any = eqx.field(converter=schedule("temperature"), default=1.0)
    freeze_after: Array | None = None
    random: ClassVar[bool] = True
    moves: ClassVar[bool] = True
    uses_field: ClassVar[bool] = True
    uses_momentum: ClassVar[bool] = False
    straight: ClassVar[bool] = True

    def auxiliary(self, position: Position) -> dict[str, PyTree]:
        ones = jax.tree.map(jnp.ones_like, position)
        return {"mean_square": ones, "updates": jnp.zeros((), jnp.int32)}

    def __call__(self, key: Any, phase: Phase, h: Array, field: PyTree | None) -> Phase:
        updates = phase.auxiliary["updates"]
        overall = optax.tree.norm(field, squared=True) / _tree.size(phase.position)
        first = lambda v: jnp.where(updates == 0, overall.astype(v.dtype), v)
        square = jax.tree.map(first, phase.auxiliary["mean_square"])

        def moved(x: Array, v: Array, g: Array, xi: Array) -> Array:
            step = (h / (self.epsilon + jnp.sqrt(v))).astype(x.dtype)
            deviation = jnp.sqrt(2 * step * self.temperature).astype(x.dtype)
            return x + step * g.astype(x.dtype) + deviation * xi

        noise = _tree.normal_like(key, phase.position)
        position = jax.tree.map(moved, phase.position, square, field, noise)
        return phase._replace(position=position, auxiliary=self._updated(phase, square, field))

    def _updated(self, phase: Phase, square: PyTree, field: PyTree) -> dict[str, PyTree]:
        """What the phase keeps after one more gradient."""
        updates = phase.auxiliary["updates"]
        adapts = True if self.freeze_after is None else updates < self.freeze_after

        def mean(v: Array, g: Array) -> Array:
            decay = self.decay.astype(v.dtype)
            return jnp.where(adapts, decay * v + (1 - decay) * g.astype(v.dtype) ** 2, v)

        kept = {"mean_square": jax.tree.map(mean, square, field), "updates": updates + 1}
        return phase.auxiliary | kept
