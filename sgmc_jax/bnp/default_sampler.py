"""A sampler that is ready to run, for any process and family: kernel, blocks, slots and start."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from .. import _checks
from .._frames import without_frames
from .._types import Kernel
from ..collective import Dist, leading_axis
from ..combinators import cycle
from ..families import Family, FeatureFamily
from ..processes import FeatureProcess, HierarchicalDirichletProcess, PitmanYor, Process
from ._starts import check_group_start, random_labels
from .hybrid.features import hybrid_features
from .hybrid.hdp import hybrid_hdp
from .hybrid.mixture import hybrid_mixture
from .seed_features import seed_features
from .split_merge import split_merge

_TOPICS, _SLOTS = 20, 16
_IN_A_BLOCK = 200  # items swept in turn by a processor; a GPU sweeps more blocks at once
_IN_A_BLOCK_OF_A_GPU = 50
_WORDS_IN_A_BLOCK = 1_000


class DefaultSampler(NamedTuple):
    """A kernel, the position where its chains begin, and in words what was chosen.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax.bnp import DirichletProcess, NormalKnownCovariance, default_sampler
        >>> parts = DirichletProcess(1.0), NormalKnownCovariance(0.0, 1.0, 25.0)
        >>> found = default_sampler(jax.random.key(0), *parts, jnp.arange(6.0)[:, None])
        >>> found.position.local["assignment"].tolist(), found.choices.split(", ")[1]
        ([0, 0, 0, 0, 0, 0], '16 slots')
    """

    kernel: Kernel
    position: Dist
    choices: str


def default_sampler(
    key: Any, process: Process, family: Family | FeatureFamily, data: PyTree, *, shards: int = 1
) -> DefaultSampler:
    """A sampler of a nonparametric model with all of its settings: what to try first.

    Chains that begin with one topic or feature may stay there for as long as anyone waits, and all
    of them alike, so that no diagnostic tells; so do mixtures without moves that divide clusters.
    The start is made from the data, and as many blocks as keep the part that is swept in turn
    short:

    | process | kernel | start |
    |---|---|---|
    | `DirichletProcess`, `PitmanYor` | `cycle(hybrid_mixture, split_merge)` | one cluster |
    | `HierarchicalDirichletProcess` | `hybrid_hdp` | each item in one of 20 clusters at random |
    | `BetaBernoulli`, `GammaPoisson` | `hybrid_features` | `seed_features` |

    Blocks are of about 200 items (50 where jax runs on an accelerator), of groups of a thousand
    items together in the second line. The kernels are exact whatever the start and the blocks are,
    and clusters and features are born and die from there on. Take what you want to be otherwise
    from the kernels' own pages.

    Args:
        key: a random key: the same key gives the same start.
        process: one of these.
        family: as the kernel wants it.
        data: all items; `Groups` for the second line.
        shards: those of the engine that it will run on; the blocks are a multiple.

    Returns:
        a `DefaultSampler`: `kernel`, `position` and `choices`, a line to print.

    Raises:
        TypeError: if there is no sampler of the process and family, or the data are not theirs.
        ValueError: if the data are unfit for the family, or `shards` is no positive number.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax.bnp import DirichletProcess, NormalKnownCovariance, default_sampler
        >>> X = jnp.linspace(-5.0, 5.0, 600)[:, None]
        >>> parts = DirichletProcess(1.0), NormalKnownCovariance(0.0, 0.1, 25.0)
        >>> kernel, position, choices = default_sampler(jax.random.key(0), *parts, X)
        >>> choices
        '3 blocks, 16 slots, one cluster to begin with, which is soon divided'
    """
    _checks.random_key(key)
    _checks.whole("shards", shards)
    data = without_frames("data", data)
    if isinstance(process, PitmanYor) and isinstance(family, Family):
        return _mixture(process, family, data, shards)
    if isinstance(process, HierarchicalDirichletProcess) and isinstance(family, Family):
        return _topics(key, process, family, data, shards)
    if isinstance(process, FeatureProcess) and isinstance(family, FeatureFamily):
        return _features(key, process, family, data, shards)
    raise TypeError(
        "process and family must be those of a mixture, of groups or of features, got "
        f"{type(process).__name__} and {type(family).__name__}"
    )


def _mixture(process: PitmanYor, family: Family, data: PyTree, shards: int) -> DefaultSampler:
    family.check(data)
    num = leading_axis(data)
    parts, blocks = (process, family), _num_blocks(num, _in_a_block(), shards)
    # the sweeps draw hyper-parameters and move items one by one; split_merge does neither
    kernel = cycle(
        hybrid_mixture(*parts, blocks=blocks, capacity=_SLOTS), split_merge(*parts, capacity=_SLOTS)
    )
    labels = jnp.zeros(num, jnp.int32)
    told = f"{_counted(blocks)}, {_SLOTS} slots, one cluster to begin with, which is soon divided"
    return DefaultSampler(kernel, Dist({}, {"assignment": labels}), told)


def _topics(
    key: Any, process: HierarchicalDirichletProcess, family: Family, data: PyTree, shards: int
) -> DefaultSampler:
    check_group_start(family, 2 * _TOPICS, None, data)
    shape = jax.tree.leaves(data.items)[0].shape[:2]
    words = int(np.sum(np.asarray(data.size)))
    # a block is of whole groups: no more of them than there are groups, up to whole shards
    blocks = min(_num_blocks(words, _WORDS_IN_A_BLOCK, shards), -(-shape[0] // shards) * shards)
    kernel = hybrid_hdp(process, family, blocks=blocks, capacity=2 * _TOPICS)
    told = f"{_counted(blocks)}, {2 * _TOPICS} slots, {_TOPICS} clusters to begin with, at random"
    return DefaultSampler(kernel, random_labels(key, shape, _TOPICS), told)


def _features(
    key: Any, process: FeatureProcess, family: FeatureFamily, data: PyTree, shards: int
) -> DefaultSampler:
    family.check(data)
    blocks = _num_blocks(leading_axis(data), _in_a_block(), shards)
    kernel = hybrid_features(process, family, blocks=blocks, capacity=_SLOTS)
    start = seed_features(key, process, family, data, capacity=_SLOTS)
    # a slot that no item has is free
    found = int(np.any(np.asarray(start.local["features"]) != 0, axis=0).sum())
    few = min(100, leading_axis(data))  # those that `seed_features` looks at
    told = f"{_counted(blocks)}, {_SLOTS} slots, {found} features to begin with, of {few} items"
    return DefaultSampler(kernel, start, told)


def _in_a_block() -> int:
    return _IN_A_BLOCK if jax.default_backend() == "cpu" else _IN_A_BLOCK_OF_A_GPU


def _num_blocks(num_items: int, in_a_block: int, shards: int) -> int:
    """A multiple of the shards, with about `in_a_block` items each."""
    return shards * max(1, math.ceil(num_items / (in_a_block * shards)))


def _counted(blocks: int) -> str:
    return "1 block" if blocks == 1 else f"{blocks} blocks"
