"""Bijectors by the name of their support, and those of other libraries."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .. import _checks
from .bijector import Bijector, Identity
from .matrices import Correlation, CorrelationCholesky, Covariance
from .vectors import Exp, GreaterThan, Interval, LessThan, Ordered, StickBreaking


def _strong(x: Any) -> Any:
    """A real number as an array leaf, whole numbers as they are: they may be indices or sizes."""
    is_real = isinstance(x, float) or jnp.issubdtype(getattr(x, "dtype", int), jnp.floating)
    return _checks.as_real(x) if is_real else x


class _Static(eqx.Module):
    """An object that is no pytree."""

    value: Any = eqx.field(static=True)


class Foreign(Bijector):
    """A bijector of another library, by the methods that it has.

    Either `forward`, `inverse` and `forward_log_det_jacobian`, or those of numpyro's transforms:
    `__call__`, `_inverse` and `log_abs_det_jacobian`.

    Example:
        >>> class Twice:
        ...     forward, inverse = staticmethod(lambda z: 2 * z), staticmethod(lambda x: x / 2)
        ...     forward_log_det_jacobian = staticmethod(lambda z: jnp.full(z.shape, jnp.log(2.0)))
        >>> bijector = Foreign(Twice())
        >>> float(bijector.forward(jnp.array(3.0))), round(float(bijector.log_det(jnp.zeros(2))), 4)
        (6.0, 1.3863)
    """

    owner: Any

    def __init__(self, bijector: Any):
        _check_methods("bijector", bijector)
        is_leaf = jax.tree.structure(bijector) == jax.tree.structure(0)
        self.owner = _Static(bijector) if is_leaf else jax.tree.map(_strong, bijector)

    @property
    def bijector(self) -> Any:
        """The object itself."""
        return self.owner.value if isinstance(self.owner, _Static) else self.owner

    @property
    def _is_transform(self) -> bool:
        return hasattr(self.bijector, "log_abs_det_jacobian")

    def forward(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.bijector(z) if self._is_transform else self.bijector.forward(z)

    def inverse(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.bijector._inverse(x) if self._is_transform else self.bijector.inverse(x)

    def log_det(self, z: Float[Array, "..."]) -> Float[Array, ""]:
        if self._is_transform:
            return jnp.sum(self.bijector.log_abs_det_jacobian(z, self.bijector(z)))
        return jnp.sum(self.bijector.forward_log_det_jacobian(z))


NAMES: dict[str, Callable[[], Bijector]] = {
    "real": Identity,
    "positive": Exp,
    "unit_interval": lambda: Interval(0.0, 1.0),
    "simplex": StickBreaking,
    "ordered": Ordered,
    "correlation": Correlation,
    "correlation_cholesky": CorrelationCholesky,
    "covariance": Covariance,
}
# what numpyro calls them
NAMES |= {
    "ordered_vector": Ordered,
    "corr_matrix": Correlation,
    "corr_cholesky": CorrelationCholesky,
    "positive_definite": Covariance,
}
# supports with bounds: how many they have, and what makes the bijector of them
BOUNDED: dict[str, tuple[int, Callable[..., Bijector]]] = {
    "interval": (2, Interval),
    "greater_than": (1, GreaterThan),
    "less_than": (1, LessThan),
}
_CALL = re.compile(r"(\w+)\((.*)\)")


def as_bijector(name: str, constraint: Any) -> Bijector:
    """The bijector onto a support that is given by its name, a numpyro constraint or a bijector.

    Args:
        name: what is constrained, for messages.
        constraint: a key of `NAMES`, or `"interval(a, b)"`, `"greater_than(a)"` or
            `"less_than(b)"`; or a constraint of numpyro; or a bijector, of this library or another.
            `None` stands for `"real"`.

    Example:
        >>> float(as_bijector("share", "interval(0, 2)").forward(jnp.array(0.0)))
        1.0
    """
    if constraint is None:
        return Identity()
    if isinstance(constraint, Bijector):
        return constraint
    if isinstance(constraint, str):
        return _named(name, constraint)
    numpyro = sys.modules.get("numpyro.distributions")
    if numpyro is not None and isinstance(constraint, numpyro.constraints.Constraint):
        try:
            return Foreign(numpyro.biject_to(constraint))
        except NotImplementedError as error:
            raise ValueError(
                f"{name} must have a support with a bijection from R^n, got {constraint}"
            ) from error
    _check_methods(name, constraint)
    return Foreign(constraint)


def _check_methods(name: str, bijector: Any) -> None:
    methods = ("forward", "inverse", "forward_log_det_jacobian")
    if hasattr(bijector, "log_abs_det_jacobian"):
        return
    if not all(hasattr(bijector, method) for method in methods):
        raise TypeError(
            f"{name} must be the name of a support, a numpyro constraint or a bijector (with the "
            f"methods {', '.join(methods)}), got {type(bijector).__name__}"
        )


def _named(name: str, support: str) -> Bijector:
    if support in NAMES:
        return NAMES[support]()
    found = _CALL.fullmatch(support.strip())
    if found and found[1] in BOUNDED:
        num, make = BOUNDED[found[1]]
        try:
            bounds = [float(bound) for bound in found[2].split(",")]
            if len(bounds) == num:
                return make(*bounds)
        except ValueError:
            pass
        wanted = "two bounds, lower < upper" if num == 2 else "one bound, a finite number"
        raise ValueError(f"{name} must have {wanted}, got {_checks.shown(support)}")
    bounded = "interval(a, b), greater_than(a), less_than(b)"
    raise ValueError(
        f"{name} must be one of {', '.join(NAMES)}, {bounded}, got {_checks.shown(support)}"
    )
