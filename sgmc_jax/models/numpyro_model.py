"""Models that are written in numpyro."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from .. import _checks
from .._types import Data, Position
from ..collective import leading_axis
from ..model import Model
from ..transformed import Transformed
from ._numpyro_trace import (
    Items,
    all_rows,
    call,
    find_items,
    find_latents,
    log_probs,
    require_numpyro,
    traced,
)

_SOME = 256  # items that a model is tried on
_ROUNDING = 1e-3
_RADIUS = 2.0


def from_numpyro(
    model: Callable,
    *args: Any,
    plate: str | None = None,
    axis: int | None = None,
    **kwargs: Any,
) -> NumpyroModel:
    """A model that is written in numpyro, for every kernel and estimator.

    Its log density is split into the sites of items, those observed inside a plate without latent
    sites, and all others, which count as prior. Supports are mapped to R^n, as by `Transformed`.

    The rows of the items are the data, and an argument of `sample`: those arguments of the model
    whose arrays have the plate's length, as a dict by name, `model.data(...)`. The model is run on
    the rows of a minibatch, and its plate has these rows whatever its size and `subsample_size`
    say. A model without items, such as one whose plates have latent sites, has no data: its
    arguments are kept as arrays, and it is for exact gradients.

    Args:
        model: a function with numpyro's primitives.
        args: its arguments, as for numpyro's `MCMC.run`; numbers that are not real are static.
        plate: the name of the plate of items, where more than one encloses observed sites only.
        axis: the batch axis of the items in the observed sites, where no plate encloses them.
        kwargs: its arguments by name.

    Returns:
        a `Transformed` model, with the methods `start(key)`, unconstrained uniform numbers in
        (-2, 2); `data(*args, **kwargs)`; and `predictive(key, trace, *args, **kwargs)`.

    Raises:
        ImportError: if numpyro is not installed.
        ValueError: if a latent site is discrete, if there are several plates over items, or if the
            prior depends on the items, or the likelihood of one item on others.

    Example: logistic regression.
        >>> import jax, jax.numpy as jnp
        >>> import numpyro, numpyro.distributions as dist
        >>> from sgmc_jax import Minibatch, Uniform, sample, sgld
        >>> def logistic(x, y=None):
        ...     w = numpyro.sample("w", dist.Normal(0, 1).expand([2]).to_event(1))
        ...     with numpyro.plate("items", len(x)):
        ...         numpyro.sample("y", dist.Bernoulli(logits=x @ w), obs=y)
        >>> x = jax.random.normal(jax.random.key(0), (100, 2))
        >>> model = from_numpyro(logistic, x, x[:, 0] > 0)
        >>> data = model.data(x, x[:, 0] > 0)
        >>> kernel = sgld(Minibatch(model, Uniform(10)), 1e-3)
        >>> run = sample(jax.random.key(1), kernel, model.start, data, num_steps=20, num_chains=2)
        >>> model.constrain(run.trace)["w"].shape
        (2, 20, 2)
        >>> model.predictive(jax.random.key(2), run.trace, x[:5])["y"].shape
        (2, 20, 5)

    Reference:
        Phan, Pradhan and Jankowiak (2019), Composable effects for flexible and accelerated
        probabilistic programming in NumPyro. There a subsampled plate draws its own rows and scales
        their log likelihood; here estimators do both.
    """
    require_numpyro()
    if not callable(model):
        raise TypeError(f"model must be a function, got {type(model).__name__}")
    if plate is not None:
        _checks.instance("plate", str, plate)
    if axis is not None:
        _checks.instance("axis", int, axis)
    given = _bound(model, args, kwargs)
    run = lambda seed: traced(model, given, {}, None, None, jax.random.key(seed))
    sites = run(0)
    latents = find_latents(sites)
    items = find_items(sites, plate, axis)
    rows = {} if items is None else _rows(given, items)
    fixed = {name: value for name, value in given.items() if name not in rows}
    density = NumpyroDensity(model, items, rows, fixed)
    point = {name: site["value"] for name, site in latents.items()}
    if items is not None:
        _check_split(density, point, rows)
    bijections = _bijections(latents, find_latents(run(1)))
    return NumpyroModel(density, bijections, point)


def _plain(x: Any) -> Any:
    """A whole number or a truth of numpy's as Python's: it may be a size, which is static."""
    number = isinstance(x, np.generic | np.ndarray | jax.Array) and jnp.ndim(x) == 0
    whole = number and any(jnp.issubdtype(x.dtype, kind) for kind in (jnp.integer, jnp.bool_))
    if whole and _checks.is_concrete(x):
        return x.item()
    return x


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
        self.static = _frozen(static)
        self.row = _frozen(jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), rows))

    def logprior(self, position: Position) -> Array:
        # of one blank row: no site of the prior knows of rows
        blank = jax.tree.map(lambda x: jnp.zeros((1, *x.shape), x.dtype), _thawed(self.row))
        return self.terms(position, blank)[0]

    def loglik(self, position: Position, item: PyTree) -> Array:
        return self.loglik_batch(position, jax.tree.map(lambda x: x[None], item))[0]

    def loglik_batch(self, position: Position, items: PyTree) -> Float[Array, " n"]:
        if self.sites is None:
            raise ValueError(
                "data must be None for a numpyro model without a plate of observed items"
            )
        return self.terms(position, items)[1]

    def weighted_sum(self, position: Position, items: PyTree, weight: Array) -> Any:
        if self.sites is None and not jax.tree.leaves(items):
            return jax.tree.map(jnp.zeros_like, self.prior(position))
        return super().weighted_sum(position, items, weight)

    def terms(self, position: Position, items: PyTree) -> tuple[Array, Any]:
        """The log density of all other sites, and of each item."""
        given = eqx.combine(self.fixed, _thawed(self.static)) | (items or {})
        rows = leading_axis(items, "data") if items else None
        found = log_probs(self.function, self.sites, given, rows, position)
        own = () if self.sites is None else self.sites.sites
        prior = sum((jnp.sum(x) for name, x in found.items() if name not in own), jnp.zeros(()))
        return prior, sum((self._per_item(found[name]) for name in own), jnp.zeros(()))

    def _per_item(self, log_prob: Array) -> Float[Array, " n"]:
        """Summed over all axes but that of the items."""
        assert self.sites is not None
        kept = log_prob.ndim + self.sites.dim
        return jnp.sum(log_prob, axis=tuple(i for i in range(log_prob.ndim) if i != kept))

    def check(self, position: Position, data: Data) -> None:
        names = set(_thawed(self.row))
        got = set(data) if isinstance(data, dict) else data
        if (names or None) != got:
            wanted = f"a dict of {', '.join(sorted(names))}" if names else "None"
            raise TypeError(f"data must be {wanted}, as model.data(...) makes it, got {got}")


class NumpyroModel(Transformed):
    """What `from_numpyro` returns: a `Transformed` model, with what numpyro tells besides.

    Example:
        >>> import jax.numpy as jnp
        >>> import numpyro, numpyro.distributions as dist
        >>> from sgmc_jax import from_numpyro
        >>> model = from_numpyro(lambda: numpyro.sample("rate", dist.Exponential(1.0)))
        >>> found = model.constrain({"rate": jnp.array(0.0)})
        >>> isinstance(model, NumpyroModel), float(found["rate"])
        (True, 1.0)
    """

    shapes: Any = eqx.field(static=True)  # of the sites

    def __init__(self, density: NumpyroDensity, bijections: dict, point: dict):
        super().__init__(density, bijections)
        self.shapes = tuple((name, jnp.shape(value)) for name, value in point.items())

    def start(self, key: Any) -> Position:
        """An unconstrained position, uniform in (-2, 2): a `position` of `sample` for chains."""
        _checks.random_key(key)

        def free() -> Position:
            sites = {name: jnp.ones(shape) for name, shape in self.shapes}
            return self._map(lambda bijector, x, _: bijector.inverse(x), sites)

        draw = lambda key, z: jax.random.uniform(key, z.shape, z.dtype, -_RADIUS, _RADIUS)
        leaves, structure = jax.tree.flatten(jax.eval_shape(free))
        keys = list(jax.random.split(key, len(leaves)))
        return jax.tree.unflatten(structure, [draw(k, z) for k, z in zip(keys, leaves)])

    def data(self, *args: Any, **kwargs: Any) -> Data:
        """The rows of the items among a model's arguments, or `None` if it has none."""
        given = _bound(self._density.function, args, kwargs)
        names = list(_thawed(self._density.row))
        for name in names:
            if given.get(name) is None:
                raise ValueError(f"{name} must be given: it has rows of items")
        return {name: jax.tree.map(jnp.asarray, given[name]) for name in names} or None

    def predictive(self, key: Any, trace: Position, *args: Any, **kwargs: Any) -> dict[str, Array]:
        """Draws of all other sites, for draws of the position.

        Args:
            key: a random key.
            trace: unconstrained positions with any leading axes, such as `run.trace`.
            args: arguments of the model, without what is to be drawn: rows of new items.
            kwargs: the same by name.

        Returns:
            a dict by site, with the leading axes of the trace.
        """
        _checks.random_key(key)
        numpyro, density = require_numpyro(), self._density
        draws = self.constrain(trace)
        name, shape = self.shapes[0]
        lead = draws[name].shape[: draws[name].ndim - len(shape)]
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[len(lead) :]), draws)
        given = _bound(density.function, args, kwargs)
        rows = {n: given[n] for n in _thawed(density.row) if given.get(n) is not None}
        num = leading_axis(rows, "args") if rows else None
        plate = None if density.sites is None else density.sites.plate

        def model() -> None:
            with all_rows(plate, num):
                call(density.function, given)

        drawn = numpyro.infer.Predictive(model, flat, batch_ndims=1)(key)
        return {name: x.reshape(*lead, *x.shape[1:]) for name, x in drawn.items()}

    @property
    def _density(self) -> NumpyroDensity:
        assert isinstance(self.model, NumpyroDensity)
        return self.model


