"""Checkpoints: a folder with one file of draws a chunk, and one of the state."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree, Shaped, UInt32

from ._structure import spelled, structure_texts, text_of
from ._version import versions

try:
    import fcntl
except ImportError:  # not of every system
    fcntl = None

Leaves = list[np.ndarray]
Meta = dict[str, Any]
_STATE, _LOCK = "state.npz", "lock"
_WORDS = 2**18  # of an array that are summed at once


class Checkpoint:
    """The file form of a run that can be continued bit for bit.

    Each chunk's draws go to a file of their own; then the state, with the number of draw files that
    count, replaces the old one atomically. A run killed at any moment therefore leaves a complete
    earlier point. Files hold arrays and JSON only: loading executes no code.

    Args:
        path: a folder, made if missing.
        fingerprint: what must agree for a run to be continued, by name, as far as both tell of it.

    Raises:
        ValueError: on loading, if the fingerprint differs; the message names what does. And if a
            file is missing, damaged, or holds anything but arrays.
    """

    def __init__(self, path: str | os.PathLike, fingerprint: dict[str, str]):
        self.path = Path(path)
        self.fingerprint = fingerprint
        self.num_segments = 0
        self._known: Any = None  # the state's file as this run found or left it
        self._lock: Any = None

    def save(self, state: PyTree, draws: PyTree, meta: Meta) -> None:
        """Append a chunk's draws, and make `state` the point to go on from."""
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = self._lock or _locked(self.path / _LOCK)
        if self._lock is None or self._stamp() != self._known:
            raise ValueError(
                f"checkpoint {self.path} is written to by another run too: give another folder"
            )
        _write(self._segment(self.num_segments), jax.tree.leaves(draws), meta)
        self.num_segments += 1
        own = {"fingerprint": self.fingerprint, "num_segments": self.num_segments}
        _write(self.path / _STATE, jax.tree.leaves(state), meta | own | {"versions": versions()})
        self._known = self._stamp()

    def close(self) -> None:
        """Let other runs write to the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def load(self) -> tuple[Leaves, list[tuple[Leaves, Meta]], Meta] | None:
        """The leaves of the state, those of each chunk's draws with its meta data, and the last."""
        self._known = self._stamp()
        if self._known is None:
            return None
        state, meta = _read(self.path / _STATE)
        there = meta["fingerprint"]
        # of the code of functions one version of Python tells, and another does not
        other = [name for name, own in self.fingerprint.items() if there.get(name, own) != own]
        if other:
            raise ValueError(
                f"checkpoint {self.path} belongs to another run, with another {', '.join(other)}: "
                "give another folder or the same arguments"
            )
        if (before := meta.get("versions", versions())) != versions():
            warnings.warn(
                f"checkpoint {self.path} was made by {before} and goes on by {versions()}: the "
                "rest may not be what one run would have made",
                stacklevel=5,
            )
        self.num_segments = meta["num_segments"]
        draws = [_read(self._segment(i)) for i in range(self.num_segments)]
        return state, draws, meta

    def _stamp(self) -> tuple[int, ...] | None:
        """What tells one file of the state from another, `None` if there is none."""
        try:
            found = os.stat(self.path / _STATE)
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _segment(self, index: int) -> Path:
        return self.path / f"draws-{index:06d}.npz"


def _locked(path: Path) -> Any:
    """A file that is this run's until it is closed or the process ends, where systems have such."""
    file = open(path, "w")
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        except OSError:  # a file system without locks
            pass
    return file


def fingerprint(**parts: Any) -> dict[str, str]:
    """A digest of each part: arrays by value, shapes by shape, the rest by its text."""

    def digest(part: Any) -> str:
        made = hashlib.sha256()
        for text in _texts(part):
            made.update(text.encode())
        return made.hexdigest()[:16]

    return {name: digest(part) for name, part in parts.items()}


def shapes(tree: PyTree) -> list[str]:
    """The shapes and dtypes of a tree, as text."""
    return [f"{np.shape(x)} {getattr(x, 'dtype', type(x))}" for x in jax.tree.leaves(tree)]


