"""Uncollapsed sampling of a Dirichlet process mixture with a finite tail, for comparison."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .. import _checks
from .._types import Data, Key, as_keys
from ..contract import SlotInfo
from ..families import Family
from ..processes import DirichletProcess
from ..random.gamma import log_gamma
from ..random.words import item_uniforms
from ._starts import check_parts
from .hybrid.blocks import Blocks
from .hybrid.kernel import HybridState, ModelKernel
from .hybrid.mixture import Mixture
from .hybrid.points import pick_columns


class UncollapsedMixture(ModelKernel):
    """See `uncollapsed_mixture`."""

    model: Mixture
    tail: int = eqx.field(static=True, kw_only=True)

    def step(self, key: Key, state: HybridState, data: Data) -> tuple[HybridState, SlotInfo]:
        """A mixture of finitely many atoms, then all labels at once."""
        model = self.model.about(state.centre)
        hyper_key, weight_key, atom_key, label_key = jax.random.split(as_keys(key).noise, 4)
        blocks, counts = self._blocks(data), state.sums.counts
        # by the law of the partition with infinitely many atoms, to which that of the tail is near
        hyper = model.process.redraw(hyper_key, state.position.shared, counts)
        # of the K clusters and of U fresh atoms in free slots, all that a point may join
        log_weights = self._draw_weights(weight_key, hyper["concentration"], counts)
        params = model.family.draw(atom_key, state.sums.statistics)

        scores, there = model.family.scores(params, blocks.shard.items), ~jnp.isneginf(log_weights)
        logits = jnp.where(there[:, None], log_weights[:, None] + scores, -jnp.inf)
        labels = pick_columns(logits, item_uniforms(label_key, blocks.index, logits.dtype))
        # padding has some label, so that no index is out of range
        labels = jnp.where(blocks.real, labels, 0)
        # fewer fresh atoms than U had a slot
        lost = jnp.sum(counts == 0) < self.tail
        state = model.state(hyper, labels, blocks, lost, self.capacity)
        state = self._told(state, params, labels)
        return state, state.slots

    def _draw_weights(
        self, key: Any, a: Float[Array, ""], counts: Int[Array, " K"]
    ) -> Float[Array, " K"]:
        """log w up to a constant: the clusters', then U free slots', the first ones."""
        free = counts == 0
        # the lowest, so that slots which are added change nothing
        fresh = free & (jnp.cumsum(free) <= self.tail)
        # gammas in place of a Dirichlet: their sum cancels where labels are drawn
        log_weights = log_gamma(key, jnp.where(free, a / self.tail, counts))
        return jnp.where(fresh | ~free, log_weights, -jnp.inf)

    def _blocks(self, data: Data) -> Blocks:
        return Blocks.of(data, self.comm.size, self.comm)


def uncollapsed_mixture(
    process: DirichletProcess, family: Family, *, tail: int, capacity: int = 16
) -> UncollapsedMixture:
    """Uncollapsed Gibbs sampling of a Dirichlet process mixture with a tail of U atoms.

    In every step the K clusters in use and U fresh atoms make a finite mixture, from which all
    labels are drawn at once:

        w ~ Dirichlet(m_1, ..., m_K, a / U, ..., a / U)
        theta_k ~ p(theta | members of k), the prior for fresh atoms
        P(z_i = k) ~ w_k f(x_i | theta_k)

    The fresh atoms are a finite approximation of the tail, and the sampler is *not* exact: two
    items that leave for the tail meet there too often. It is exact as U -> infinity. A cluster is
    born only if a parameter drawn blindly happens to fit, so in many dimensions it mixes slowly
    whatever U; it is here to be compared with. `slice_mixture` is exact and as parallel.

    Targets:
        no law in closed form; the posterior of the partition as U -> infinity. At concentration
        1.2, 100 points and no data the expected number of clusters is 5.33, 5.67, 5.83 and 5.86
        with U = 1, 3, 10 and 30, instead of 5.88; with four points of data that overlap the law of
        the partition is off by 0.17, 0.06 and 0.02 in total variation with U = 1, 3 and 10.

    Args:
        process: `DirichletProcess(concentration)`.
        family: the conjugate family of a cluster's items.
        tail: U, the number of fresh atoms.
        capacity: the number of slots to begin with; the runner doubles it until K + U fit, and
            the chain does not depend on it, its start given.

    State, Info:
        those of `hybrid_mixture`, a block for each shard.

    Raises:
        ValueError, TypeError: if a number is out of its range, the data unfit for the family, or
            the process no Dirichlet process.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import sample
        >>> from sgmc_jax.bnp import DirichletProcess, NormalKnownCovariance, uncollapsed_mixture
        >>> X = jnp.concatenate([jnp.full((10, 1), -5.0), jnp.full((10, 1), 5.0)])
        >>> family = NormalKnownCovariance(0.0, 1.0, 25.0)
        >>> kernel = uncollapsed_mixture(DirichletProcess(1.0), family, tail=10)
        >>> run = sample(jax.random.key(0), kernel, None, X, num_steps=50)
        >>> run.trace.local["assignment"].shape
        (50, 20)

    Reference:
        Dubey, Zhang, Xing and Williamson (2020), Distributed, partially collapsed MCMC for Bayesian
        nonparametrics, section 5.1, who print a / J for the fresh atoms' shapes.
    """
    check_parts(process, family, (DirichletProcess, Family))
    _checks.whole("tail", tail)
    return UncollapsedMixture(Mixture(process, family), capacity=capacity, tail=tail)
