"""Runs of a numpyro model: its latent sites, its items, and the log probability of each site."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Real


class Items(NamedTuple):
    """The observed sites of items, in a plate or along a batch axis, and which axis of each."""

    plate: str | None
    size: int
    dims: tuple[tuple[str, int], ...]  # by site, negative


def require_numpyro() -> Any:
    """The package numpyro; raise with what to install if there is none."""
    try:
        import numpyro
    except ImportError as error:
        raise ImportError('from_numpyro needs numpyro: pip install "sgmc_jax[numpyro]"') from error
    return numpyro


@cache
def _all_rows() -> type:
    from numpyro.primitives import _PYRO_STACK, Messenger, plate

    class AllRows(Messenger):
        """A plate has all of the rows that the model is given, every other all of its own."""

        def __init__(self, name: str | None, rows: int | None):
            super().__init__()
            self.name, self.rows = name, rows

        def process_message(self, msg: Any) -> None:
            if msg["type"] == "plate":
                own = self.rows is not None and msg["name"] == self.name
                rows = self.rows if own else msg["args"][0]
                msg["args"], msg["value"] = (rows, rows), jnp.arange(rows)
            if msg["type"] not in ("sample", "subsample") or self.name is None:
                return
            for frame in _PYRO_STACK:
                if isinstance(frame, plate) and frame.name == self.name:
                    if msg["type"] == "sample" and frame.size != frame.subsample_size:
                        msg["scale"] = msg["scale"] * frame.subsample_size / frame.size
                    frame.size = frame.subsample_size

    return AllRows


def all_rows(plate: str | None, rows: int | None) -> Any:
    """A handler under which the plate of that name has `rows` rows, whatever it says.

    Every other has as many as it says, and takes no subset of them.
    """
    return _all_rows()(plate, None if plate is None else rows)


def call(function: Callable, given: dict[str, Any]) -> Any:
    """The model at arguments by name."""
    bound = inspect.signature(function).bind_partial()
    ordered = [name for name in bound.signature.parameters if name in given]
    bound.arguments.update((name, given[name]) for name in ordered)
    return function(*bound.args, **bound.kwargs)


def traced(
    function: Callable, given: dict, position: dict, plate: str | None, rows: int | None, key: Any
) -> dict[str, Any]:
    """The sites of one run, with latent values from `position`."""
    handlers = require_numpyro().handlers
    with handlers.trace() as sites, handlers.seed(rng_seed=key):
        with handlers.substitute(data=position), all_rows(plate, rows):
            call(function, given)
    return sites


def first_run(function: Callable, given: dict, seed: int) -> dict[str, Any]:
    """The sites of a run whose latent values are those of unconstrained uniform numbers.

    A prior need not have draws, and draws of one with heavy tails may have no likelihood at all.

    Raises:
        ValueError: if numpyro knows no bijection onto the support of a latent site.
    """
    numpyro = require_numpyro()

    def start(site: dict[str, Any]) -> Any:
        try:
            return numpyro.infer.init_to_uniform(site)
        except NotImplementedError:
            raise ValueError(
                f"model must have supports that numpyro can map from R^n, got "
                f"{site['fn'].support} of the site {site['name']!r}"
            ) from None

    handlers = numpyro.handlers
    with handlers.trace() as sites, handlers.substitute(substitute_fn=start):
        with handlers.seed(rng_seed=seed), all_rows(None, None):
            call(function, given)
    return sites


def log_probs(
    function: Callable, items: Items | None, given: dict, rows: int | None, position: dict
) -> dict[str, Real[Array, "..."]]:
    """The log probability of each site, not summed."""
    plate = None if items is None else items.plate
    sites = traced(function, given, position, plate, rows, jax.random.key(0))
    return {name: _log_prob(site) for name, site in sites.items() if site["type"] == "sample"}


def _log_prob(site: dict[str, Any]) -> Real[Array, "..."]:
    known = (site["intermediates"],) if site["intermediates"] else ()
    log_prob = site["fn"].log_prob(site["value"], *known)
    return log_prob if site["scale"] is None else site["scale"] * log_prob


def find_latents(sites: dict[str, Any]) -> dict[str, Any]:
    """The sites to be sampled, by name.

    Raises:
        ValueError: if one of them is discrete, there is none, or there are `param` sites.
    """
    for name, site in sites.items():
        if site["type"] == "param":
            raise ValueError(f"model must have no param sites, got {name!r}: give it a prior")
    latents = {n: s for n, s in sites.items() if s["type"] == "sample" and not s["is_observed"]}
    if not latents:
        raise ValueError("model must have a latent site, got observed ones only")
    for name, site in latents.items():
        if site["fn"].support.is_discrete:
            raise ValueError(
                f"model must have no discrete latent sites, got {name!r}: sum it out of the "
                "likelihood, or give its values as an argument"
            )
    return latents


def find_items(sites: dict[str, Any], plate: str | None, axis: int | None) -> Items | None:
    """The observed sites that are sums over items, or `None`.

    Raises:
        ValueError: if several plates may be those of items, or the one named cannot be.
    """
    samples = {name: s for name, s in sites.items() if s["type"] == "sample"}
    observed = {name: s for name, s in samples.items() if s["is_observed"]}
    latent = [s for s in samples.values() if not s["is_observed"]]
    local = {frame.name for s in latent for frame in s["cond_indep_stack"]}
    around = dict.fromkeys(f.name for s in observed.values() for f in s["cond_indep_stack"])
    if plate is not None and (plate not in around or plate in local):
        why = "has latent sites" if plate in local else "has no observed site"
        raise ValueError(f"plate must be that of observed items, but {plate!r} {why}")
    names = [name for name in around if name not in local] if plate is None else [plate]
    if len(names) > 1:
        raise ValueError(
            f"model must have one plate over items, got {', '.join(names)}: choose by plate=..."
        )
    if names:
        inside = {
            name: frame
            for name, s in observed.items()
            for frame in s["cond_indep_stack"]
            if frame.name == names[0]
        }
        dims = tuple((name, frame.dim) for name, frame in inside.items())
        return Items(names[0], next(iter(inside.values())).size, dims)
    return None if axis is None else _along(observed, axis)


def _along(observed: dict[str, Any], axis: int) -> Items:
    shapes = {name: s["fn"].batch_shape for name, s in observed.items()}
    found = {
        (axis if axis < 0 else axis - len(shape), shape[axis])
        for shape in shapes.values()
        if -len(shape) <= axis < len(shape)
    }
    inside = all(-len(shape) <= axis < len(shape) for shape in shapes.values())
    if len(found) != 1 or not inside:
        raise ValueError(
            f"axis must be a batch axis of one length of all observed sites, got {axis} for the "
            f"batch shapes {shapes}"
        )
    dim, size = found.pop()
    return Items(None, size, tuple((name, dim) for name in shapes))
