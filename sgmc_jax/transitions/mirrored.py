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
from .._estimators import Pull
from .._types import Position
from ..mirrors import Mirror, as_mirror
from .noise import NoiseCovariance, NoisyTransition, known_covariance
from .transition import Phase


class MirroredLangevin(NoisyTransition):
    """`y <- y + h (J' g + T grad log |J|) + N(0, 2 T h - h^2 V)`, y the dual of x and J = dx / dy.

    V is the covariance of J' g, the gradient in dual coordinates.

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
    noise_covariance: NoiseCovariance = known_covariance()
    moves: ClassVar[bool] = True
    uses_field: ClassVar[bool] = True
    bounded: ClassVar[bool] = True
    uses_momentum: ClassVar[bool] = False
    straight: ClassVar[bool] = True

    def __call__(self, key: Any, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Phase:
        dual = self._dual(phase)
        noise, clipped = self.noise(key, dual, h)
        step = _tree.axpy(h, self._drift(phase.position, field), noise)
        moved = self.mirror.primal(_tree.axpy(1.0, step, dual.position))
        return phase._replace(position=moved, clipped=clipped)

    def excess(self, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Float[Array, ""]:
        """`h |J' g + T grad log |J||^2 / 2d`, in the dual coordinates, less what is subtracted."""
        drift = self._drift(phase.position, field)
        heat = h * optax.tree.norm(drift, squared=True) / (2 * _tree.size(drift))
        return heat - self.subtracted(self._dual(phase), h)

    def variance(self, h: Any, v: Any) -> Float[Array, "..."]:
        return 2 * self.temperature * h - h**2 * jnp.asarray(v)

    @property
    def pull(self) -> Pull:
        return self.mirror.pull

    def _drift(self, position: Position, field: PyTree) -> PyTree:
        volume = jax.grad(self.mirror.log_element)(self.mirror.dual(position))
        return _tree.axpy(self.temperature, volume, self.mirror.pull(position, field))

    def _dual(self, phase: Phase) -> Phase:
        return phase._replace(position=self.mirror.dual(phase.position))

    def check_position(self, position: Position) -> None:
        self.mirror.check(position)
        super().check_position(self.mirror.dual(position))
