"""A warm start for mixtures: births in all blocks at once, then in fewer and fewer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from .. import _checks
from .._checks import real
from .._types import Data, Key, as_keys
from ..contract import SlotInfo
from ..families import Family
from ..processes import PitmanYor
from ._blocks import Anchors, Blocks, check_hybrid, check_parts
from ._collapsed import Atoms
from .hybrid_mixture import HybridMixture, MixtureState


class WarmMixture(HybridMixture):
    """See `warm_mixture`."""

    cooling: Array = eqx.field(converter=real("cooling"), kw_only=True)
    eligible: Any = None

    def step(self, key: Key, state: MixtureState, data: Data) -> tuple[MixtureState, SlotInfo]:
        keys = as_keys(key)
        count = jnp.asarray(0 if keys.count is None else keys.count)
        # the power underflows in the end, but one block is always left
        eligible = jnp.maximum(1, jnp.ceil(self.blocks * 0.5 ** (count / self.cooling)))
        return super(WarmMixture, replace(self, eligible=eligible)).step(keys, state, data)

    def _on_star(
        self,
        key: Any,
        blocks: Blocks,
        anchors: Anchors,
        hyper: dict[str, Array],
        atoms: Atoms,
        loglik: Array,
        labels: Array,
    ) -> tuple[Array, Array]:
        """Collapsed sweeps over every eligible block, with births in slots of its own."""
        slot, sweep = jnp.arange(self.capacity), super()._on_star

        def block(p: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            # an atom of weight zero is never chosen, and no free slot
            closed = ~atoms.instantiated & (slot % self.blocks != p)
            own = atoms._replace(
                instantiated=atoms.instantiated | closed,
                log_weight=jnp.where(closed, -jnp.inf, atoms.log_weight),
            )
            star = anchors._replace(star=jnp.asarray(p, anchors.star.dtype))
            swept, lost = sweep(key, blocks, star, hyper, own, loglik, carry[0])
            return swept, carry[1] | lost

        def turn(p: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            hot = anchors.block_rank[p] < self.eligible
            return jax.lax.cond(hot, block, lambda p, carry: carry, p, carry)

        return jax.lax.fori_loop(0, self.blocks, turn, (labels, jnp.zeros((), bool)))


def warm_mixture(
    process: PitmanYor,
    family: Family,
    *,
    blocks: int,
    cooling: Any = 3.0,
    local_sweeps: int = 1,
    capacity: int = 16,
) -> WarmMixture:
    """A start for `hybrid_mixture` from many blocks, for burn-in only: it is exact for no law.

    The published schedule, but with births in all P blocks at first, and in half as many after
    every `cooling` steps, down to one; which ones is drawn in every step. A block puts its new
    clusters into slots k = p mod P, where no other block does. Births are thus P-fold, and one
    cluster may be born many times over: never keep a draw. Take its last labels as the position
    of an exact sampler:

        warm = sample(key, warm_mixture(process, family, blocks=64), None, X, num_steps=20)
        start = np.unique(warm.state.position.local["assignment"], return_inverse=True)[1]
        run = sample(other_key, hybrid_mixture(process, family, blocks=64), start, X, num_steps=100)

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
        Dubey, Zhang, Xing and Williamson (2020), section 5, who let all processors create
        features in the beginning.
    """
    check_parts(process, family)
    check_hybrid("published", blocks, local_sweeps, capacity)
    _checks.positive("cooling", cooling)
    return WarmMixture(
        process, family, "published", blocks, local_sweeps, capacity, cooling=cooling
    )
