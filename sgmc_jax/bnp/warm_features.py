"""A warm start for features: births in all blocks at once, then in fewer and fewer."""

from __future__ import annotations

from typing import Any

from ..families import FeatureFamily
from ..processes import FeatureProcess
from .hybrid.features import hybrid_features
from .hybrid.kernel import Hybrid
from .hybrid.schedules import Warm


def warm_features(
    process: FeatureProcess,
    family: FeatureFamily,
    *,
    blocks: int,
    cooling: Any = 3.0,
    local_sweeps: int = 1,
    capacity: int = 16,
) -> Hybrid:
    """A start for `hybrid_features` from many blocks, for burn-in only: it is exact for no law.

    It is `hybrid_features` with the schedule `Warm(cooling)`: `Published()`, but with births in all
    P blocks at first, and in half as many after every `cooling` steps, down to one; which ones is
    drawn in every step. A block puts its new features into slots k = p mod P, where no other block
    does. Births are thus P-fold, and one feature may be born many times over: never keep a draw.
    Take its last features as the position of an exact sampler:

        warm = sample(key, warm_features(process, family, blocks=64), None, X, num_steps=20)
        features = warm.state.position.local["features"]
        start = features[:, features.any(0)]
        exact = hybrid_features(process, family, blocks=64, capacity=2 * start.shape[1])
        run = sample(other_key, exact, start, X, num_steps=100)

    `seed_features`, chains on a few of the items, is mostly a better start. With
    `cooling=1e9` births are in all blocks for ever: the sampler that the paper calls always hot,
    which has more features the more blocks there are.

    Targets:
        nothing: the law changes with the step, and is that of no posterior.

    Args:
        process: `BetaBernoulli(mass, concentration)` or `GammaPoisson`.
        family: `LinearGaussian(dim)` or another of `hybrid_features`.
        blocks: P, the number of blocks; a multiple of the engine's shards.
        cooling: the number of steps in which the number of eligible blocks halves.
        local_sweeps: the sweeps over each eligible block in a step.
        capacity: the number of slots to begin with; each block needs some, so it will grow.

    State, Info:
        those of `hybrid_features`.

    Raises:
        ValueError, TypeError: if a number is out of its range or the data unfit for the family.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import sample
        >>> from sgmc_jax.bnp import BetaBernoulli, LinearGaussian, warm_features
        >>> X = jnp.tile(jnp.array([[3.0, 0.0], [0.0, 3.0], [3.0, 3.0]]), (4, 1))
        >>> kernel = warm_features(BetaBernoulli(1.0), LinearGaussian(2, 0.3, 3.0), blocks=2)
        >>> run = sample(jax.random.key(0), kernel, None, X, num_steps=10)
        >>> int(run.info.active[-1]) > 1
        True

    Reference:
        Dubey, Zhang, Xing and Williamson (2020), section 4.1: for an eighth of the steps all
        processors create features, then one.
    """
    return hybrid_features(
        process,
        family,
        schedule=Warm(cooling),
        blocks=blocks,
        local_sweeps=local_sweeps,
        capacity=capacity,
    )