def contents(tree: PyTree) -> list[str]:
    """A digest of the values of each leaf, alike whichever processes and devices hold them."""
    return [_digest(x) for x in jax.tree.leaves(tree)]


def _digest(x: Any) -> str:
    if getattr(x, "is_fully_addressable", True):
        if isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            x = jax.random.key_data(x)
        sums = _checksum(np.asarray(x))
    else:
        sums = np.asarray(_checksum_of_parts(x).addressable_data(0))
    return "".join(f"{word:08x}" for word in sums)


def _checksum(x: np.ndarray) -> np.ndarray:
    """Sums of scrambled words, whole numbers that no order of addition changes."""
    if np.iscomplexobj(x):
        x = np.stack([np.real(x), np.imag(x)])
    words = np.ascontiguousarray(x).reshape(-1).view(f"uint{min(8 * x.dtype.itemsize, 32)}")
    sums = np.zeros(2, np.uint32)
    for start in range(0, len(words), _WORDS):
        bits = words[start : start + _WORDS].astype(np.uint32)
        place = np.arange(start, start + len(bits)).astype(np.uint32)
        mixed = _scramble(bits ^ _scramble(place + np.uint32(1)))
        sums += np.stack([part.sum(dtype=np.uint32) for part in (mixed, _scramble(mixed))])
    return sums


@jax.jit
def _checksum_of_parts(x: Shaped[Array, "..."]) -> UInt32[Array, "2"]:
    """The same of an array whose parts are on several processes."""
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        x = jnp.stack([x.real, x.imag])
    word = jnp.dtype(f"uint{min(8 * x.dtype.itemsize, 32)}")
    bits = x.astype(word) if x.dtype == bool else jax.lax.bitcast_convert_type(x, word)
    place = jnp.zeros(bits.shape, jnp.uint32)
    for axis, size in enumerate(bits.shape):
        place = place * np.uint32(size) + jax.lax.broadcasted_iota(jnp.uint32, bits.shape, axis)
    mixed = _scramble(bits.astype(jnp.uint32) ^ _scramble(place + np.uint32(1)))
    return jnp.stack([jnp.sum(part, dtype=jnp.uint32) for part in (mixed, _scramble(mixed))])


def _scramble(x: Any) -> Any:
    """The finaliser of MurmurHash3, a bijection of 32 bits."""
    x = (x ^ (x >> 16)) * np.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * np.uint32(0xC2B2AE35)
    return x ^ (x >> 16)


def _texts(part: Any) -> Iterator[str]:
    leaves, structure = jax.tree.flatten(spelled(part))
    yield "\n".join(structure_texts(structure))
    for leaf in leaves:
        yield "\n"
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        if not getattr(leaf, "is_fully_addressable", True):
            yield f"{leaf.dtype}{leaf.shape}{_digest(leaf)}"
        elif isinstance(leaf, jax.Array | np.ndarray):
            yield f"{leaf.dtype}{leaf.shape}"
            flat = np.ascontiguousarray(leaf).reshape(-1)
            for start in range(0, len(flat), _WORDS):
                yield flat[start : start + _WORDS].tobytes().hex()
        else:
            yield text_of(leaf)


def _write(path: Path, leaves: list[Any], meta: Meta) -> None:
    arrays: dict[str, Any] = {f"leaf{i:05d}": np.asarray(x) for i, x in enumerate(leaves)}
    arrays["meta"] = np.array(json.dumps(meta))
    temporary = path.with_suffix(".tmp")
    with open(temporary, "wb") as file:
        np.savez(file, **arrays)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def _read(path: Path) -> tuple[Leaves, Meta]:
    try:
        with np.load(path, allow_pickle=False) as file:
            names = sorted(name for name in file.files if name != "meta")
            return [file[name] for name in names], json.loads(str(file["meta"]))
    except (
        AttributeError,
        EOFError,
        KeyError,
        NotImplementedError,
        RuntimeError,
        ValueError,
        OSError,
        BadZipFile,
        zlib.error,
    ) as error:
        raise ValueError(
            f"{path} is no file of a checkpoint, or it is damaged ({error}): give another folder"
        ) from error
