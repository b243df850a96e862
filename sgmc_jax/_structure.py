"""The structure of trees in words, alike in any process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import equinox as eqx


def structure_texts(structure: Any) -> Iterator[str]:
    """Those of the nodes of a tree, and of what is static in them, alike in any process."""
    node = structure.node_data()
    if node is None:
        yield "*" if structure.num_leaves else "None"
        return
    (kind, own), children = node, structure.children()
    yield f"{kind.__module__}.{kind.__qualname__} of {len(children)}"
    texts = map(text_of, inside(own))
    # what is static in numpyro's laws has another order in each process
    yield from texts if issubclass(kind, eqx.Module) else sorted(texts)
    for child in children:
        yield from structure_texts(child)


def inside(x: Any) -> Iterator[Any]:
    """What is in containers in containers."""
    if isinstance(x, dict):
        x = (*x.keys(), *x.values())
    elif isinstance(x, set | frozenset):
        x = sorted(x, key=repr)
    if not isinstance(x, tuple | list):
        yield x
        return
    for part in x:
        yield from inside(part)


def text_of(x: Any) -> str:
    """The text of an object, without addresses."""
    return re.sub(r"0x[0-9a-f]+", "", repr(x))
