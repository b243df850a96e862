"""What the infos of a run say against it, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

TOO_HOT = 0.2  # the excess of the temperature from which on a run is remarked upon
REFUSED = 0.1  # the acceptance probability below which it is
_BLURRED = 0.25  # the rounding of an energy, in nats, from which on it is
_FEW = 1_000  # steps that tell nothing yet
_FEW_OF_A_CHAIN = 200  # of one chain, of whether it moves at all


def values_of(info: Any, name: str) -> Iterator[np.ndarray]:
    """The values of a field of an info, or of the infos of a combinator's kernels, not `None`."""
    has = lambda x: hasattr(x, name)
    for part in filter(has, jax.tree.leaves(info, is_leaf=has)):
        if getattr(part, name) is not None:
            yield np.asarray(getattr(part, name))


def means(info: Any, name: str, axes: Sequence[str], least: int = 1) -> list[float]:
    """The means of the values of a field, kernel by kernel, where there are `least` at least."""
    by_kernel = [x if "kernel" in axes else x[None] for x in values_of(info, name)]
    finite = [x[np.isfinite(x)] for stack in by_kernel for x in stack]
    return [float(x.mean(dtype=np.float64)) for x in finite if x.size >= least]


def remarks(info: Any, axes: Sequence[str], each: int = 1) -> list[str]:
    """What is wrong with steps of these infos, although their chains may agree.

    Args:
        info: of the kernel.
        axes: its leading axes, "kernel" of a stack, of chains and of draws.
        each: the number of steps that each of them is the mean of.

    Returns:
        sentences; none if all is well, or the draws are too few to tell.
    """
    said = []
    least = -(-_FEW // each)
    hot, rates = (means(info, x, axes, least) for x in ("excess_temperature", "acceptance"))
    if hot and max(hot) > TOO_HOT:
        said.append(
            f"the chains are {max(hot):.0%} too hot (excess_temperature): the noise of the "
            "gradient or the step size widens what is drawn, or the chains are still on their way; "
            "take a smaller step size, larger batches, control variates or a longer burn_in, or "
            "let tune.default_kernel choose"
        )
    if rates and min(rates) < REFUSED:
        said.append(
            f"of the proposals {min(rates):.1%} are accepted: take a smaller step size, or a "
            "metric that fits the target (whiten)"
        )
    else:
        said += _chains_that_stand(info, axes, -(-_FEW_OF_A_CHAIN // each))
    floating = (x for x in values_of(info, "energy") if jnp.issubdtype(x.dtype, jnp.floating))
    for energies in (x[np.isfinite(x)] for x in floating):
        size = float(np.median(np.abs(energies))) if energies.size else 0.0
        blur = size * float(jnp.finfo(energies.dtype).eps)
        if blur > _BLURRED:
            said.append(
                f"energies of {size:.1g} are known to {blur:.1g} nats in {energies.dtype}, and so "
                "is what the Metropolis test compares: subtract a constant from the log "
                "likelihood of each item, such as its value at the start, or enable jax_enable_x64"
            )
    return said


def _chains_that_stand(info: Any, axes: Sequence[str], least: int) -> list[str]:
    """Of the chains of a kernel, of `least` draws or more, the one that hardly moves: the mean over
    all hides it."""
    for x in values_of(info, "acceptance") if "chain" in axes else ():
        draws = np.moveaxis(x, axes.index("chain"), 0)
        # the rest is draws, of a run that keeps a mean one, and what `repeat` has made in each
        draws = draws.reshape(*draws.shape[: 1 + ("kernel" in axes)], -1)
        if draws.shape[-1] < least:
            continue
        rates = np.nan_to_num(draws.mean(-1, dtype=np.float64), nan=1.0)
        rates = rates.reshape(len(draws), -1).min(-1)
        if rates.min() < REFUSED <= rates.max():
            return [
                f"of the proposals of chain {rates.argmin()} {rates.min():.1%} are accepted, "
                "though others move: take another start, a smaller step size, or a metric that "
                "fits the target (whiten)"
            ]
    return []
