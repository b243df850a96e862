"""How far slices reach, chosen in the burn-in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import _checks
from .._types import Data, Position
from ..bnp import Groups, HybridState, SliceCRM
from ..bnp.slice_bnb import SliceBNB
from ..collective import leading_axis
from ..diagnostics import ess
from ..run import Run, RunInfo
from ..sample import sample


class DecayTable(NamedTuple):
    """What was seen of each decay: ESS a step, columns visited in a step, and their ratio.

    Example:
        >>> ess, cost = np.array([0.1, 0.3]), np.array([4.0, 6.0])
        >>> table = DecayTable(np.array([0.5, 2.0]), ess, cost, efficiency=ess / cost)
        >>> float(table.decay[table.efficiency.argmax()])
        2.0
    """

    decay: Float[np.ndarray, " D"]
    ess: Float[np.ndarray, " D"]
    cost: Float[np.ndarray, " D"]
    efficiency: Float[np.ndarray, " D"]


class TunedDecay(NamedTuple):
    """The kernel with its decay frozen, the run to be continued with it, and the table.

    Example: but for the run, which `tune_decay` returns too.
        >>> from sgmc_jax.bnp import BetaBernoulli, LinearGaussian, slice_features
        >>> kernel = slice_features(BetaBernoulli(1.0), LinearGaussian(2), decay=2.0)
        >>> table = DecayTable(*np.array([[0.5, 2.0], [0.1, 0.3], [4.0, 6.0], [0.025, 0.05]]))
        >>> tuned = TunedDecay(kernel, run=None, table=table)
        >>> float(tuned.kernel.decay), float(tuned.table.decay[tuned.table.efficiency.argmax()])
        (2.0, 2.0)
    """

    kernel: SliceCRM | SliceBNB
    run: Run
    table: DecayTable


def tune_decay(
    key: Any,
    kernel: SliceCRM | SliceBNB,
    position: Position,
    data: Data,
    *,
    decays: Sequence[float] = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
    num_steps: int = 200,
) -> TunedDecay:
    """The decay of a slice sampler, chosen by effective sample size as a part of the burn-in.

    Slices are drawn anew in every step, so every decay has the same target, and none of the steps
    is lost: each decay makes `num_steps` of them from where the last one stopped. With K the number
    of atoms in use and m_k the items of each, in the second half of these steps

        ess(decay)  = min_s ESS(s) / steps,            s in {K, sum_k m_k^2}
        cost(decay) = mean K + decay (log n + 0.577)   columns visited: the largest of n levels
        decay*      = argmax ess / cost

    by batch means. A statistic that is constant in these steps has ESS 0, one that is constant for
    all decays does not count; if no decay has a positive ESS, the kernel keeps its own.

    The first decays take the chain to where it belongs and are judged by that too: begin from a run
    of its own where this takes long. Batch means of 100 steps are off by a half, of 1,000 by a
    quarter, so they tell decays apart that differ by more. The choice depends on the steps that
    were made for it: only those made afterwards, with the decay frozen, are draws.

    Args:
        key: a random key; the same key gives the same choice.
        kernel: `slice_features`, `slice_crm` or `slice_bnb`. All decays share one compiled program,
            as long as the capacity is enough.
        position: where to begin, as of `sample`, for one chain: a position, or a `Run` to go on
            from.
        data: the data; `n` is the number of its rows, of groups that of their items.
        decays: what to choose from, in the order in which they take turns.
        num_steps: the steps of each, at least 8.

    Returns:
        `TunedDecay(kernel, run, table)`: the kernel with the decay chosen; the last `Run`, whose
        trace has the statistics, to be continued by `sample(key, kernel, run, data, ...)`, with the
        same key if one likes; and a `DecayTable` with the decay, ess, cost and efficiency of each.

    Raises:
        TypeError: if `kernel` is no slice sampler of a random measure, or a decay no number.
        ValueError: if there are no decays, or one is not positive, `num_steps` are too few, or the
            position is a run of several chains.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax.bnp import BetaBernoulli, LinearGaussian, slice_features
        >>> from sgmc_jax.tune import tune_decay
        >>> X = jnp.tile(jnp.array([[3.0, 0.0], [0.0, 3.0], [3.0, 3.0]]), (4, 1))
        >>> kernel = slice_features(BetaBernoulli(1.0), LinearGaussian(2, 0.3, 3.0), capacity=64)
        >>> tuned = tune_decay(jax.random.key(0), kernel, None, X, decays=(0.5, 2.0), num_steps=50)
        >>> tuned.run.num_steps, bool(tuned.kernel.decay in tuned.table.decay)
        (100, True)

    Reference:
        Nand, Bouchard-Cote and Campbell (2020), Slice sampling for general completely random
        measures, where the decay is set by hand. Kalli, Griffin and Walker (2011), Slice sampling
        mixture models, on what a slow decay costs and gains.
    """
    if not isinstance(kernel, SliceCRM | SliceBNB):
        raise TypeError(
            "kernel must be slice_features, slice_crm or slice_bnb, whose slices have a decay, "
            f"got {type(kernel).__name__}"
        )
    if isinstance(position, Run) and position.axes != ("draw",):
        raise ValueError(
            "position must be a run of one chain without an axis of chains, got one with the axes "
            f"{position.axes}: give the position of one of its chains"
        )
    _checks.positive("decays", decays)
    arms = _checks.doubles("decays", decays).astype(kernel.decay.dtype)
    if arms.ndim != 1 or not arms.size:
        got = _checks.shown(decays)
        raise ValueError(f"decays must be a sequence of one number or more, got {got}")
    _checks.whole("num_steps", num_steps, 8)
    run, seen, half = position, [], num_steps // 2
    for decay in arms:
        arm = replace(kernel, decay=decay)
        run = sample(key, arm, run, data, num_steps=num_steps, burn_in=half, record=_statistics)
        if len(run.trace) < num_steps - half:
            raise KeyboardInterrupt("tune_decay was interrupted")
        seen.append(run.trace)
    table = _table(arms, np.stack(seen, axis=1), _num_items(data))
    if np.any(table.efficiency > 0):
        kernel = replace(kernel, decay=arms[np.argmax(table.efficiency)])
    return TunedDecay(kernel, run, table)


def _statistics(state: HybridState, info: RunInfo) -> Float[Array, "2"]:
    """K, and sum_k m_k^2, which would overflow as an integer."""
    counts = state.sums.counts.astype(float)
    return jnp.stack([info.active.astype(float), jnp.sum(counts**2)])


def _num_items(data: Data) -> int:
    return int(np.sum(data.size)) if isinstance(data, Groups) else leading_axis(data)


def _table(decays: np.ndarray, seen: Float[np.ndarray, "draw D 2"], num_items: int) -> DecayTable:
    moved = np.ptp(seen, axis=0) > 0
    each = np.where(moved, ess(seen[None], kind="batch_means") / len(seen), 0)
    some = moved.any(axis=0)
    least = each[:, some].min(axis=1) if some.any() else np.zeros_like(decays)
    cost = seen[..., 0].mean(axis=0) + decays * (np.log(num_items) + np.euler_gamma)
    return DecayTable(decays, least, cost, least / cost)
