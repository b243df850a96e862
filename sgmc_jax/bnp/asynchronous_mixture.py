"""Collapsed sampling in all blocks at once from statistics out of date, for comparison."""

from __future__ import annotations

from ..families import Family
from ..processes import PitmanYor
from .hybrid.kernel import Hybrid
from .hybrid.mixture import hybrid_mixture
from .hybrid.schedules import Asynchronous


def asynchronous_mixture(
    process: PitmanYor,
    family: Family,
    *,
    blocks: int,
    local_sweeps: int = 1,
    capacity: int = 16,
) -> Hybrid:
    """Collapsed Gibbs sampling in P blocks at once, approximately.

    It is `hybrid_mixture` with the schedule `Asynchronous()`, in which nothing is instantiated.
    Every block sweeps its own items by the rule of `collapsed_mixture`,

        P(z = k) ~ (m_k - d) f(x | members of k),   a new cluster ~ (a + K d) f(x),

    from what it knows: the sizes and statistics of the clusters at the last synchronisation, and
    its own changes since. What others do meanwhile it does not see. New clusters of block p are
    born in slots k = p mod P that were free at the synchronisation, so that no two meet in one.

    It is *not* exact for P > 1, however long it runs: the blocks' labels are drawn at once although
    they depend on each other, and the items of one cluster may be born as a cluster in many blocks.
    At concentration 1.2, 100 points and no data the expected number of clusters is 7.9, 8.9 and 9.4
    with 2, 4 and 10 blocks, instead of 5.88; with four points of data that overlap, in two blocks,
    the law of the partition is off by 0.28 in total variation. `hybrid_mixture` is exact.

    Targets:
        the posterior of the partition for one block, where it is `collapsed_mixture`; otherwise no
        law in closed form.

    Args:
        process: `DirichletProcess(concentration)` or `PitmanYor(concentration, discount)`.
        family: the conjugate family of a cluster's items.
        blocks: P, the number of blocks; a multiple of the engine's shards. A shard with several
            sweeps one after the other.
        local_sweeps: the sweeps over each block between two synchronisations.
        capacity: the number of slots to begin with; each block needs some, so it will grow.

    State, Info:
        those of `hybrid_mixture`.

    Raises:
        ValueError: if a number is out of its range or the data unfit for the family.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import sample
        >>> from sgmc_jax.bnp import DirichletProcess, NormalKnownCovariance, asynchronous_mixture
        >>> X = jnp.concatenate([jnp.full((10, 1), -5.0), jnp.full((10, 1), 5.0)])
        >>> family = NormalKnownCovariance(0.0, 1.0, 25.0)
        >>> kernel = asynchronous_mixture(DirichletProcess(1.0), family, blocks=4)
        >>> run = sample(jax.random.key(0), kernel, None, X, num_steps=50)
        >>> run.trace.local["assignment"].shape
        (50, 20)

    Reference:
        Smyth, Welling and Asuncion (2008), Asynchronous distributed learning of topic models, in
        the form that Dubey, Zhang, Xing and Williamson (2020) compare with. There processors meet
        in pairs, at times of their own; here all of them meet after every step, as in Newman,
        Asuncion, Smyth and Welling (2007), Distributed inference for latent Dirichlet allocation.
    """
    return hybrid_mixture(
        process,
        family,
        schedule=Asynchronous(),
        blocks=blocks,
        local_sweeps=local_sweeps,
        capacity=capacity,
    )
