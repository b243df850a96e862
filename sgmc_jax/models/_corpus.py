"""What rows of word indices and log topics have to be."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from .. import _checks


def check_documents(data: Any, vocabulary: int) -> None:
    """Raise unless concrete data are rows of word indices."""
    if isinstance(data, tuple | list) or hasattr(data, "todense"):
        raise TypeError(
            f"data must be rows of word indices, got {type(data).__name__}: LDA.documents makes "
            "them of dense or sparse counts"
        )
    data = _checks.on_host("data", data)
    if data.ndim != 2 or data.dtype.kind not in "iu" or not len(data):
        raise ValueError(
            f"data must be rows of word indices, as LDA.documents makes them of counts, got "
            f"{data.dtype} of shape {data.shape}"
        )
    if data.shape[1] == vocabulary and np.all(data >= 0):
        raise ValueError(
            f"data must be rows of word indices, got a matrix of {vocabulary} columns, the "
            "vocabulary, without padding (-1), which looks like counts: make documents of counts "
            "by LDA.documents; to documents that all have so many words append a column of -1"
        )
    if data.size and not -1 <= data.min() <= data.max() < vocabulary:
        raise ValueError(
            f"data must be of words 0 to {vocabulary - 1}, padded with -1, got {data.min()} to "
            f"{data.max()}"
        )
    late = np.any((data[:, :-1] < 0) & (data[:, 1:] >= 0), axis=1)
    if np.any(late):
        raise ValueError(
            f"data must have padding at the end of its rows, got words after it in row "
            f"{np.argmax(late)}"
        )


def check_topics(name: str, log_topics: Any, num_topics: int, vocabulary: int) -> None:
    """Raise unless arrays are log topics, whose rows may have any sum."""
    concrete = _checks.is_concrete(log_topics)
    array = _checks.on_host(name, log_topics) if concrete else log_topics
    shape, dtype = array.shape, array.dtype
    if shape[-2:] != (num_topics, vocabulary) or not jnp.issubdtype(dtype, jnp.floating):
        raise ValueError(
            f"{name} must be a floating array of shape ({num_topics}, {vocabulary}), topics and "
            f"words, as LDA.start gives, got {dtype} of shape {shape}"
        )
    if 0 in shape:
        raise ValueError(f"{name} must have one draw at least, got shape {shape}")
    if not concrete:
        return
    values = np.asarray(array)
    if not np.all(values < np.inf):
        raise ValueError(f"{name} must be less than infinity, got NaN or infinity")
    if vocabulary > 1 and np.all(values >= 0) and np.allclose(values.sum(-1), 1, atol=1e-3):
        raise ValueError(f"{name} must be logarithms, got probabilities; their log will do")
