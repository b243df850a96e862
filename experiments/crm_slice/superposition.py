"""The beta-negative-binomial sampler in rounds, in the manner of Broderick et al."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import digamma
from jaxtyping import Array, Bool, Float, Int, PyTree

from sgmc_jax.bnp import BetaProcess, bondesson
from sgmc_jax.bnp._columns import Ordered, Weighed
from sgmc_jax.bnp._series_weights import SeriesWeights
from sgmc_jax.bnp.slice_bnb import SliceBNB
from sgmc_jax.collective import Shard
from sgmc_jax.families import Family

_POINTS, _MOVES = 96, 8
_LAST = 2**30  # no round is later


class Rounds(SeriesWeights):
    """A beta process of mass a and concentration c as the sum over rounds r = 0, 1, ... of

        Poisson(a c / (c + r)) atoms of weights Beta(1, c + r),

    since sum_r a c (1 - theta)^(c + r - 1) = a c (1 - theta)^(c - 1) / theta. Here `v` is an atom's
    log weight, `g` its round.
    """

    def extra(self, key: Any, given: dict[str, Any], capacity: int) -> dict[str, PyTree]:
        series = {"v": jnp.full((capacity,), jnp.log(0.1)), "g": jnp.zeros((capacity,))}
        for name, rows in given.get("series", {}).items():
            series[name] = jnp.concatenate([rows, series[name][len(rows) :]])
        return {"series": series}

    def kept(self, atoms: Ordered) -> dict[str, PyTree]:
        return {"series": {"v": atoms.v, "g": atoms.place}}

    def retargeted(self, shared: dict[str, Any]) -> dict[str, Any]:
        return shared  # weights stay

    def draw(
        self, key: Any, shared: dict[str, Any], counts: Array, stats: PyTree, num: Any
    ) -> tuple[dict[str, Any], Weighed]:
        """P(r | theta) = theta (1 - theta)^r, then theta given the round and the counts."""
        round_key, move_key = jax.random.split(key)
        used, c = counts > 0, self._measure.concentration
        log_theta = jnp.where(used, shared["series"]["v"], jnp.log(0.1))
        log_left = jnp.log1p(-jnp.exp(log_theta))
        u = jax.random.uniform(round_key, log_theta.shape, minval=1e-30)
        place = jnp.minimum(jnp.floor(jnp.log(u) / log_left), _LAST)

        def at(logit: Array) -> Array:
            log_theta, log_left = jax.nn.log_sigmoid(logit), jax.nn.log_sigmoid(-logit)
            own = self.counts.log_column(stats, num, log_theta)
            return own + log_theta + (c + place) * log_left

        def move(i: Array, loop: tuple[Array, Array]) -> tuple[Array, Array]:
            logit, old = loop
            keys = jax.random.split(jax.random.fold_in(move_key, i), 3)
            scale = jnp.exp(jax.random.uniform(keys[0], logit.shape, minval=-4.0, maxval=1.0))
            proposal = logit + scale * jax.random.normal(keys[1], logit.shape)
            new = at(proposal)
            taken = jnp.log(jax.random.uniform(keys[2], logit.shape)) < new - old
            return jnp.where(taken, proposal, logit), jnp.where(taken, new, old)

        logit = log_theta - log_left
        logit, _ = jax.lax.fori_loop(0, _MOVES, move, (logit, at(logit)))
        log_theta = jax.nn.log_sigmoid(logit)
        return shared, Weighed(log_theta, log_theta, place, used)

    def empty(self, key: Any, shared: dict[str, Any], number: int, num: Any) -> Weighed:
        """All atoms of the prior, each kept by the probability that it is empty."""
        num_key, round_key, weight_key, keep_key = jax.random.split(key, 4)
        a, c = self._measure.mass, self._measure.concentration
        total = digamma(c + _LAST) - digamma(c)
        some = jnp.arange(number) < jax.random.poisson(num_key, a * c * total)
        x = total * jax.random.uniform(round_key, (number,))
        # sum_{q <= r} 1 / (c + q) = digamma(c + r + 1) - digamma(c), by a table where r is small
        table = jnp.cumsum(1 / (c + jnp.arange(4096)))
        late = jnp.ceil(jnp.exp(x + digamma(c)) - 0.5 - c)
        early = jnp.searchsorted(table, x).astype(x.dtype)
        place = jnp.where(early < 4096, early, jnp.minimum(late, _LAST))
        log_left = jnp.log(jax.random.uniform(weight_key, (number,), minval=1e-30)) / (c + place)
        log_theta = jnp.log(-jnp.expm1(log_left))
        keep = jax.random.uniform(keep_key, (number,)) < jnp.exp(self.counts.log_absent(log_theta))
        return Weighed(log_theta, log_theta, place, some & keep)

    def arranged(self, key: Any, shared: dict[str, Any], used: Weighed, num: Any) -> Ordered:
        """Empty atoms of early rounds have slots; `number` is the last round of which all have."""
        empty, free = self.empty(key, shared, _POINTS, num), ~used.known
        place = jnp.where(empty.known, empty.place, jnp.inf)
        first = jnp.argsort(place)
        turn = jnp.minimum(jnp.cumsum(free) - 1, _POINTS - 1)
        pick = lambda own, others: jnp.where(free, others[first][turn], own)
        missing = jnp.sort(place)[jnp.minimum(jnp.sum(free), _POINTS - 1)]
        last = jnp.where(jnp.isinf(missing), _LAST, missing - 1)
        places = pick(used.place, place)
        return Ordered(
            pick(used.log_weight, empty.log_weight),
            pick(used.v, empty.v),
            jnp.where(jnp.isinf(places), _LAST, places),
            jnp.argsort(places),
            last.astype(jnp.int32),
            jnp.any(used.known & (used.place > last)),
        )

    @property
    def _measure(self) -> Any:
        return self.series.measure  # type: ignore[attr-defined]


class SuperpositionBNB(SliceBNB):
    """Levels are rounds: an item may be in all clusters of the rounds up to its own."""

    def _weights(self, shared: dict[str, Any], shard: Shard) -> Rounds:
        counts = super()._weights(shared, shard).counts
        return Rounds(self.series, counts)

    def log_theta(self, shared: dict[str, Any]) -> Float[Array, " K"]:
        return shared["series"]["v"]

    def _ranks(self, atoms: Ordered) -> tuple[Int[Array, " K"], Bool[Array, " K"], Any]:
        rank = atoms.place.astype(jnp.int32)
        return rank, rank < _LAST, atoms.number


def superposition_bnb(
    process: BetaProcess, family: Family, *, decay: float = 5.0, capacity: int = 16
) -> SuperpositionBNB:
    """`slice_bnb` with atoms in rounds in place of a series, and slices in rounds.

    The rounds of atoms in use are drawn anew given their weights, without which they hardly mix.
    """
    return SuperpositionBNB(process, family, bondesson(process), None, decay, capacity)
