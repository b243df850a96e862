"""The log density of a numpyro model, split over its items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Real, Shaped

from .. import _checks
from .._types import Data, Position
from ..collective import leading_axis
from ..model import Model
from ._numpyro_trace import Items, log_probs, require_numpyro, traced

_SOME = 256  # items that a model is tried on
_ROUNDING = 1e-3
_ALIKE = 1e-5  # of a deterministic site, whose size may be any


class NumpyroDensity(Model):
    """The log density of a numpyro model in the coordinates of its sites, split over its items."""

    function: Callable = eqx.field(static=True)
    sites: Items | None = eqx.field(static=True)
    fixed: PyTree  # the arrays among the arguments that are no items
    static: Any = eqx.field(static=True)  # and what else there is among them
    row: Any = eqx.field(static=True)  # the shapes and dtypes of the rows

    def __init__(self, function: Callable, sites: Items | None, rows: dict, fixed: dict):
        arrays = (float, np.ndarray, np.generic, jax.Array)
        fixed = jax.tree.map(_plain, fixed)
        dynamic, static = eqx.partition(fixed, lambda x: isinstance(x, arrays))
        self.function, self.sites = function, sites
        self.fixed = jax.tree.map(jnp.asarray, dynamic)
        self.static = frozen(static)
        self.row = frozen(jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), rows))

    def logprior(self, position: Position) -> Float[Array, ""]:
        return _total(self.of_no_item(position))

    def of_no_item(self, position: Position) -> dict[str, Array]:
        """The log densities of the sites of the prior, none of which knows of rows."""
        with _unvalidated():
            return self.by_site(position, self._blank())[0]

    def _blank(self) -> dict[str, PyTree]:
        """A row of zeros, which need be none that an item can have."""
        rows = lambda x: jnp.zeros((1, *x.shape), x.dtype)
        return jax.tree.map(rows, thawed(self.row))

    def deterministic(
        self, position: Position, rows: dict[str, PyTree]
    ) -> dict[str, Shaped[Array, "..."]]:
        """The deterministic sites, where items have these rows."""
        given = eqx.combine(self.fixed, thawed(self.static)) | rows
        num = leading_axis(rows, "data") if rows else None
        plate = None if self.sites is None else self.sites.plate
        sites = traced(self.function, given, position, plate, num, jax.random.key(0))
        return {
            n: jnp.asarray(x["value"]) for n, x in sites.items() if x["type"] == "deterministic"
        }

    def told(self, position: Position) -> dict[str, Shaped[Array, "..."]]:
        """The deterministic sites beside a row of zeros, right for those that know of none."""
        with _unvalidated():
            return self.deterministic(position, self._blank())

    def of_no_row(self, point: Position, rows: dict[str, PyTree]) -> dict[str, bool]:
        """Of each deterministic site, whether it does not depend on the rows of the items."""
        parts = (slice(_SOME), slice(1), slice(-1, None))  # what is alike in equal rows may not be
        tried = lambda part: jax.tree.map(lambda x: x[part], rows)
        others = [self.deterministic(point, tried(part)) for part in parts]
        same = lambda x, y: x.shape == y.shape and np.allclose(x, y, _ALIKE, 0.0, equal_nan=True)
        return {
            name: all(same(value, other[name]) for other in others)
            for name, value in self.told(point).items()
        }

    def loglik(self, position: Position, item: PyTree) -> Float[Array, ""]:
        return self.loglik_batch(position, jax.tree.map(lambda x: x[None], item))[0]

    def loglik_batch(self, position: Position, items: PyTree) -> Float[Array, " n"]:
        if self.sites is None:
            raise ValueError(
                "data must be None for a numpyro model without a plate of observed items"
            )
        return self.terms(position, items)[1]

    def weighted_sum(self, position: Position, items: PyTree, weight: Float[Array, " n"]) -> Any:
        if self.sites is None and not jax.tree.leaves(items):
            return jax.tree.map(jnp.zeros_like, self.prior(position))
        return super().weighted_sum(position, items, weight)

    def terms(self, position: Position, items: PyTree) -> tuple[Float[Array, ""], Any]:
        """The log density of all other sites, and of each item."""
        others, own = self.by_site(position, items)
        return _total(others), sum((self._per_item(*each) for each in own.items()), jnp.zeros(()))

    def by_site(self, position: Position, items: PyTree) -> tuple[dict[str, Array], ...]:
        """The log densities of the sites of the prior, and of those of items."""
        given = eqx.combine(self.fixed, thawed(self.static)) | (items or {})
        rows = leading_axis(items, "data") if items else None
        found = log_probs(self.function, self.sites, given, rows, position)
        names = () if self.sites is None else dict(self.sites.dims)
        others = {name: x for name, x in found.items() if name not in names}
        return others, {name: found[name] for name in names}

    def _per_item(self, site: str, log_prob: Real[Array, "..."]) -> Real[Array, " n"]:
        """Summed over all axes but that of the items."""
        assert self.sites is not None
        kept = log_prob.ndim + dict(self.sites.dims)[site]
        return jnp.sum(log_prob, axis=tuple(i for i in range(log_prob.ndim) if i != kept))

    def check(self, position: Position, data: Data) -> None:
        names = set(thawed(self.row))
        got = set(data) if isinstance(data, dict) else data
        if (names or None) != got:
            wanted = f"a dict of {', '.join(sorted(names))}" if names else "None"
            raise TypeError(f"data must be {wanted}, as model.data(...) makes it, got {got}")


def check_split(density: NumpyroDensity, point: Position, rows: dict) -> None:
    """Raise unless the prior is alike for any rows, and an item's likelihood beside any others."""
    some = jax.tree.map(lambda x: x[:_SOME], rows)
    logliks_of = lambda part: density.terms(point, jax.tree.map(lambda x: x[part], some))[1]
    try:
        prior, logliks = density.by_site(point, some)[0], density.terms(point, some)[1]
        # the first row stands at its own place beside any others, also alone
        last, turned = logliks_of(slice(-1, None)), logliks_of(slice(None, None, -1))
        blank = density.of_no_item(point)
        if jnp.shape(logliks) != (leading_axis(some),) or jnp.shape(last) != (1,):
            raise ValueError(f"the items' log likelihoods have the shape {jnp.shape(logliks)}")
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"model must run on any number of rows of {', '.join(rows)}: {error}"
        ) from error
    if any(_differ(prior[name], blank[name]) for name in prior):  # in a sum of many it would drown
        raise ValueError(
            f"model must have a prior that does not depend on the rows of {', '.join(rows)}; give "
            "what it needs of them as another argument"
        )
    if _differ(logliks[-1:], last) or _differ(logliks, turned[::-1]):
        raise ValueError(
            "model must have a likelihood of each item that does not depend on other items, nor on "
            "its place among them"
        )


