"""Models that are written in numpyro."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree, Shaped

from .. import _checks
from .._types import Data, Position
from ..collective import leading_axis
from ..transformed import Transformed
from ._numpyro_density import NumpyroDensity, check_split, thawed
from ._numpyro_trace import (
    Items,
    all_rows,
    call,
    find_items,
    find_latents,
    first_run,
    require_numpyro,
)

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
        (-2, 2); `data(*args, **kwargs)`; and `predictive(key, trace, *args, **kwargs)`. Its
        `constrain` tells `deterministic` sites too, but for those that depend on rows.

    Raises:
        ImportError: if numpyro is not installed.
        ValueError: if a latent site is discrete or on a support that numpyro cannot map from R^n,
            if there are several plates over items, or if the prior depends on the items, or the
            likelihood of one item on others.

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
    sites = first_run(model, given, 0)
    latents = find_latents(sites)
    items = find_items(sites, plate, axis)
    rows = {} if items is None else _rows(given, items)
    fixed = {name: value for name, value in given.items() if name not in rows}
    density = NumpyroDensity(model, items, rows, fixed)
    point = {name: site["value"] for name, site in latents.items()}
    if items is not None:
        check_split(density, point, rows)
    bijections = _bijections(latents, find_latents(first_run(model, given, 1)))
    return NumpyroModel(density, bijections, point, density.of_no_row(point, rows))


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
    deterministic: tuple[str, ...] = eqx.field(static=True)  # those that `constrain` tells
    of_rows: tuple[str, ...] = eqx.field(static=True)  # and those that depend on rows

    def __init__(
        self,
        density: NumpyroDensity,
        bijections: dict,
        point: dict,
        deterministic: dict[str, bool],
    ):
        super().__init__(density, bijections)
        self.shapes = tuple((name, jnp.shape(value)) for name, value in point.items())
        self.deterministic = tuple(name for name, told in deterministic.items() if told)
        self.of_rows = tuple(name for name, told in deterministic.items() if not told)

    def constrain(self, position: Position) -> Position:
        sites = self.forward(position)
        if not self.deterministic:
            return sites
        lead, flat = self._flat(sites)

        def one(sites: Position) -> dict[str, Shaped[Array, "..."]]:
            found = self._density.told(sites)
            return {name: found[name] for name in self.deterministic}

        told = jax.vmap(one)(flat)
        return sites | jax.tree.map(lambda x: x.reshape(*lead, *x.shape[1:]), told)

    def unconstrain(self, position: Position) -> Position:
        """Of a dict of the sites; what it has of `deterministic` ones is left out."""
        told = (*self.deterministic, *self.of_rows)
        if isinstance(position, dict):
            position = {name: x for name, x in position.items() if name not in told}
        self._check_names(position)
        return super().unconstrain(position)

    def check(self, position: Position, data: Data) -> None:
        self._check_names(position)
        sites = jax.eval_shape(self.forward, position)
        for name, shape in self.shapes:
            if sites[name].shape != shape:
                raise ValueError(
                    f"position must have a site {name!r} of shape {shape}, got {sites[name].shape}"
                )
        super().check(position, data)

    def _check_names(self, position: Position) -> None:
        """Raise unless it has the sites alone: numpyro takes any others of a name from it too."""
        wanted = sorted(name for name, _ in self.shapes)
        got = sorted(position) if isinstance(position, dict) else type(position).__name__
        if got != wanted:
            raise ValueError(f"position must be a dict of the sites {wanted}, got {got}")

    def _flat(self, sites: Position) -> tuple[tuple[int, ...], Position]:
        """The leading axes of draws, and draws with one."""
        name, shape = self.shapes[0]
        lead = sites[name].shape[: sites[name].ndim - len(shape)]
        num = math.prod(lead)
        return lead, jax.tree.map(lambda x: x.reshape(num, *x.shape[len(lead) :]), sites)

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
        names = list(thawed(self._density.row))
        for name in names:
            if given.get(name) is None:
                raise ValueError(f"{name} must be given: it has rows of items")
        return {name: jax.tree.map(jnp.asarray, given[name]) for name in names} or None

    def predictive(
        self, key: Any, trace: Position, *args: Any, **kwargs: Any
    ) -> dict[str, Shaped[Array, "..."]]:
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
        lead, flat = self._flat(self.forward(trace))
        given = _bound(density.function, args, kwargs)
        rows = {n: given[n] for n in thawed(density.row) if given.get(n) is not None}
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
            f"{items.plate or ', '.join(dict(items.dims))}, got none"
        )
    return rows


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
