"""One number for each row of an array."""

from __future__ import annotations

from typing import Any

import numpy as np


def over_rows(v: Any, x: Any) -> Any:
    """`v`, a number or truth value for each row of `x`, with as many axes as `x` to broadcast over.

    Rows may have several leading axes: `v` is of shape `x.shape[:v.ndim]`.

    Example:
        >>> over_rows(np.array([True, False]), np.ones((2, 3))).tolist()
        [[True], [False]]
    """
    return v.reshape(v.shape + (1,) * (np.ndim(x) - v.ndim))
