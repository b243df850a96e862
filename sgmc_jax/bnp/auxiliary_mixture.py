"""Serial sampling of mixtures with explicit parameters: auxiliary components stand for new ones."""

from __future__ import annotations

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from .. import _checks
from .._types import Data, Key, as_keys
from ..arrays import over_rows
from ..contract import SlotInfo
from ..families import Family
from ..processes import PitmanYor
from .hybrid.blocks import Blocks
from .hybrid.kernel import BlockKernel, HybridState
from .hybrid.mixture import Mixture
from .hybrid.points import pick

Carry = tuple[Int[Array, " n"], Int[Array, " K"], PyTree, Bool[Array, ""]]


class AuxiliaryMixture(BlockKernel):
    """See `auxiliary_mixture`."""

    model: Mixture
    auxiliary: int = eqx.field(static=True, kw_only=True)

    def step(self, key: Key, state: HybridState, data: Data) -> tuple[HybridState, SlotInfo]:
        """Parameters of all clusters, then one point after the other."""
        model = self.model.about(state.centre)
        hyper_key, atom_key, fresh_key, label_key = jax.random.split(as_keys(key).noise, 4)
        blocks, sums = Blocks.of(data, 1, self.comm), state.sums
        hyper = model.process.redraw(hyper_key, state.position.shared, sums.counts)
        # given all labels; from here on held, but for the dead's and the newborn's
        params = model.family.draw(atom_key, sums.statistics)
        uniforms = blocks.uniforms(label_key, 1, hyper["concentration"].dtype)[0]

        start = (state.position.local["assignment"], sums.counts, params, jnp.zeros((), bool))
        visit = partial(self._visit, fresh_key, model.family, hyper, blocks)
        turns = (jnp.arange(len(uniforms)), uniforms)
        (labels, _, _, overflow), _ = jax.lax.scan(visit, start, turns)
        # parameters are dropped: the next step draws them given these labels
        state = model.state(hyper, labels, blocks, overflow, self.capacity)
        state = self._told(state, params, labels)
        return state, state.slots

    def _visit(
        self,
        key: Any,
        family: Family,
        hyper: dict[str, Array],
        blocks: Blocks,
        carry: Carry,
        turn: tuple[Int[Array, ""], Float[Array, ""]],
    ) -> tuple[Carry, None]:
        (labels, counts, params, overflow), (i, uniform) = carry, turn
        a, d, num = hyper["concentration"], hyper["discount"], self.auxiliary
        item = jax.tree.map(lambda x: jnp.asarray(x)[i], blocks.shard.items)
        old, real = labels[i], blocks.real[i]
        # from here on without the point: K does not count a cluster that it had to itself
        counts = counts.at[old].add(-real.astype(counts.dtype))

        # the parameters of a cluster that the point leaves empty are the first auxiliary ones
        drawn = family.draw(jax.random.fold_in(key, i), family.zero_statistics(num, item))
        keep = (counts[old] == 0) & (jnp.arange(num) == 0)
        ours = lambda new, own: jnp.where(over_rows(keep, new), own[old], new)
        fresh = jax.tree.map(ours, drawn, params)

        one = jax.tree.map(lambda x: x[None], item)
        scores = lambda params: family.scores(params, one)[:, 0]
        # (a + K d) in m equal parts: no matter which of m the point's own component would have been
        others = jnp.sum(counts > 0)  # without any, all is new
        share = jnp.where(others > 0, jnp.log(a + others * d), 0)
        born = share - jnp.log(num) + scores(fresh)
        existing = jnp.log(jnp.where(counts > 0, counts - d, 1)) + scores(params)
        existing = jnp.where(counts > 0, existing, -jnp.inf)
        choice = pick(jnp.concatenate([born, existing]), uniform)

        # also the slot of a cluster that the point had to itself, which may not be the lowest
        birth, free = choice < num, counts == 0
        slot = jnp.where(birth, jnp.argmax(free), choice - num)
        slot = jnp.where(choice < 0, -1, slot)  # there is no law
        slot = jnp.where(real, slot, old).astype(labels.dtype)
        chosen = jnp.minimum(choice, num - 1)
        # over what a dead cluster has left in the slot
        put = lambda all_, new: all_.at[slot].set(jnp.where(birth & real, new[chosen], all_[slot]))
        return (
            labels.at[i].set(slot),
            counts.at[slot].add(real.astype(counts.dtype)),
            jax.tree.map(put, params, fresh),
            overflow | (real & birth & ~jnp.any(free)),
        ), None


def auxiliary_mixture(
    process: PitmanYor, family: Family, *, auxiliary: int = 3, capacity: int = 16
) -> AuxiliaryMixture:
    """Gibbs sampling of a mixture point by point, with m auxiliary components for new clusters.

    A step draws the parameters of all clusters, theta_k ~ p(theta | members of k), and then visits
    every point. With counts without the point itself, K clusters, the concentration a and the
    discount d,

        P(z = k) ~ (m_k - d) f(x | theta_k)                    a cluster
                   (a + K d) / m f(x | theta*_j)               a new one, j = 1, ..., m

    where the theta*_j are drawn anew from the prior for every point; but if the point was alone in
    its cluster, theta*_1 is that cluster's parameter. It needs no predictive law, only parameters
    drawn from their posterior and the likelihood. As clusters are born with parameters drawn
    blindly, it mixes slowly in many dimensions unless m is large; the time of a visit grows with m.

    Targets:
        the posterior of the partition (and of the hyper-parameters that have a prior), exactly for
        every m.

    Args:
        process: `DirichletProcess(concentration)` or `PitmanYor(concentration, discount)`.
        family: the family of a cluster's items; of its methods `draw` and `scores` are used.
        auxiliary: m, the number of auxiliary components.
        capacity: the number of slots to begin with; the runner doubles it when it is used up, and
            the chain does not depend on it, its start given.

    State, Info:
        those of `hybrid_mixture`, all items in one block; it is serial, for one shard.

    Raises:
        ValueError: if a number is out of its range or the data unfit for the family.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import sample
        >>> from sgmc_jax.bnp import DirichletProcess, NormalKnownCovariance, auxiliary_mixture
        >>> X = jnp.concatenate([jnp.full((10, 1), -5.0), jnp.full((10, 1), 5.0)])
        >>> family = NormalKnownCovariance(0.0, 1.0, 25.0)
        >>> kernel = auxiliary_mixture(DirichletProcess(1.0), family, auxiliary=5)
        >>> run = sample(jax.random.key(0), kernel, None, X, num_steps=50)
        >>> run.trace.local["assignment"].shape
        (50, 20)

    Reference:
        Neal (2000), Markov chain sampling methods for Dirichlet process mixture models, algorithm
        8, with the parameters drawn before the visits instead of after them; the discount is not
        in it.
    """
    _checks.whole("auxiliary", auxiliary)
    model = Mixture(process, family)
    return AuxiliaryMixture(model, blocks=1, capacity=capacity, auxiliary=auxiliary)