def _bound(function: Callable, args: tuple, kwargs: dict) -> dict[str, Any]:
    """A model's arguments by name."""
    signature = inspect.signature(function)
    try:
        given = dict(signature.bind(*args, **kwargs).arguments)
    except TypeError as error:
        raise TypeError(f"args must be arguments of the model, {signature}: {error}") from None
    for name, value in given.items():
        for leaf in jax.tree.leaves(value):
            if isinstance(leaf, np.ndarray):  # what is no array is static, whatever it is
                _checks.arrays(name, leaf)
    return given


def _rows(given: dict[str, Any], items: Items) -> dict[str, PyTree]:
    """The arguments whose arrays have a row an item."""
    is_row = lambda x: np.ndim(x) > 0 and np.shape(x)[0] == items.size
    rows = {
        name: jax.tree.map(jnp.asarray, value)
        for name, value in given.items()
        if jax.tree.leaves(value) and all(map(is_row, jax.tree.leaves(value)))
    }
    if not rows:
        raise ValueError(
            f"args must have an array with a row for each of the {items.size} items of "
            f"{items.plate or items.sites}, got none"
        )
    return rows


def _check_split(density: NumpyroDensity, point: Position, rows: dict) -> None:
    """Raise unless the prior is alike for any rows, and an item's likelihood beside any others."""
    some = jax.tree.map(lambda x: x[:_SOME], rows)
    logliks_of = lambda part: density.terms(point, jax.tree.map(lambda x: x[part], some))[1]
    try:
        prior, logliks = density.terms(point, some)
        # the first row stands at its own place beside any others, also alone
        last, turned = logliks_of(slice(-1, None)), logliks_of(slice(None, None, -1))
        blank = density.logprior(point)
        if jnp.shape(logliks) != (leading_axis(some),) or jnp.shape(last) != (1,):
            raise ValueError(f"the items' log likelihoods have the shape {jnp.shape(logliks)}")
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"model must run on any number of rows of {', '.join(rows)}: {error}"
        ) from error
    if _differ(prior, blank):
        raise ValueError(
            f"model must have a prior that does not depend on the rows of {', '.join(rows)}; give "
            "what it needs of them as another argument"
        )
    if _differ(logliks[-1:], last) or _differ(logliks, turned[::-1]):
        raise ValueError(
            "model must have a likelihood of each item that does not depend on other items, nor on "
            "its place among them"
        )


