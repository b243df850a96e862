"""The structure of trees in words, alike in any process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree


def spelled(tree: PyTree) -> PyTree:
    """A tree with dicts in place of numpyro's laws, the parts of which come in the order of a set,
    another one in each process."""
    return jax.tree.map(lambda x: _parts(x) if _is_law(x) else x, tree, is_leaf=_is_law)


def structure_texts(structure: Any) -> Iterator[str]:
    """Those of the nodes of a tree, and of what is static in them."""
    node = structure.node_data()
    if node is None:
        yield "*" if structure.num_leaves else "None"
        return
    (kind, own), children = node, structure.children()
    yield f"{kind.__module__}.{kind.__qualname__} of {len(children)}: {text_of(own)}"
    for child in children:
        yield from structure_texts(child)


def inside(x: Any) -> Iterator[Any]:
    """What is in containers in containers."""
    if isinstance(x, dict):
        x = (*x.keys(), *x.values())
    elif isinstance(x, set | frozenset):
        x = sorted(x, key=text_of)
    if not isinstance(x, tuple | list):
        yield x
        return
    for part in x:
        yield from inside(part)


def text_of(x: Any) -> str:
    """The text of an object, without addresses, and of sets in an order."""
    if isinstance(x, np.generic):  # as a static field may be
        x = x.item()
    if isinstance(x, set | frozenset):
        return f"{type(x).__name__} {sorted(map(text_of, x))}"
    if isinstance(x, dict):
        return f"{{{', '.join(f'{text_of(k)}: {text_of(v)}' for k, v in x.items())}}}"
    if type(x) in (tuple, list):
        return f"{type(x).__name__}({', '.join(map(text_of, x))})"
    return re.sub(r"0x[0-9a-f]+", "", repr(x))


def _is_law(x: Any) -> bool:
    return hasattr(type(x), "gather_pytree_data_fields")


def _parts(law: Any) -> dict[str, Any]:
    kind = type(law)
    names = {*kind.gather_pytree_data_fields(), *kind.gather_pytree_aux_fields()}
    own = {name: spelled(vars(law)[name]) for name in sorted(names) if name in vars(law)}
    return {"law": f"{kind.__module__}.{kind.__qualname__}", **own}
