"""Spoilt calls of the public surface: each returns, or is refused in words of the library's own.

`python -m tests.fuzz.fuzz --calls 10000` prints what is neither, once for each place; with
`--only predictive 'slice*'` of these rows alone.
"""

from __future__ import annotations

import argparse
import random
import signal
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import sgmc_jax
from sgmc_jax._checks import shown
from tests.fuzz.calls import Call, calls

HOME = str(Path(sgmc_jax.__file__).parent)
HERE = str(Path(__file__).parent)
REFUSALS = (TypeError, ValueError, ImportError, FloatingPointError)
X = np.random.default_rng(5).normal(size=(20, 2))  # data by mistake
SECONDS = 60  # a call that takes longer hangs


class Late(Exception):
    """A call that hangs; no error of the library's, or of a user's."""


class Fault(NamedTuple):
    """A call that ended as none should."""

    name: str
    spoilt: dict[str, str]
    error: str
    where: str


def junk() -> list[Any]:
    """What an argument may be by mistake."""
    nan, inf = float("nan"), float("inf")
    numbers = [0, -1, 1, 3, 2.5, -0.5, 1e30, nan, inf, -inf, 1j, True, 10**12, np.int64(2)]
    arrays = [
        np.zeros(0),
        np.zeros((0, 2), np.float32),
        np.zeros(3, np.float32),
        np.full((20, 2), nan, np.float32),
        np.ones((20, 2), np.int32),
        np.ones((20, 2), complex),
        np.ones((2, 2)),
        -np.eye(2),
        np.ones((20, 3, 2)),
        jnp.ones(()),
        jnp.zeros((4, 1)),
        np.array(["a", "b"]),
        np.array([None, 1], object),
    ]
    trees = [None, "", "none", [], (), {}, {"a": 1.0}, (1.0, 2.0), [1, 2, 3], (X,), (X, X[:3])]
    functions = [print, object, lambda: None, lambda x: x, lambda x: None, lambda x: jnp.sum(x)]
    own = [object(), sgmc_jax.Sphere(), sgmc_jax.Uniform(3), sgmc_jax.Full(), jax.random.key(1)]
    return numbers + arrays + trees + functions + own


def spoil(source: random.Random, call: Call, pool: list[Any]) -> tuple[Call, dict[str, Any]]:
    """The call with one or two of its arguments replaced."""
    names = [*call.arguments, *call.held]
    chosen = source.sample(names, min(len(names), source.choice([1, 1, 1, 2])))
    spoilt = {name: source.choice(pool) for name in chosen}
    fresh = lambda table: {name: spoilt.get(name, value) for name, value in table.items()}
    return call._replace(arguments=fresh(call.arguments), held=fresh(call.held)), spoilt


def fault(error: BaseException) -> str | None:
    """Where an error comes from, unless the library itself, or a user's function, says it."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    own = [i for i, frame in enumerate(frames) if frame.filename.startswith(HOME)]
    if isinstance(error, Late):
        return f"{last.name} after {SECONDS} seconds" if not own else _place(frames[own[-1]])
    if not own:
        return None  # Python's own words for the call itself
    if any(frame.filename.startswith(HERE) for frame in frames[own[-1] :]):
        return None  # a user's function says it itself
    raised = last.filename.startswith(HOME) and (last.line or "").lstrip().startswith("raise")
    if raised and isinstance(error, REFUSALS) and 10 < len(str(error)) < 600:
        return None
    return _place(frames[own[-1]])


def _place(frame: traceback.FrameSummary) -> str:
    return f"{frame.filename[len(HOME) + 1 :]}:{frame.lineno}"


def _late(*_: Any) -> None:
    raise Late(f"no answer in {SECONDS} seconds")


def attempt(name: str, call: Call, spoilt: dict[str, Any]) -> Fault | None:
    """Make the call; what it did wrong, if anything."""
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = call.function(**call.arguments)
            jax.block_until_ready(call.use(result, call.held))
    except Exception as error:
        where = fault(error)
        text = f"{type(error).__name__}: {str(error)[:150]!r}"
        told = {name: shown(value) for name, value in spoilt.items()}
        return None if where is None else Fault(name, told, text, where)
    finally:
        signal.alarm(0)
    return None


def chosen(patterns: Sequence[str]) -> list[str]:
    """The names of the rows that one of the patterns fits, as of files in a shell."""
    names = [name for name in calls() if any(fnmatchcase(name, each) for each in patterns)]
    if not names:
        raise ValueError(f"no row is called {' or '.join(patterns)}")
    return names


def faults(num_calls: int, seed: int, only: Sequence[str] = "*") -> Iterator[Fault | None]:
    """What each of so many calls did wrong, `None` for nothing."""
    source, table, pool = random.Random(seed), calls(), junk()
    names = chosen(only)
    for _ in range(num_calls):
        name = source.choice(names)
        yield attempt(name, *spoil(source, table[name], pool))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", default="*", help="names, or patterns such as 'scir*'")
    given = parser.parse_args()
    seen: Counter[tuple[str, str]] = Counter()
    for each in faults(given.calls, given.seed, given.only):
        if each is None:
            continue
        seen[each.name, each.where] += 1
        if seen[each.name, each.where] == 1:
            print(f"{each.name} {each.spoilt}\n    {each.error}\n    {each.where}", flush=True)
    print(f"{given.calls} calls, {sum(seen.values())} faults in {len(seen)} places")


if __name__ == "__main__":
    main()
