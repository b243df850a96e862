"""L: a preconditioned Euler step of Langevin dynamics."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PyTree

from .. import _tree
from .._checks import is_concrete, scalar, schedule, truth, whole
from .._types import Position
from ..random.normal import normal_like
from ..spaces import Space
from .noise import NoiseCovariance, add_counts, known_covariance
from .recipe import check_one_covariance, covariance_over, heat_of, noise_of, own_less
from .transition import Phase, Transition

_LEAST = 1e-30  # in place of a mean square of 0, where g is 0 too


def _as_count(freeze_after: Any) -> Int[Array, ""] | None:
    """A number of steps, or `None`."""
    if freeze_after is None:
        return None
    if is_concrete(freeze_after):
        is_array = isinstance(freeze_after, jax.Array | np.ndarray)
        whole("freeze_after", freeze_after.tolist() if is_array else freeze_after)
    return jnp.asarray(freeze_after, jnp.int32)


class PreconditionedLangevin(Transition):
    """`x <- x + h P g + N(0, 2 h T P - h^2 P V P)`, then `v <- a v + (1 - a) g^2`.

    P = 1 / (epsilon + sqrt(v)), elementwise, and V the covariance of g. P is made of earlier
    gradients, so that it and g share no noise. v is the `"mean_square"` of the phase; it begins as
    the mean over all coordinates of the first g^2, and is fixed after `freeze_after` steps, which
    the phase counts as `"updates"`.

    Negative eigenvalues of the noise are set to zero and counted.

    With `gamma`, v is brought up to date first, and the drift is `P g + T Gamma`, Gamma the
    derivative of P in its own coordinate: `-P^2 (1 - a) g g' / sqrt(v)`, g' the curvature.

    Example: at temperature 0, the first step with P = 1 / (1 + 3).
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax.transitions import Phase, PreconditionedLangevin
        >>> cold = PreconditionedLangevin(decay=0.9, epsilon=1.0, temperature=0.0)
        >>> phase = Phase(jnp.zeros(1), auxiliary=cold.auxiliary(jnp.zeros(1)))
        >>> cold(jax.random.key(0), phase, jnp.array(1.0), jnp.array([3.0])).position.tolist()
        [0.75]

    Reference:
        Li, Chen, Carlson and Carin (2016), Preconditioned stochastic gradient Langevin dynamics for
        deep neural networks; see `psgld` for the departures.
    """

    decay: Float[Array, ""] = eqx.field(converter=scalar("decay"))
    epsilon: Float[Array, ""] = eqx.field(converter=scalar("epsilon"))
    temperature: Any = eqx.field(converter=schedule("temperature"), default=1.0)
    freeze_after: Int[Array, ""] | None = eqx.field(converter=_as_count, default=None)
    gamma: bool = eqx.field(static=True, default=False)
    noise_covariance: NoiseCovariance = known_covariance()
    random: ClassVar[bool] = True
    moves: ClassVar[bool] = True
    uses_field: ClassVar[bool] = True
    uses_momentum: ClassVar[bool] = False
    straight: ClassVar[bool] = True
    corrects: ClassVar[bool] = True

    def __check_init__(self):
        truth("gamma", self.gamma)

    def auxiliary(self, position: Position) -> dict[str, PyTree]:
        # half precision has neither the squares nor a decay near 1
        ones = lambda x: jnp.ones(x.shape, jnp.promote_types(x.dtype, jnp.float32))
        return {"mean_square": jax.tree.map(ones, position), "updates": jnp.zeros((), jnp.int32)}

    def __call__(self, key: Any, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Phase:
        kept, used = self._means(phase, field)
        p = self._matrix(used)
        drift = jax.tree.map(lambda p, g: p * g.astype(p.dtype), p, field)
        if self.gamma:
            gamma = self._gamma(phase.auxiliary["updates"], p, used, field, phase.curvature)
            drift = _tree.axpy(self.temperature, gamma, drift)
        noise, clipped = self._noise(key, phase, h, p)
        due = lambda x, d, xi: h.astype(x.dtype) * d.astype(x.dtype) + xi.astype(x.dtype)
        moved = lambda x, d, xi: x + due(x, d, xi)
        return phase._replace(
            position=jax.tree.map(moved, phase.position, drift, noise),
            auxiliary=phase.auxiliary | kept,
            clipped=add_counts(phase.clipped, clipped),
        )

    def excess(self, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Float[Array, ""]:
        """`h g' P g / 2d`, less what is subtracted of V, at most T."""
        p = self._matrix(self._means(phase, field)[1])
        v = covariance_over(phase.position, phase.covariance, self.noise_covariance)
        if v is None:
            square = lambda p, g: jnp.sum(p * g.astype(p.dtype) ** 2)
            total = optax.tree.sum(jax.tree.map(square, p, field))
            return h * total / (2 * _tree.size(phase.position))
        d, g = (ravel_pytree(x)[0] for x in (p, field))
        return heat_of(d, g.astype(d.dtype), v, h, self.temperature)

    def _noise(
        self, key: Any, phase: Phase, h: Float[Array, ""], p: PyTree
    ) -> tuple[PyTree, Int[Array, ""] | None]:
        """The noise, and how many of its eigenvalues are set to zero."""
        v = covariance_over(phase.position, phase.covariance, self.noise_covariance)
        if v is None:
            root = lambda p, xi: jnp.sqrt(2 * h * p * self.temperature).astype(xi.dtype) * xi
            return jax.tree.map(root, p, normal_like(key, phase.position)), None
        d, unravel = ravel_pytree(p)
        left = own_less(2 * h * self.temperature * d, h, d, v.astype(d.dtype))
        noise, clipped = noise_of(key, left.astype(d.dtype))
        return unravel(noise.astype(d.dtype)), clipped

    def _means(self, phase: Phase, field: PyTree) -> tuple[dict[str, PyTree], PyTree]:
        """What the phase keeps after this gradient, and the v of which P is made."""
        wide = jax.tree.map(lambda v, g: g.astype(v.dtype), phase.auxiliary["mean_square"], field)
        overall = optax.tree.norm(wide, squared=True) / _tree.size(phase.position)
        begins = phase.auxiliary["updates"] == 0
        first = lambda v: jnp.where(begins, overall.astype(v.dtype), v)
        square = jax.tree.map(first, phase.auxiliary["mean_square"])
        kept = self._updated(phase, square, field)
        return kept, kept["mean_square"] if self.gamma else square

    def _matrix(self, square: PyTree) -> PyTree:
        """The diagonal of P; of squares that overflow none, or the chain would stand still."""
        one = lambda v: 1 / (self.epsilon.astype(v.dtype) + jnp.sqrt(v))
        return jax.tree.map(lambda v: jnp.where(jnp.isinf(v), jnp.nan, one(v)), square)

    def check(self, h: Any, space: Space, estimated: str | None = None) -> None:
        check_one_covariance(self.noise_covariance, estimated)
        if self.gamma and (estimated or self.subtracts):
            raise ValueError(
                "gamma must be False where noise is subtracted, as P is then made of the gradient "
                "whose noise it is"
            )

    def check_position(self, position: Position) -> None:
        self.noise_covariance.check(position)

    def _gamma(
        self, updates: Array, p: PyTree, square: PyTree, field: PyTree, curvature: PyTree | None
    ) -> PyTree:
        """The derivative of P, which is 0 where it is fixed."""
        if curvature is None:
            raise ValueError("gamma needs an estimator that tells its curvature, got one without")
        adapts = True if self.freeze_after is None else updates < self.freeze_after
        share = jnp.where(adapts, 1 - self.decay, 0.0)

        def one(p: Array, v: Array, g: Array, slope: Array) -> Array:
            direction = (g * slope).astype(v.dtype) / jnp.sqrt(jnp.maximum(v, _LEAST))
            return -(p**2) * share.astype(v.dtype) * direction

        return jax.tree.map(one, p, square, field, curvature)

    def _updated(self, phase: Phase, square: PyTree, field: PyTree) -> dict[str, PyTree]:
        """What the phase keeps after one more gradient."""
        updates = phase.auxiliary["updates"]
        adapts = True if self.freeze_after is None else updates < self.freeze_after

        def mean(v: Float[Array, "*n"], g: Float[Array, "*n"]) -> Float[Array, "*n"]:
            decay = self.decay.astype(v.dtype)
            return jnp.where(adapts, decay * v + (1 - decay) * g.astype(v.dtype) ** 2, v)

        return {"mean_square": jax.tree.map(mean, square, field), "updates": updates + 1}
