"""New items under draws of a mixture: their density, and the clusters that they belong to."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, Int, PyTree

from .. import _checks
from .._compiler import quick_jit
from .._frames import without_frames
from ..arrays import product
from ..collective import Collective, Dist, leading_axis
from ..families import Family
from ..processes import PitmanYor
from ._centre import about_data
from ._draws import label_draws, one_partition
from ._starts import check_parts, local_part

_NUMBERS = 2**24  # of new items, by cluster, that are looked at together


class Predictive(NamedTuple):
    """The log predictive density of each new item, and its membership of a partition's clusters.

    Example:
        >>> import jax.numpy as jnp
        >>> from sgmc_jax.bnp import Predictive
        >>> membership = jnp.array([[0.9, 0.1], [0.2, 0.8]])  # the last one is of a new cluster
        >>> Predictive(jnp.array([-1.5, -3.0]), membership).membership.argmax(axis=1).tolist()
        [0, 1]
    """

    log_density: Float[Array, " m"]
    membership: Float[Array, "m C+1"] | None


def predictive(
    process: PitmanYor,
    family: Family,
    positions: Dist,
    data: PyTree,
    items: PyTree,
    *,
    partition: Any = None,
) -> Predictive:
    """The law of new items under a Dirichlet or Pitman-Yor process mixture, parameters integrated.

    Given a draw, with clusters of sizes m_k of N items, a new item x joins cluster k or founds one,

        r_k(x) prop. to (m_k - d) / (N + a) f(x | members of k)
        r_new(x) prop. to (a + K d) / (N + a) f(x)

    f being the family's predictive density, and the sum of the right-hand sides is p(x | draw). The
    `log_density` is the log of its mean over draws.

    Clusters have no names that all draws share. Membership is therefore told of a `partition` of
    the items, such as `point_estimate` returns: that of its cluster C is

        E sum_k r_k(x) |k and C| / m_k,

    the probability that an item drawn from the cluster that x joins is in C; E r_new(x), that x is
    alone, comes last. With one draw and its own labels it is r.

    Args:
        process: the sampler's `DirichletProcess` or `PitmanYor`.
        family: the sampler's family.
        positions: draws of positions, with leading axes (draw,) or (chain, draw), such as
            `run.trace` of `hybrid_mixture`, `collapsed_mixture` or `slice_mixture`.
        data: the N items that the sampler has seen.
        items: the m new ones.
        partition: labels of the N items, (N,), the columns being in the order of its labels.

    Returns:
        `log_density`, (m,); `membership`, (m, C + 1), of rows that sum to one, or `None` without a
        partition.

    Raises:
        ValueError, TypeError: if the items are unfit for the family, or a shape does not fit.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import sample
        >>> from sgmc_jax.bnp import DirichletProcess, NormalKnownCovariance, collapsed_mixture
        >>> from sgmc_jax.bnp import point_estimate, predictive
        >>> X = jnp.concatenate([jnp.full((10, 1), -5.0), jnp.full((10, 1), 5.0)])
        >>> process, family = DirichletProcess(1.0), NormalKnownCovariance(0.0, 1.0, 25.0)
        >>> kernel = collapsed_mixture(process, family)
        >>> run = sample(jax.random.key(0), kernel, None, X, num_steps=50, burn_in=25)
        >>> labels, _ = point_estimate(run.trace.local["assignment"])
        >>> new = jnp.array([[-5.0], [4.0]])
        >>> law = predictive(process, family, run.trace, X, new, partition=labels)
        >>> law.membership.round(1).tolist()
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]

    Reference:
        Neal (2000), Markov chain sampling methods for Dirichlet process mixture models, equation
        3.7 for the next item of a draw.
    """
    check_parts(process, family)
    if not isinstance(positions, Dist):
        raise TypeError(
            f"positions must be Dist(shared, local), such as run.trace, got {type(positions)}"
        )
    data, items = without_frames("data", data), without_frames("items", items)
    missing = [name for name in process.start() if name not in positions.shared]
    if missing:
        raise ValueError(f"positions must have {missing} in their shared part, such as run.trace")
    labels = np.asarray(local_part(positions, "assignment"))
    if leading_axis(data) != labels.shape[-1]:
        raise ValueError(
            f"positions must have a label for each of {leading_axis(data)} items of data, got "
            f"shape {labels.shape}"
        )
    for name, some in (("data", data), ("items", items)):
        _checks.arrays(name, some)
        family.check(some)
    draws = label_draws(positions)
    capacity = _padded(int(draws.max()) + 2)  # the last is for an item by itself
    hyper = {name: jnp.reshape(positions.shared[name], len(draws)) for name in process.start()}
    told = None if partition is None else one_partition("partition", partition, draws.shape[1])
    clusters = 0 if told is None else int(told.max()) + 1
    log_density, membership = _predicted(
        family, hyper, jnp.asarray(draws), data, items, told, clusters, capacity
    )
    return Predictive(log_density, membership)


@quick_jit
def _predicted(
    family: Family,
    hyper: dict[str, Float[Array, " draws"]],
    draws: Int[Array, "draws n"],
    data: PyTree,
    items: PyTree,
    partition: Int[Array, " n"] | None,
    clusters: int,
    capacity: int,
) -> tuple[Float[Array, " m"], Float[Array, "m {clusters+1}"] | None]:
    family = about_data(family, data, Collective())
    num = leading_axis(items, "items")

    def log_predictive(laws: PyTree) -> Float[Array, "m K"]:
        of = lambda item: family.log_predictive_of(laws, item)
        numbers = capacity * sum(x.size for x in jax.tree.leaves(items))
        if numbers <= _NUMBERS:
            return jax.vmap(of)(items)
        return jax.lax.map(of, items, batch_size=max(1, _NUMBERS * num // numbers))

    def one(total: tuple[Array, Array | None], draw: tuple[dict[str, Array], Array]) -> Any:
        hyper, labels = draw
        # free slots have the prior predictive f(x): the last stands for a new cluster
        counts = jnp.sum(labels == jnp.arange(capacity)[:, None], axis=1)
        laws = family.predictive(family.label_statistics(data, labels, capacity))
        log_joint = _log_prior(hyper, counts) + log_predictive(laws)
        # p(x | draw), and by it r; over draws p and r have each a mean of their own
        log_density = logsumexp(log_joint, axis=1)
        before, membership = total
        if partition is not None and membership is not None:
            r = jnp.exp(log_joint - log_density[:, None])
            shares = _shares(labels, counts, partition, clusters).astype(r.dtype)
            # a new cluster has no member yet, and so no share in any of the partition's
            membership = membership + jnp.append(product(r, shares), r[:, -1:], axis=1)
        return (jnp.logaddexp(before, log_density), membership), None

    dtype = jnp.result_type(float)
    columns = None if partition is None else jnp.zeros((num, clusters + 1), dtype)
    start = jnp.full(num, -jnp.inf, dtype), columns
    (total, membership), _ = jax.lax.scan(one, start, (hyper, draws))
    share = None if membership is None else membership / len(draws)
    return total - jnp.log(len(draws)), share


def _log_prior(hyper: dict[str, Float[Array, ""]], counts: Int[Array, " K"]) -> Float[Array, " K"]:
    """The log probabilities of the next item's cluster, the last slot being for a new one."""
    a, d = hyper["concentration"], hyper["discount"]
    used = counts > 0
    # of free slots one alone has weight, or a birth would count for each
    births = (jnp.arange(len(counts)) == len(counts) - 1) * (a + jnp.sum(used) * d)
    return jnp.log(jnp.where(used, counts - d, births)) - jnp.log(jnp.sum(counts) + a)


def _shares(
    labels: Int[Array, " n"], counts: Int[Array, " K"], partition: Int[Array, " n"], clusters: int
) -> Float[Array, "K C"]:
    """The shares of a partition's clusters in those of a draw."""
    both = jnp.zeros((len(counts), clusters), jnp.int32).at[labels, partition].add(1)
    return both / jnp.maximum(counts, 1)[:, None]


def _padded(capacity: int) -> int:
    """The next power of two, so that few programs are compiled."""
    return 1 << (capacity - 1).bit_length()