def _differ(x: Array, y: Array) -> bool:
    both = np.isfinite(x) & np.isfinite(y)
    if not np.array_equal(np.isfinite(x), np.isfinite(y)):
        return True
    return not np.allclose(np.asarray(x)[both], np.asarray(y)[both], _ROUNDING, _ROUNDING)


def _bijections(latents: dict[str, Any], again: dict[str, Any]) -> dict[str, Any]:
    """The bijection onto each site's support; raise if it moves from one draw to another."""
    biject_to = require_numpyro().distributions.biject_to
    here = {name: biject_to(site["fn"].support) for name, site in latents.items()}
    for name, site in again.items():
        pairs = zip(jax.tree.leaves(here[name]), jax.tree.leaves(biject_to(site["fn"].support)))
        if not all(np.array_equal(x, y) for x, y in pairs):
            raise ValueError(
                f"model must have supports that do not depend on other sites, got that of "
                f"{name!r}: make it of a site with a fixed support, by a transformation"
            )
    return here


def _frozen(tree: PyTree) -> tuple:
    """A pytree of what has a hash, as a thing that has one."""
    leaves, structure = jax.tree.flatten(tree)
    return tuple(leaves), structure


def _thawed(frozen: tuple) -> Any:
    return jax.tree.unflatten(frozen[1], frozen[0])
