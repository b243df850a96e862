"""What tells the functions of users apart in any process: their code, and what it refers to."""

from __future__ import annotations

import dataclasses
import dis
import functools
import inspect
import operator
import re
import sys
from collections import deque
from collections.abc import Iterator
from datetime import date, time, timedelta
from decimal import Decimal
from fractions import Fraction
from types import CodeType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from .._structure import inside, spelled, structure_texts, text_of
from ..checkpoint import contents

# of these the version may change between two runs: their functions are known by name
_LIBRARIES = ("sgmc_jax", "jax", "jaxlib", "equinox", "optax", "numpyro", "numpy", "builtins")
_BEHIND = ("__wrapped__", "fwd", "bwd", "jvp")  # the functions of one that a library has wrapped
_BY_TEXT = (
    *(range, slice, Fraction, Decimal, date, time, timedelta, re.Pattern),
    *(operator.attrgetter, operator.itemgetter, operator.methodcaller),
)
_CONSTANTS = (bool, int, float, complex, str, bytes, tuple, frozenset, np.ndarray, jax.Array)
# bytecode is one version's of Python
VERSION = f"Python {sys.version_info.major}.{sys.version_info.minor}"


def code_of(tree: PyTree) -> list[str]:
    """Texts and values of all functions in a tree, and of users' classes among its nodes.

    A function stands for its bytecode and constants, its defaults and attributes, what it has
    captured, and the globals that it reads, functions among them, and of a module of the user's own
    what bears a name that the function uses; a pytree that it refers to for all that is in it; an
    object of a user's class for its attributes and methods, and those of the class; a frame for its
    values. Objects of other kinds are known by their class.
    """
    return list(_of_tree(tree, {}))


def code_by_version(tree: PyTree) -> dict[str, list[str]]:
    """`code_of`, under a key that names the Python whose bytecode it is."""
    return {f"code of functions, {VERSION}": code_of(tree)}


def _of_tree(tree: PyTree, seen: dict[int, Any]) -> Iterator[str]:
    leaves, structure = jax.tree.flatten(tree)
    for x in (*_static(structure), *leaves):
        # numbers and texts, and what a library makes of them, are told by the tree itself
        if callable(x) and not (isinstance(x, type) and _is_known(x)):
            yield from _of(x, seen)


def _static(structure: Any) -> Iterator[Any]:
    node = structure.node_data()
    if node is not None:
        kind, own = node
        yield kind
        yield from inside(own)
        for child in structure.children():
            yield from _static(child)


def _of(x: Any, seen: dict[int, Any]) -> Iterator[str]:
    if isinstance(x, bool | int | float | complex | str | bytes | None):
        yield repr(x)
    elif isinstance(x, np.ndarray | np.generic | jax.Array):
        yield from _of_array(x, seen)
    elif id(x) in seen:
        return
    else:
        seen[id(x)] = x  # and held, for an object's number may be another's when it is gone
        yield from _of_object(x, seen)


def _of_array(x: Any, seen: dict[int, Any]) -> Iterator[str]:
    if isinstance(x, np.ndarray | np.generic) and x.dtype.kind in "OSUMmV":  # texts, say
        yield from _of(x.tolist(), seen)
    else:
        yield f"{x.dtype}{x.shape}{contents([x])}"


def _of_object(x: Any, seen: dict[int, Any]) -> Iterator[str]:
    if isinstance(x, MethodType):
        parts: Any = (x.__func__, x.__self__)
    elif isinstance(x, functools.partial):
        parts = (x.func, *x.args, x.keywords)
    elif isinstance(x, tuple | list | deque):
        parts = x
    elif isinstance(x, set | frozenset):
        parts = sorted(map(text_of, x))  # in no order of their own
    elif isinstance(x, dict):
        parts = (*x.keys(), *x.values())
    elif isinstance(x, type):
        parts = () if _is_known(x) else _of_class(x)
    elif isinstance(x, _BY_TEXT):
        parts = (repr(x),)
    elif isinstance(x, jnp.ufunc):
        parts = (getattr(x, "__name__", ""),)
    elif not jax.tree_util.all_leaves([x]):  # a Module or a distribution, say
        leaves, structure = jax.tree.flatten(spelled(x))
        parts = (*structure_texts(structure), *_static(structure), *leaves)
    elif hasattr(x, "__code__"):
        yield from _of_function(x, seen)
        return
    else:
        parts = (*(getattr(x, name, None) for name in _BEHIND), *_values_of(x), *_state_of(x))
    yield _name(x if isinstance(x, type) else type(x))
    for part in parts:
        yield from _of(part, seen)


