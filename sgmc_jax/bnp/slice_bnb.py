"""Slice sampling of beta-negative-binomial clusterings of grouped items, without truncation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .. import _checks, _tree
from .._checks import scalar
from .._types import Data, Kernel, Key, as_keys
from ..collective import Collective, Dist, Shard, as_shard
from ..contract import SlotInfo
from ..families import Family
from ..processes import BetaProcess, MeasureSeries, bondesson
from ..processes.gamma_prior import gamma_prior
from ..random import accept, log_beta, log_gamma
from ..random.words import item_uniforms
from ._centre import centre_of, centred, recentred
from ._columns import Ordered
from ._series_weights import MOVES, SeriesWeights, scale_of_move
from ._starts import Starter, check_group_start, check_parts, check_slots_fit, start_of_groups
from ._weights import series_of
from .bnb import Failures, shapes
from .hybrid.grouped import count_clusters, masked_labels
from .hybrid.kernel import HybridState, HybridSums
from .hybrid.points import pick_columns


class SliceBNB(Kernel):
    """See `slice_bnb`."""

    keeps_weights = True

    process: BetaProcess
    family: Family
    series: MeasureSeries
    failures: Any
    decay: Float[Array, ""] = eqx.field(converter=scalar("decay"))
    capacity: int = eqx.field(static=True)
    comm: Collective = Collective()
    mass_prior: Any = eqx.field(converter=gamma_prior("mass_prior"), default=None)

    def __check_init__(self):
        _checks.positive("decay", self.decay)
        _checks.whole("capacity", self.capacity)

    def init(self, key: Key, position: Any, data: Data) -> HybridState:
        self, shard = centred(self, data), _present_alone(data)
        shape = jax.tree.leaves(shard.items.items)[0].shape[:2]
        labels, given = position, {}
        if isinstance(position, Dist):
            labels, given = position.local["assignment"], position.shared
        labels = jnp.zeros(shape, jnp.int32) if labels is None else jnp.asarray(labels, jnp.int32)
        mass = self.process.mass
        if self.mass_prior is not None:
            mass = jnp.asarray(given.get("mass", mass), mass.dtype)
        shared = {"mass": mass}
        weights = self._weights(shared, shard)
        shared |= weights.extra(as_keys(key).noise, given | shared, self.capacity)
        return self._state(Dist(shared, {"assignment": labels}), shard, jnp.zeros((), bool))

    def starter(self, data: Data) -> Starter | None:
        self.check(None, data)
        return start_of_groups(data, self.capacity)

    def refresh(self, key: Key, state: HybridState, data: Data) -> HybridState:
        own = centred(self, data)
        return own._state(state.position, _present_alone(data), jnp.zeros((), bool))

    def retarget(self, key: Key, state: HybridState, data: Data) -> HybridState:
        shared, local = state.position
        if self.mass_prior is None:  # the process's own, which inside `gibbs` is another each step
            shared = shared | {"mass": self.process.mass.astype(shared["mass"].dtype)}
        shared = self._weights(shared, _present_alone(data)).retargeted(shared)
        return self.refresh(key, state._replace(position=Dist(shared, local)), data)

    def step(self, key: Key, state: HybridState, data: Data) -> tuple[HybridState, SlotInfo]:
        """Weights, order, parameters and rates given the labels; then all labels at once."""
        self, shard = recentred(self, state), _present_alone(data)
        keys = jax.random.split(as_keys(key).noise, 7)
        mass_key, weight_key, empty_key, atom_key, rate_key, level_key, label_key = keys
        labels, shared = state.position.local["assignment"], state.position.shared
        counts = count_clusters(labels, shard.items.size, self.capacity).T
        # rates and empty clusters are integrated out of the draws of the mass and of the weights,
        # so that both are drawn after these, and before any label
        shared = self._redraw_mass(mass_key, shared, counts, state, shard)
        own = self._weights(shared, shard)

        # num is 1: `log_column` and `log_absent` are of whole columns, with the sums over groups
        shared, used = own.draw(weight_key, shared, state.sums.counts, counts, 1)
        atoms = own.arranged(empty_key, shared, used, 1)
        params = self.family.draw(atom_key, state.sums.statistics)
        # integrated out of the weights' Metropolis moves, rates are fresh after them
        log_rates = self._log_rates(rate_key, own.counts, atoms, counts, shard)

        width, present = labels.shape[1], shard.items.present.ravel()
        # x_dk being Poisson given pi, and N_d their sum, items are independent given pi
        group = jnp.repeat(jnp.arange(labels.shape[0]), width, total_repeat_length=labels.size)
        index = (shard.start * width + jnp.arange(labels.size)).astype(jnp.uint32)
        # levels given the labels in the new order of the series, then labels given the levels
        rank, known, last = self._ranks(atoms)
        spare = -self.decay * jnp.log(item_uniforms(level_key, index, atoms.place.dtype))
        level = rank[labels.ravel()] + jnp.floor(spare).astype(jnp.int32)
        # past the last known rank there may be atoms that an item should have been offered
        lost = atoms.lost | jnp.any(present & (level > last))
        logits = self.family.scores(params, shard.items.flat) + log_rates[:, group]
        # P(K_dn | z_dn = k) ~ e^(k / decay), for all k up to K_dn
        logits = logits + (rank / self.decay).astype(logits.dtype)[:, None]
        allowed = (rank[:, None] <= level) & known[:, None]
        uniforms = item_uniforms(label_key, index, logits.dtype)
        drawn = pick_columns(jnp.where(allowed, logits, -jnp.inf), uniforms)
        labels = jnp.where(present, drawn, labels.ravel()).reshape(labels.shape)

        a, c = shared["mass"], self.process.concentration
        # where these are traced, no door has seen them
        broken = _tree.has_nan(params) | ~((a > 0) & (a <= 1) & (c > 1))
        none = jnp.any(present & (drawn < 0)) & ~lost  # without a slot an item has no choice either
        broken |= self.comm.any(none)
        shared = _tree.nan_where(shared | own.kept(atoms), broken)
        state = self._state(Dist(shared, {"assignment": labels}), shard, lost)
        return state, state.slots

    def log_theta(self, shared: dict[str, Any]) -> Float[Array, " K"]:
        """The log weights of all slots at a position."""
        return shared["series"]["log_theta"]

    def _ranks(self, atoms: Ordered) -> tuple[Int[Array, " K"], Bool[Array, " K"], Any]:
        """The rank of every slot, which slots have an atom, and up to what rank all have one."""
        # the inverse of a permutation; indices without an atom are left out of a measure's order
        rank = jnp.argsort(atoms.order) + 1
        return rank, rank <= atoms.number, atoms.number

    def check(self, position: Any, data: Data) -> None:
        check_group_start(self.family, self.capacity, position, data)
        check_slots_fit(position, "series", 0, self.capacity)
        _check_mass(self.mass_prior, position)
        if not isinstance(data, Shard) and _checks.is_concrete(data.size):
            if np.min(data.size) < 1:
                where = f"group {np.argmin(data.size)}"
                raise ValueError(f"data must have an item in every group, got none in {where}")

    def _state(self, position: Dist, shard: Shard, lost: Bool[Array, ""]) -> HybridState:
        labels, groups = position.local["assignment"], shard.items
        counts = jnp.sum(count_clusters(labels, groups.size, self.capacity), axis=0)
        members = masked_labels(labels, groups.size).ravel()
        statistics = self.family.label_statistics(groups.flat, members, self.capacity)
        sums = self.comm.sum(HybridSums(counts[None], statistics, lost.astype(jnp.int32)))
        return HybridState(position, sums, centre_of(self.family))

    def _process(self, shared: dict[str, Any]) -> BetaProcess:
        """Of the mass that a position has."""
        return replace(self.process, mass=shared["mass"])

    def _groups(self, mass: Float[Array, ""], shard: Shard) -> Failures:
        """The counts' likelihood at this mass; r_d is 0 for padding."""
        c = self.process.concentration
        size = shard.items.size.astype(mass.dtype)
        # the default knows the mass, and with it the likelihood of a mass: see `log_all`
        r = size * (c - 1) / (mass * c) if self.failures is None else self.failures
        r = jnp.where(shard.mask, r, 0)
        return Failures.of(replace(self.process, mass=mass), r, self.comm)

    def _weights(self, shared: dict[str, Any], shard: Shard) -> SeriesWeights:
        series = self.series.of(self._process(shared))
        return SeriesWeights(series, self._groups(shared["mass"], shard))

    def _redraw_mass(
        self,
        key: Any,
        shared: dict[str, Any],
        counts: Int[Array, "K G"],
        state: HybridState,
        shard: Shard,
    ) -> dict[str, Any]:
        """The mass given V and g / a of clusters in use, by Metropolis, empty ones integrated out.

        These have the density a^K e^(-a E) prod_k prod_d BNB(x_dk; r_d, A_k, B_k), in which s, r
        and the exposure E know the mass too; theta is kept.
        """
        if self.mass_prior is None:
            return shared
        (shape, rate), old = self.mass_prior, shared["mass"]
        log_theta, used = self.log_theta(shared), state.sums.counts > 0

        def target(mass: Float[Array, ""]) -> Float[Array, ""]:
            groups = self._groups(mass, shard)
            columns = jnp.sum(jnp.where(used, groups.log_all(counts, log_theta), 0))
            # a^(s-1) e^(-r a) of the prior, a^K of the points in use, and a of a walk in log a
            prior = (shape + jnp.sum(used)) * jnp.log(mass) - rate * mass
            # above 1 a weight s = a theta might exceed 1 too
            return jnp.where(mass <= 1, prior - mass * groups.exposure() + columns, -jnp.inf)

        def move(i: Array, loop: tuple[Array, Array]) -> tuple[Array, Array]:
            mass, log = loop
            scale_key, step_key, test_key = jax.random.split(jax.random.fold_in(key, i), 3)
            scale = scale_of_move(jax.random.uniform(scale_key, (), mass.dtype))
            proposal = mass * jnp.exp(scale * jax.random.normal(step_key, (), mass.dtype))
            new = target(proposal)
            taken = accept(test_key, new - log)
            return jnp.where(taken, proposal, mass), jnp.where(taken, new, log)

        mass, _ = jax.lax.fori_loop(0, MOVES, move, (old, target(old)))
        # theta knows g / a alone: so it stays, and s = a theta moves with the mass
        series = shared["series"] | {"g": shared["series"]["g"] * (mass / old)}
        return shared | {"mass": mass, "series": series}

    def _log_rates(
        self,
        key: Any,
        groups: Failures,
        atoms: Ordered,
        counts: Int[Array, "K G"],
        shard: Shard,
    ) -> Float[Array, "K G"]:
        """log pi of every slot and group.

        theta_dk ~ Beta(A_k + x_dk, B_k + r_d), then pi_dk ~ Gamma(r_d + x_dk, rate 1 / theta_dk).
        """
        first, second = shapes(groups.process, atoms.log_weight)

        def of_group(index: Array, x: Int[Array, " K"], r: Array) -> Float[Array, " K"]:
            theta_key, rate_key = jax.random.split(jax.random.fold_in(key, index))
            # rate (1 - theta) / theta of the prior and 1 of the Poisson: 1 / theta together
            log_theta, _ = log_beta(theta_key, first + x, second + r)
            return log_theta + log_gamma(rate_key, r + x)

        index = shard.start + jnp.arange(shard.capacity)
        failures = jnp.where(shard.mask, groups.failures, 1)  # 0, of padding, is no shape
        return jax.vmap(of_group, in_axes=(0, 1, 0), out_axes=1)(index, counts, failures)


