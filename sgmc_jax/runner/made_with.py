"""What a run was made with, kept beside it for one that goes on."""

from __future__ import annotations

import equinox as eqx
import jax
from jaxtyping import PyTree

from ..checkpoint import contents, fingerprint, shapes
from .code import code_by_version


class MadeWith:
    """What a run was made with, by which one that goes on from it tells whether that has changed.

    Functions are compared by their code, as in checkpoints, and data by their values, where they
    are other objects. Those of streams are not, and an array of NumPy's that was written to in
    between is taken for the same. Of a run that was pickled digests are left of both.

    Args:
        kernel: what it says of itself, `Kernel.made_with`; `None` if nothing is known.
        data: arrays; `None` of a stream.
        digests: those of kernel and data, in their place.
    """

    def __init__(
        self,
        kernel: PyTree = None,
        data: PyTree = None,
        digests: tuple[dict[str, str], dict[str, str]] | None = None,
    ):
        self.parts = None if kernel is None else (kernel, data)
        self.digests = digests
        if not all(getattr(x, "is_fully_addressable", True) for x in jax.tree.leaves(self.parts)):
            self.digests = self._of_kernel(), self._of_data()  # while all processes are here

    def __reduce__(self) -> tuple:
        return MadeWith, (None, None, self.digests or (self._of_kernel(), self._of_data()))

    # a part of the structure of a run, which is the same for all
    def __eq__(self, other: object) -> bool:
        return isinstance(other, MadeWith)

    def __hash__(self) -> int:
        return 0

    def agrees(self, other: MadeWith | None) -> bool:
        """Whether both are of one kernel and the same data, as far as both know."""
        if other is None:
            return True
        if self.parts is None or other.parts is None:
            same_data = _agree(self._of_data(), other._of_data())
            return same_data and _agree(self._of_kernel(), other._of_kernel())
        (kernel, data), (own, seen) = self.parts, other.parts
        if not _same_arrays(data, seen):
            return False
        return bool(eqx.tree_equal(kernel, own)) or _agree(self._of_kernel(), other._of_kernel())

    def _of_kernel(self) -> dict[str, str]:
        if self.parts is None:
            return {} if self.digests is None else self.digests[0]
        kernel = self.parts[0]
        return fingerprint(kernel=kernel, **code_by_version(kernel))

    def _of_data(self) -> dict[str, str]:
        if self.parts is None:
            return {} if self.digests is None else self.digests[1]
        data = self.parts[1]
        return fingerprint(shapes=shapes(data), contents=contents(data))


def _agree(one: dict[str, str], other: dict[str, str]) -> bool:
    return all(other.get(name, digest) == digest for name, digest in one.items())


def _same_arrays(x: PyTree, y: PyTree) -> bool:
    (left, structure), (right, other) = map(jax.tree.flatten, (x, y))
    if structure != other:
        return False
    if all(a is b for a, b in zip(left, right)):
        return True
    return shapes(x) == shapes(y) and contents(x) == contents(y)
