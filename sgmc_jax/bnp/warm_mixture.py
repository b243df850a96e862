"""A warm start for mixtures: births in all blocks at once, then in fewer and fewer."""

from __future__ import annotations

from typing import Any

from ..families import Family
from ..processes import PitmanYor
from .hybrid.kernel import Hybrid
from .hybrid.mixture import hybrid_mixture
from .hybrid.schedules import Warm


def warm_mixture(
    process: PitmanYor,
    family: Family,
    *,
    blocks: int,
    cooling: Any = 3.0,
    local_sweeps: int = 1,
    capacity: int = 16,
) -> Hybrid:
    """A start for `hybrid_mixture` from many blocks, for burn-in only: it is exact for no law.

    It is `hybrid_mixture` with the schedule `Warm(cooling)`: `Published()`, but with births in all
    P blocks at first, and in half as many after every `cooling` steps, down to one; which ones is
    drawn in every step. A block puts its new clusters into slots k = p mod P, where no other block
    does. Births are thus P-fold, and one cluster may be born many times over: never keep a draw.
    Take its last labels as the position of an exact sampler:

        warm = sample(key, warm_mixture(process, family, blocks=64), None, X, num_steps=20)
        start = np.unique(warm.state.position.local["assignment"], return_inverse=True)[1]
        exact = hybrid_mixture(process, family, blocks=64, capacity=warm.capacity)
        run = sample(other_key, exact, start, X, num_steps=100)

    `kmeans_plus_plus` is a cheaper start where Euclidean distances mean something, and
    `split_merge` needs none.

    Targets:
        nothing: the law changes with the step, and is that of no posterior.

    Args:
        process: `DirichletProcess(concentration)` or `PitmanYor(concentration, discount)`.
        family: the conjugate family of a cluster's items.
        blocks: P, the number of blocks; a multiple of the engine's shards.
        cooling: the number of steps in which the number of eligible blocks halves.
        local_sweeps: the sweeps over each eligible block in a step.
        capacity: the number of slots to begin with; each block needs some, so it will grow.

    State, Info:
        those of `hybrid_mixture`.

    Raises:
        ValueError: if a number is out of its range.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import sample
        >>> from sgmc_jax.bnp import DirichletProcess, NormalKnownCovariance, warm_mixture
        >>> X = jnp.concatenate([jnp.full((10, 1), -5.0), jnp.full((10, 1), 5.0)])
        >>> family = NormalKnownCovariance(0.0, 1.0, 25.0)
        >>> kernel = warm_mixture(DirichletProcess(1.0), family, blocks=4)
        >>> run = sample(jax.random.key(0), kernel, None, X, num_steps=10)
        >>> len(set(run.state.position.local["assignment"].tolist())) > 1
        True

    Reference:
        Dubey, Zhang, Xing and Williamson (2020), section 4.1, who let all processors create
        features in the beginning.
    """
    return hybrid_mixture(
        process,
        family,
        schedule=Warm(cooling),
        blocks=blocks,
        local_sweeps=local_sweeps,
        capacity=capacity,
    )
