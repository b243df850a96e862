"""The same values in another form, as lists or of another type: one answer, or a refusal.

`python -m tests.fuzz.respelled` tries every row, and with `--whole` makes the steps of kernels,
which otherwise are traced alone; `--only predictive 'slice*'` tries some.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from tests.fuzz.calls import Call, calls
from tests.fuzz.fuzz import chosen, fault

Sized = jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct
INTEGERS = (np.int8, np.uint8, np.int16, np.int32, np.int64)


def forms(x: Any) -> Iterator[tuple[str, Any]]:
    """Names of forms, and the value in them: of any type that holds it exactly, but half precision,
    in which a position is computed with."""
    if isinstance(x, jax.Array) and not jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        yield "NumPy", np.asarray(x)
        x = np.asarray(x)
    if isinstance(x, bool) or not isinstance(x, np.ndarray | np.generic | int | float):
        return
    array = np.asarray(x)
    if array.dtype.kind not in "biuf":
        return
    yield "JAX", jnp.asarray(array)
    if array.ndim:
        yield "a list", array.tolist()
        yield "every other row", np.repeat(array, 2, axis=0)[::2]
        yield "Fortran's order", np.asfortranarray(array)
    else:
        yield "no dimensions", array
    for dtype in (*INTEGERS, np.float32, np.float64, bool):
        with np.errstate(all="ignore"):
            other = array.astype(dtype)
        if dtype != array.dtype and np.array_equal(other.astype(float), array.astype(float)):
            yield np.dtype(dtype).name, other if array.ndim else other[()]


def answer(call: Call) -> list[Any]:
    """What it returns that has numbers, as numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = call.use(call.function(**call.arguments), call.held)
        leaves = jax.tree.leaves(jax.block_until_ready(result))
    return [numbers(x) for x in leaves if isinstance(x, Sized | int | float)]


def numbers(x: Any) -> Any:
    if isinstance(x, jax.ShapeDtypeStruct):
        return x.shape
    if jnp.issubdtype(jnp.result_type(x), jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(x))
    return np.asarray(x)


def alike(one: list[Any], other: list[Any]) -> bool:
    """Up to roundings: narrow types are widened before anything is computed."""
    if len(one) != len(other):
        return False
    return all(map(_same, one, other))


def _same(x: Any, y: Any) -> bool:
    if isinstance(x, tuple) or isinstance(y, tuple):
        return x == y
    if x.shape != y.shape or x.dtype.kind not in "biuf":
        return x.shape == y.shape
    return np.allclose(x.astype(float), y.astype(float), rtol=1e-3, atol=1e-5, equal_nan=True)


def differences(name: str, call: Call) -> Iterator[str]:
    """In which form of which argument the answer is another, or an error is in nobody's words."""
    wanted = answer(call)
    for table in ("arguments", "held"):
        for argument, value in getattr(call, table).items():
            for form, other in forms(value):
                changed = call._replace(**{table: getattr(call, table) | {argument: other}})
                told = f"{name}: {argument} as {form}"
                try:
                    found = answer(changed)
                except Exception as error:
                    where = fault(error)
                    if where is not None:
                        yield f"{told}: {type(error).__name__} {str(error)[:150]!r} at {where}"
                    continue
                if not alike(wanted, found):
                    yield f"{told}: {_shown(wanted)} and {_shown(found)}"


def _shown(found: list[Any]) -> str:
    return str([x if isinstance(x, tuple) else x.ravel()[:3].tolist() for x in found[:3]])


def made(function: Callable, *args: Any) -> Any:
    """In place of a trace: what it would compute."""
    return jax.jit(function)(*args)


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default="*", help="names, or patterns such as 'scir*'")
    parser.add_argument("--whole", action="store_true", help="make the steps that are traced")
    options, table, count = parser.parse_args(given), calls(), 0
    make = made if options.whole else jax.eval_shape
    for name in chosen(options.only):
        with mock.patch("tests.fuzz.rows.common.jax.eval_shape", make):
            for difference in differences(name, table[name]):
                count += 1
                print(difference, flush=True)
    print(f"{count} differences")


if __name__ == "__main__":
    main()