def _total(log_probs: dict[str, Array]) -> Float[Array, ""]:
    return sum((jnp.sum(x) for x in log_probs.values()), jnp.zeros(()))


def _unvalidated() -> Any:
    """A context in which numpyro takes any arguments of distributions, and any values."""
    return require_numpyro().distributions.distribution.validation_enabled(False)


def _differ(x: Float[Array, "..."], y: Float[Array, "..."]) -> bool:
    if not np.array_equal(np.isfinite(x), np.isfinite(y)):  # nor if their shapes differ
        return True
    both = np.isfinite(x)
    return not np.allclose(np.asarray(x)[both], np.asarray(y)[both], _ROUNDING, _ROUNDING)


def _plain(x: Any) -> Any:
    """A whole number or a truth of numpy's as Python's: it may be a size, which is static."""
    number = isinstance(x, np.generic | np.ndarray | jax.Array) and jnp.ndim(x) == 0
    whole = number and any(jnp.issubdtype(x.dtype, kind) for kind in (jnp.integer, jnp.bool_))
    if whole and _checks.is_concrete(x):
        return x.item()
    return x


def frozen(tree: PyTree) -> tuple:
    """A pytree of what has a hash, as a thing that has one."""
    leaves, structure = jax.tree.flatten(tree)
    return tuple(leaves), structure


def thawed(frozen: tuple) -> Any:
    return jax.tree.unflatten(frozen[1], frozen[0])
