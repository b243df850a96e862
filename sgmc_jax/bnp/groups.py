"""Data in groups, such as the words of documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree

from .. import _checks
from ..arrays import over_rows, word_rows
from ..collective import leading_axis


class Groups(NamedTuple):
    """Grouped data: S groups of up to L items each.

    Args:
        items: a pytree of arrays (S, L, ...); what lies past a group's size is ignored.
        size: the number of items of each group, (S,).

    Example:
        >>> import numpy as np
        >>> groups = Groups.from_list([np.array([3, 1]), np.array([2])])
        >>> groups.items.tolist(), groups.size.tolist()
        ([[3, 1], [2, 0]], [2, 1])
    """

    items: PyTree
    size: Int[Any, " S"]

    @classmethod
    def from_list(cls, groups: Sequence[Any]) -> Groups:
        """Groups from a list of arrays, one a group, padded with zeros to the longest."""
        arrays = [np.asarray(group) for group in groups]
        if not arrays:
            raise ValueError("groups must hold a group at least, got none")
        if any(group.ndim == 0 for group in arrays):
            raise ValueError("groups must be arrays of items, one a group, got a single number")
        size = np.array([len(group) for group in arrays], np.int32)
        some = [group for group in arrays if len(group)] or arrays[:1]  # an empty one has no dtype
        dtype, shape = np.result_type(*some), some[0].shape[1:]
        if others := {group.shape[1:] for group in some} - {shape}:
            raise ValueError(f"groups must have items of one shape, got {shape} and {min(others)}")
        items = np.zeros((len(arrays), max(1, size.max()), *shape), dtype)
        for row, group in zip(items, arrays, strict=True):
            if len(group):
                row[: len(group)] = group
        return cls(items, size)

    @property
    def present(self) -> Bool[Array, "S L"]:
        """True where there is an item, False past a group's size."""
        return jnp.arange(jax.tree.leaves(self.items)[0].shape[1]) < self.size[:, None]

    @property
    def flat(self) -> PyTree:
        """All places of all groups, one after the other."""
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), self.items)

    def present_alone(self) -> Groups:
        """The groups with zeros past their sizes, where not even NaN may be part of a sum."""
        present = self.present

        leaf = lambda x: jnp.where(over_rows(present, x), x, 0)
        return self._replace(items=jax.tree.map(leaf, self.items))

    @classmethod
    def from_counts(cls, counts: Any) -> Groups:
        """Groups of words from a matrix of counts, a row a document, such as text becomes.

        Args:
            counts: (S, V) whole numbers, dense or a sparse matrix of scipy, such as scikit-learn's
                `CountVectorizer().fit_transform(texts)`. The words are numbered by its columns.

        Raises:
            ValueError: if the counts are not whole numbers, or negative.

        Example:
            >>> import numpy as np
            >>> groups = Groups.from_counts(np.array([[2, 0, 1], [0, 1, 0]]))
            >>> groups.items.tolist(), groups.size.tolist()
            ([[0, 0, 2], [1, 0, 0]], [3, 1])
        """
        counts = counts if hasattr(counts, "tocsr") else _checks.on_host("counts", counts)
        if len(counts.shape) != 2:
            raise ValueError(f"counts must be a matrix, a row a document, got shape {counts.shape}")
        words = word_rows(counts, counts.shape[1])
        # -1 past the last word; the sizes tell that from word 0
        return cls(np.maximum(words, 0), np.sum(words >= 0, axis=1).astype(np.int32))


def check_groups(data: Any) -> None:
    """Raise unless the data are groups, of sizes that are whole numbers and fit the items."""
    if not isinstance(data, Groups):
        raise TypeError(
            f"data must be Groups(items, size), got {type(data).__name__}; documents, rows padded "
            "with -1, become Groups(documents, (documents >= 0).sum(1))"
        )
    if not leading_axis(data):
        raise ValueError("data must hold a group at least, got none")
    widths = {x.shape[1] if x.ndim > 1 else None for x in jax.tree.leaves(data.items)}
    if len(widths) != 1 or None in widths:
        raise ValueError(f"data.items must have axes of groups and of items, got lengths {widths}")
    if not jnp.issubdtype(jnp.result_type(data.size), jnp.integer):
        raise TypeError(f"data.size must be integers, got {jnp.result_type(data.size)}")
    # under `jit` sizes are taken at their word
    if _checks.is_concrete(data.size):
        size, (width,) = np.asarray(data.size), widths
        if size.min() < 0 or size.max() > width:
            raise ValueError(
                f"data.size must be between 0 and {width}, got {size.min()} to {size.max()}"
            )
