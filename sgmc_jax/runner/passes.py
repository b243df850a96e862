"""Data that come pass after pass: loaders, and functions that make an iterator each time."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import jax


def passes_of(data: Any) -> Callable[[], Iterator] | None:
    """What gives an iterator over the batches for each pass, or `None` if the data is no such.

    It is a function that needs no arguments, or a loader: what may be iterated over again, and is
    neither an array nor a pytree of arrays.
    """
    if callable(data):
        return (lambda: _begun(data())) if _needs_nothing(data) else None
    return (lambda: iter(data)) if _is_loader(data) else None


def _is_loader(data: Any) -> bool:
    if not isinstance(data, Iterable) or isinstance(data, Iterator | Sequence | Set | Mapping):
        return False
    is_array = hasattr(data, "shape") or hasattr(data, "dtype")
    return not is_array and jax.tree_util.treedef_is_leaf(jax.tree.structure(data))


def _begun(batches: Any) -> Iterator:
    if not isinstance(batches, Iterator) and not _is_loader(batches):
        raise TypeError(
            "data must give an iterator of batches for each pass, as a function that needs no "
            f"arguments, got {type(batches).__name__}: a function of the step needs one"
        )
    return iter(batches)


def _needs_nothing(function: Callable) -> bool:
    """Whether it can be called without arguments, as far as is known, and names those it takes."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # of some that are written in C
        return False
    each = signature.parameters.values()
    return all(x.default is not x.empty or x.kind is x.VAR_KEYWORD for x in each)


def endless(passes: Callable[[], Iterator]) -> Iterator:
    """Pass after pass."""
    while True:
        number = -1
        for number, batch in enumerate(passes()):  # noqa: B007
            yield batch
        if number < 0:
            raise ValueError(
                "data must have batches in every pass, got one without any: give a function that "
                "makes a new iterator each time"
            )
