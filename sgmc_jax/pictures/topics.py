"""Topics by their likeliest words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from .. import _checks
from ..evaluation.order import likeliest, spelt
from . import _axes


def plot_topics(
    topics: Float[Any, "K V"],
    vocabulary: Sequence[str],
    num: int = 8,
    *,
    counts: Int[Any, " K"] | Sequence[int] | None = None,
    columns: int = 4,
    axes: Any = None,
) -> Any:
    """The likeliest words of each topic as bars, the likeliest above, all topics on one scale.

    Args:
        topics: (K, V), `word_distributions`, or anything that is larger for likelier words.
        vocabulary: V words.
        num: how many of them.
        counts: (K,), the words in each topic: those in use come alone, the largest first. By
            default all topics in their order.
        columns: how many topics in a row of new axes.
        axes: one for each topic, to draw in; by default new ones.

    Returns:
        the axes, an array of one for each topic.

    Raises:
        ImportError: without matplotlib.
        ValueError, TypeError: if a shape or a number does not fit, or no topic is in use.

    Example:
        >>> import numpy as np
        >>> from sgmc_jax.pictures import plot_topics
        >>> topics = np.array([[0.6, 0.3, 0.1], [0.3, 0.3, 0.3], [0.1, 0.2, 0.7]])
        >>> axes = plot_topics(topics, ["sea", "ship", "sun"], 2, counts=[4, 0, 9])
        >>> [ax.get_title() for ax in axes]
        ['topic 2: 9 words', 'topic 0: 4 words']
        >>> [label.get_text() for label in axes[0].get_yticklabels()]
        ['sun', 'ship']
    """
    values = _axes.real("topics", topics, "K", "V")
    _checks.whole("columns", columns)
    slots, words = likeliest(values, vocabulary, num, counts)
    if not len(slots):
        raise ValueError("counts must be positive for some topic, got none in use")
    height = 0.6 + 0.2 * words.shape[1]
    places, shown = _axes.several(axes, len(slots), columns, (2.4, height)), values[slots]
    law = np.all(values >= 0) and np.allclose(values.sum(1), 1, atol=1e-3)
    best = np.take_along_axis(shown, words, axis=1)
    limits = min(best.min(), 0.0), max(best.max(), 0.0)
    for ax, slot, row, bars in zip(places, slots, spelt(vocabulary, words), best, strict=True):
        at = np.arange(len(row))
        ax.barh(at, bars, color="C0")
        ax.set_yticks(at, row)
        said = "" if counts is None else f": {_axes.shown(np.asarray(counts)[slot])} words"
        ax.set(title=f"topic {slot}{said}", xlabel="probability" if law else "weight")
        ax.set_ylim(len(row) - 0.4, -0.6)
        if limits[0] < limits[1]:
            ax.set_xlim(1.05 * limits[0], 1.05 * limits[1])
    return places