def _check_mass(prior: Any, position: Any) -> None:
    """Raise if a mass that has a prior begins where that has no density."""
    mass = position.shared.get("mass") if isinstance(position, Dist) else None
    if prior is not None and mass is not None:
        _checks.positive("position.shared['mass']", mass)
        if _checks.certainly(lambda a: a > 1, mass):
            raise ValueError(f"position.shared['mass'] must be at most 1, got {mass}")


def _present_alone(data: Data) -> Shard:
    """The shard, with zeros past the groups' sizes; groups of padding have no items."""
    shard = as_shard(data)
    groups = shard.items._replace(size=jnp.where(shard.mask, shard.items.size, 0))
    return shard._replace(items=groups.present_alone())


def slice_bnb(
    process: BetaProcess,
    family: Family,
    *,
    representation: Any = None,
    failures: Any = None,
    mass_prior: Any = None,
    decay: Any = 5.0,
    capacity: int = 16,
) -> SliceBNB:
    """Slice sampling of a beta-negative-binomial clustering of grouped items, without truncation.

    Groups of items (documents of words) share infinitely many clusters (topics). With s_k = a w_k,
    where w_k = V_k e^(-g_k / (a c)), V_k ~ Beta(1, c - 1), are the weights of a beta process of
    mass a and concentration c (a twice, as in the paper: the s_k add up to a^2 in the mean),

        theta_dk ~ Beta(c s_k, c (1 - s_k)),   pi_dk ~ Gamma(r_d, rate (1 - theta_dk) / theta_dk)
        x_dk ~ Poisson(pi_dk)                  items of group d in cluster k
        phi_k ~ H,   y ~ f(. | phi_k)          each of these items

    The numbers of items in each group are those observed. A step draws, in this order,

        a, if it has a prior, by Metropolis, g_k / a kept and the empty clusters integrated out
        s_k of clusters in use, by Metropolis, theta and pi integrated out, and the empty clusters
        phi | items;   theta_dk ~ Beta(c s_k + x_dk, c (1 - s_k) + r_d)
        pi_dk ~ Gamma(r_d + x_dk, rate 1 / theta_dk)
        K_dn = z_dn + J,   P(J = j) = (1 - q) q^j,   q = e^(-1 / decay)      for each item
        P(z_dn = k) ~ pi_dk f(y_dn | phi_k) e^(k / decay)                    for k <= K_dn

    with clusters in the order of the series, all items at once.

    Targets:
        the posterior of the clusters, exactly.

    Args:
        process: `BetaProcess(a, c)` with a <= 1 and c > 1.
        family: the conjugate family of a cluster's items, such as `DirichletCategorical`.
        representation: a series of the process, or what makes one of it; by default `bondesson`.
        failures: r > 0 of every group; by default, as in the paper, (c - 1) / (a c) times the
            group's size. Were all weights small, its expected size would be a times that observed.
        mass_prior: `None` for the mass of the process, or the shape and rate of its gamma prior,
            restricted to a <= 1; that of the process is then its first value.
        decay: how far slices reach, in clusters.
        capacity: the number of slots to begin with; the runner doubles it when it is used up, and
            the chain does not depend on it, its start given.

    State:
        `position = Dist(shared, local)`: `local["assignment"]`, as of `hybrid_hdp`, (G, L) int32;
        `shared["mass"]`; in `shared["series"]` the `v`, `g` and `log_theta` of every slot. The
        initial position is `None` (one cluster; in `sample`, of 200 items or more, each in one of
        several at random), labels, or such a `Dist`.

    Info:
        `active`, the number of clusters; `overflow`.

    Raises:
        ValueError, TypeError: if a number is out of its range, the data no groups, or a group
            empty.

    Example:
        >>> import jax, numpy as np
        >>> from sgmc_jax import sample
        >>> from sgmc_jax.bnp import BetaProcess, DirichletCategorical, Groups, slice_bnb
        >>> words = Groups(np.array([[0, 0, 1, 1], [2, 3, 3, 0]]), np.array([4, 3]))
        >>> process, family = BetaProcess(1.0, 2.0), DirichletCategorical(0.5, size=4)
        >>> kernel = slice_bnb(process, family, capacity=64)
        >>> run = sample(jax.random.key(0), kernel, None, words, num_steps=20)
        >>> run.trace.local["assignment"].shape
        (20, 2, 4)

    Reference:
        Nand, Bouchard-Cote and Campbell (2020), Slice sampling for general completely random
        measures, section 4.2, which lacks the draws of theta and pi. Broderick, Mackey, Paisley and
        Jordan (2015), Combinatorial clustering and the beta negative binomial process.
    """
    check_parts(process, family, (BetaProcess, Family))
    if _checks.certainly(lambda a: a > 1, process.mass):
        raise ValueError(f"process must have a mass of at most 1, got {process.mass}")
    if _checks.certainly(lambda c: c <= 1, process.concentration):
        c = process.concentration
        raise ValueError(f"process must have a concentration above 1, got {c}")
    if failures is not None:
        _checks.positive("failures", failures)
        failures = _checks.one_number("failures", failures)
    series = series_of(process, bondesson if representation is None else representation)
    prior = {"mass_prior": mass_prior}
    return SliceBNB(process, family, series, failures, decay, capacity, **prior)