def _of_function(function: Any, seen: dict[int, Any]) -> Iterator[str]:
    yield _name(function)
    cells = function.__closure__ or ()
    captured = [cell.cell_contents for cell in cells if _is_filled(cell)]
    parts = [*captured, function.__defaults__, function.__kwdefaults__, vars(function)]
    if not _is_known(function):
        yield from _of_code(function.__code__, function.__doc__)
        names = dict.fromkeys(_globals_read(function.__code__))
        parts += [function.__globals__[name] for name in names if name in function.__globals__]
        parts = _with_parts_of_modules(parts, set(_names_used(function.__code__)))
    for part in parts:
        yield from _of(part, seen)


def _of_code(code: CodeType, doc: str | None) -> Iterator[str]:
    yield code.co_code.hex()
    yield " ".join(code.co_names)
    for x in code.co_consts:
        if isinstance(x, CodeType):
            yield from _of_code(x, None)
        elif x is None or x != doc:
            yield repr(sorted(map(repr, x)) if isinstance(x, frozenset) else x)


def _globals_read(code: CodeType) -> Iterator[str]:
    yield from (x.argval for x in dis.get_instructions(code) if x.opname == "LOAD_GLOBAL")
    for x in code.co_consts:
        if isinstance(x, CodeType):
            yield from _globals_read(x)


def _names_used(code: CodeType) -> Iterator[str]:
    """Those of globals and of attributes, in no order."""
    yield from code.co_names
    for x in code.co_consts:
        if isinstance(x, CodeType):
            yield from _names_used(x)


def _with_parts_of_modules(found: list[Any], names: set[str]) -> list[Any]:
    """`found`, and, of modules that are a user's own, what bears one of the names."""
    parts, seen = list(found), set()
    for x in parts:  # which grows: a module may be reached through its package
        if isinstance(x, ModuleType) and id(x) not in seen and not _is_of_package(x.__name__):
            seen.add(id(x))
            parts += [vars(x)[name] for name in sorted(names & vars(x).keys())]
    return parts


def _of_class(kind: type) -> list[Any]:
    """The functions of a class and of those it inherits from, up to a library's, and constants."""
    own = [each for each in kind.__mro__ if not _is_known(each)]
    names = [name for each in own for name in vars(each) if name[:2] != "__" or name == "__call__"]
    parts: list[Any] = []
    for name in dict.fromkeys(names):
        x = inspect.getattr_static(kind, name)
        x = getattr(x, "fget", getattr(x, "func", getattr(x, "__func__", x)))  # of properties, say
        if not hasattr(x, "__code__") and hasattr(seen := getattr(kind, name, None), "__code__"):
            x = seen  # of what equinox wraps
        if hasattr(x, "__code__") or hasattr(x, "__wrapped__") or isinstance(x, eqx.Module):
            parts.append(x)  # a method, also one that is jitted
        elif isinstance(x, _CONSTANTS):
            parts += [name, x]
    return parts


def _values_of(x: Any) -> list[Any]:
    """Those of a frame, say, of a package's."""
    if not (hasattr(x, "to_numpy") and _is_of_package(type(x).__module__)):
        return []
    try:
        return [np.asarray(x.to_numpy())]
    except Exception:  # of what no array can hold
        return []


def _state_of(x: Any) -> list[Any]:
    """What tells objects of a user's class apart, and records of any; libraries keep caches."""
    kind = type(x)
    own = not (_is_known(kind) or _is_of_package(kind.__module__))
    if not (own or dataclasses.is_dataclass(x) or isinstance(x, SimpleNamespace)):
        return []
    slots = [name for each in kind.__mro__ for name in getattr(each, "__slots__", ())]
    names = sorted({*getattr(x, "__dict__", ()), *slots})
    names = [n for n in names if not isinstance(getattr(kind, n, None), functools.cached_property)]
    told = [y for name in names if hasattr(x, name) for y in (name, getattr(x, name))]
    return [*told, kind] if own else told


def _is_of_package(module: str) -> bool:
    """Whether a module is of Python or of a package, not of code that is being written."""
    root = module.split(".")[0]
    if root in sys.stdlib_module_names or root in _LIBRARIES:
        return True
    path = str(getattr(sys.modules.get(module), "__file__", None) or "")
    return "site-packages" in path or "dist-packages" in path


def _is_known(x: Any) -> bool:
    return str(getattr(x, "__module__", None)).split(".")[0] in _LIBRARIES


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _name(x: Any) -> str:
    return f"{getattr(x, '__module__', '')}.{getattr(x, '__qualname__', '')}"
