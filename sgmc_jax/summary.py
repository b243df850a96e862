"""A table of what a run says of each scalar."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from .diagnostics import ess, rhat

_SHOWN = 60  # rows of the printed table
_TAILS = (0.05, 0.95)


class Summary(NamedTuple):
    """Mean, standard deviation and convergence of each scalar; prints as a table.

    Attributes:
        names: the scalars, by their path in the position and their index.
        columns: by name, a number for each scalar: `mean`, `sd`, `mcse_mean` (the standard error of
            the mean, sd / sqrt(ESS)), `ess_bulk`, `ess_tail` and, of several chains, `r_hat`.
        num_chains: the number of chains, those of all kernels.
        num_draws: the number of draws of each.
        num_stopped: how many chains turned non-finite, and stayed from then on where they were.
        acceptance_rate: the mean acceptance probability, if the info has an `acceptance`.
    """

    names: tuple[str, ...]
    columns: dict[str, Float[np.ndarray, " n"]]
    num_chains: int
    num_draws: int
    num_stopped: int
    acceptance_rate: float | None

    def to_dict(self) -> dict[str, dict[str, float]]:
        """The rows by name; `pandas.DataFrame.from_dict(..., orient="index")` makes a frame."""
        return {
            name: {column: float(x[i]) for column, x in self.columns.items()}
            for i, name in enumerate(self.names)
        }

    def __str__(self) -> str:
        head = f"{self.num_chains} chains of {self.num_draws} draws"
        if self.acceptance_rate is not None:
            head += f", acceptance {self.acceptance_rate:.3f}"
        head += f", {self.num_stopped} not finite"
        cells = [["", *self.columns]]
        for i, name in enumerate(self.names[:_SHOWN]):
            cells.append([name, *(_shown(column, x[i]) for column, x in self.columns.items())])
        widths = [max(map(len, column)) for column in zip(*cells)]
        rows = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in cells
        ]
        more = len(self.names) - _SHOWN
        return "\n".join([head, *rows, *([f"... and {more} more"] if more > 0 else [])])


def statistics(x: Float[np.ndarray, "chain draw ..."]) -> dict[str, np.ndarray]:
    """The columns of a summary, of all scalars of an array."""
    x = np.asarray(x, np.result_type(x, np.float32)).reshape(*x.shape[:2], -1)
    wide = x.astype(np.float64)
    sd = wide.std((0, 1), ddof=1)
    columns = {
        "mean": wide.mean((0, 1)),
        "sd": sd,
        "mcse_mean": sd / np.sqrt(np.asarray(ess(x, kind="mean"))),
        "ess_bulk": ess(x),
        "ess_tail": _tail_ess(x),
    }
    if len(x) > 1:
        columns["r_hat"] = rhat(x)
    return {name: np.asarray(column, np.float64) for name, column in columns.items()}


def _tail_ess(x: Float[np.ndarray, "chain draw n"]) -> np.ndarray:
    """The smaller of the effective sample sizes of the 5 % and the 95 % quantile."""
    below = [x <= np.quantile(x, p, axis=(0, 1)) for p in _TAILS]
    each = [np.asarray(ess(some.astype(np.float32), kind="mean")) for some in below]
    return np.where(np.isfinite(x).all((0, 1)), np.minimum(*each), np.nan)


def _shown(column: str, value: float) -> str:
    if column.startswith("ess"):
        return f"{value:.0f}"
    return f"{value:.3f}" if column == "r_hat" else f"{value:.3g}"
