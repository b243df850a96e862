"""A table of what a run says of each scalar."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from . import _table
from .diagnostics import ess, rhat

_SHOWN = 60  # rows of the printed table
# What passes without a remark: R-hat, and effective draws of a chain, up to those of four.
_MIXED, _ENOUGH = 1.01, 100
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
        acceptance_rate: the mean acceptance probability, if the info has an `acceptance`; of
            several kernels the least.
        excess_temperature: the mean of what the info tells by that name, of several kernels the
            largest; see `SplittingInfo`.
        remarks: what speaks against the run, and what to do about it.

    Example: made by hand; a `Run` has it by `summary`.
        >>> import numpy as np
        >>> columns = {"mean": np.array([0.5]), "sd": np.array([2.0])}
        >>> table = Summary(("x",), columns, num_chains=4, num_draws=100, num_stopped=0)
        >>> table.to_dict()["x"]["sd"], str(table).split(",")[0]
        (2.0, '4 chains of 100 draws')
    """

    names: tuple[str, ...]
    columns: dict[str, Float[np.ndarray, " n"]]
    num_chains: int
    num_draws: int
    num_stopped: int
    acceptance_rate: float | None = None
    excess_temperature: float | None = None
    remarks: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, dict[str, float]]:
        """The rows by name; `pandas.DataFrame.from_dict(..., orient="index")` makes a frame."""
        return _table.rows(self.names, self.columns)

    def __repr__(self) -> str:  # also where it is the last line of a cell
        return str(self)

    def __str__(self) -> str:
        head = f"{self.num_chains} chains of {self.num_draws} draws"
        if self.acceptance_rate is not None:
            head += f", acceptance {self.acceptance_rate:.3f}"
        if self.excess_temperature is not None:
            head += f", excess temperature {self.excess_temperature:.3f}"
        head += f", {self.num_stopped} not finite"
        said = [f"! {remark}" for remark in self.remarks]
        return "\n".join([head, *said, *_table.lines(self.names, self.columns, _shown, _SHOWN)])


def convergence(
    names: tuple[str, ...], columns: dict[str, np.ndarray], num_chains: int, stopped: np.ndarray
) -> list[str]:
    """What the columns of a summary say against a run, with the thresholds of Vehtari et al.

    Of `num_chains` of each kernel; `stopped` tells at which step each turned non-finite, or -1.
    """
    said, r_hat = [], columns.get("r_hat", np.ones(1))
    sizes = np.fmin(columns["ess_bulk"], columns["ess_tail"])
    broken = stopped[stopped >= 0]
    if broken.size:
        said.append(
            f"{broken.size} of {stopped.size} chains turned non-finite, first at step "
            f"{broken.min()}: what is kept from there on is one draw again and again; take a "
            "smaller step size, or other starts"
        )
    if len(names) and np.all(columns["sd"] == 0) and broken.size < stopped.size:
        said.append("nothing has moved: take larger steps, or look at the acceptance rate")
    if np.nanmax(r_hat, initial=1.0) > _MIXED:
        at = int(np.nanargmax(r_hat))
        said.append(
            f"R-hat is {r_hat[at]:.3f} for {names[at]}: the chains do not agree; take more steps, "
            "a longer burn_in, or other starts"
        )
    if np.nanmin(sizes, initial=np.inf) < _ENOUGH * min(num_chains, 4):
        at = int(np.nanargmin(sizes))
        said.append(
            f"{names[at]} has {sizes[at]:.0f} effective draws: its figures are rough; take more "
            "steps, or a metric that fits the target (whiten)"
        )
    return said


def statistics(x: Float[np.ndarray, "chain draw ..."]) -> dict[str, np.ndarray]:
    """The columns of a summary, of all scalars of an array."""
    x = np.asarray(x, np.result_type(x, np.float32)).reshape(*x.shape[:2], -1)
    wide = x.astype(np.float64)
    sd = (wide - wide[:1, :1]).std((0, 1), ddof=1)  # the mean of equal numbers may not be theirs
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "x has more chains")  # as a run may have
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
