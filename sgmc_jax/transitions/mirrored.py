"""M: an Euler step of Langevin dynamics in dual coordinates."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from .. import _tree
from .._checks import schedule
from .._types import Position
from ..mirrors import Mirror, as_mirror
from ..random.normal import normal_like
from .transition import Phase, Transition


class MirroredLangevin(Transition):
    """`y <- y + h (J' g + T grad log |J|) + N(0, 2 T h)`, y the dual of x and J = dx / dy.

    Example: at temperature 0.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import PositiveMirror
        >>> from sgmc_jax.transitions import MirroredLangevin, Phase
        >>> cold, phase = MirroredLangevin(PositiveMirror(), temperature=0.0), Phase(jnp.ones(1))
        >>> moved = cold(jax.random.key(0), phase, jnp.array(0.5), jnp.array([2 * jnp.log(3.0)]))
        >>> moved.position.round(4).tolist()  # y = log x goes from 0 to log 3
        [3.0]

    Reference:
        Hsieh, Kavis, Rolland and Cevher (2018), Mirrored Langevin dynamics.
    """

    mirror: Mirror = eqx.field(converter=as_mirror)
    temperature: Any = eqx.field(converter=schedule("temperature"), default=1.0)
    random: ClassVar[bool] = True
    moves: ClassVar[bool] = True
    uses_field: ClassVar[bool] = True
    bounded: ClassVar[bool] = True
    uses_momentum: ClassVar[bool] = False
    straight: ClassVar[bool] = True

    def __call__(self, key: Any, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Phase:
        y = self.mirror.dual(phase.position)
        noise = _tree.scale(jnp.sqrt(2 * self.temperature * h), normal_like(key, y))
        y = _tree.axpy(1.0, _tree.axpy(h, self._drift(y, field), noise), y)
        return phase._replace(position=self.mirror.primal(y))

    def excess(self, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Float[Array, ""]:
        """`h |J' g + T grad log |J||^2 / 2d`, in the dual coordinates."""
        y = self.mirror.dual(phase.position)
        return h * optax.tree.norm(self._drift(y, field), squared=True) / (2 * _tree.size(y))

    def _drift(self, y: PyTree, field: PyTree) -> PyTree:
        x, pull = jax.vjp(self.mirror.primal, y)
        (pulled,) = pull(jax.tree.map(lambda x, g: g.astype(x.dtype), x, field))
        return _tree.axpy(self.temperature, jax.grad(self.mirror.log_element)(y), pulled)

    def check_position(self, position: Position) -> None:
        self.mirror.check(position)
