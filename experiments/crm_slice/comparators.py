"""What the slice samplers are compared with: a fixed truncation, and the double slice."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from sgmc_jax._types import Data, Key
from sgmc_jax.bnp import HybridState, SliceCRM
from sgmc_jax.bnp._columns import Ordered, Weighed
from sgmc_jax.bnp._series_weights import SeriesWeights
from sgmc_jax.bnp.slice_crm import SliceModel
from sgmc_jax.contract import Contract
from sgmc_jax.families import FeatureFamily
from sgmc_jax.processes import CountLikelihood, Representation

_PASSES = 4


class DoubleSlice(SliceCRM):
    """Levels K_n, uniform on k_n, ..., 2 k_n + 1: a row without entries has 0 or 1.

    Nand, Bouchard-Cote and Campbell have them uniform on k_n, ..., 2 k_n, where a row without
    entries would never have one.
    """

    def _level(self, last: Int[Array, " n"], uniforms: Float[Array, " n"]) -> Int[Array, " n"]:
        further = jnp.floor(uniforms * (last + 2)).astype(jnp.int32)
        return last + jnp.minimum(further, last + 1)

    def _log_level(self, last: Int[Array, "*n"], level: Int[Array, " n"]) -> Float[Array, "*n"]:
        return jnp.where(level <= 2 * last + 1, -jnp.log(last + 2.0), -jnp.inf)


class TruncatedWeights(SeriesWeights):
    """The first K atoms of a series, and no others.

    Their places have the density e^(-max g) given the counts' likelihood, each is moved by
    Metropolis given the others.
    """

    def extra(self, key: Any, given: dict[str, Any], capacity: int) -> dict[str, PyTree]:
        place_key, v_key = jax.random.split(key)
        v = self.series.sample_v(v_key, (capacity,))
        place = jnp.cumsum(jax.random.exponential(place_key, (capacity,), v.dtype))
        series = {"v": v, "g": place} | given.get("series", {})
        return {"series": series | {"log_theta": self.series.log_tau(series["v"], series["g"])}}

    def draw(
        self, key: Any, shared: dict[str, Any], counts: Array, stats: PyTree, num: Any
    ) -> tuple[dict[str, Any], Weighed]:
        v, g = (shared["series"][name] for name in ("v", "g"))
        own = lambda k: jax.tree.map(lambda x: x[k], stats)
        at = lambda k, v, g: self.counts.log_column(own(k), num, self.series.log_tau(v, g))

        def move(i: Array, loop: tuple[Array, Array]) -> tuple[Array, Array]:
            (v, g), k = loop, i % len(counts)
            scale_key, step_key, v_key, test_key = jax.random.split(jax.random.fold_in(key, i), 4)
            scale = jnp.exp(jax.random.uniform(scale_key, minval=-5.0, maxval=0.7))
            moved = g.at[k].mul(jnp.exp(scale * jax.random.normal(step_key, dtype=g.dtype)))
            gain = at(k, v[k], moved[k]) - at(k, v[k], g[k])
            gain = gain + jnp.log(moved[k] / g[k]) - _last(moved) + _last(g)
            u, w = jax.random.uniform(test_key, (2,))
            g = jnp.where(jnp.log(u) < gain, moved, g)
            fresh = v.at[k].set(self.series.sample_v(v_key))
            gain = at(k, fresh[k], g[k]) - at(k, v[k], g[k])
            return jnp.where(jnp.log(w) < gain, fresh, v), g

        v, g = jax.lax.fori_loop(0, _PASSES * len(counts), move, (v, g))
        return shared, Weighed(self.series.log_tau(v, g), v, g, jnp.ones_like(counts, bool))

    def arranged(self, key: Any, shared: dict[str, Any], used: Weighed, num: Any) -> Ordered:
        number = jnp.asarray(len(used.place))
        no = jnp.zeros((), bool)
        return Ordered(used.log_weight, used.v, used.place, jnp.argsort(used.place), number, no)


def _last(place: Float[Array, " K"]) -> Array:
    """Minus the log density of the first K places of a series, in no order."""
    return jnp.max(place)


class TruncatedInfo(NamedTuple):
    """The number of atoms in use."""

    active: Int[Array, ""]


class Truncated(SliceCRM):
    """All rows may have every one of K atoms, and there never are more."""

    def step(self, key: Key, state: HybridState, data: Data) -> Any:
        state, info = super().step(key, state, data)
        return state, TruncatedInfo(info.active)

    def contract(self, position: Any) -> Contract:
        return super().contract(position)._replace(capacity=None)

    def _level(self, last: Int[Array, " n"], uniforms: Float[Array, " n"]) -> Int[Array, " n"]:
        return jnp.full_like(last, self.capacity)

    def _log_level(self, last: Int[Array, "*n"], level: Int[Array, " n"]) -> Float[Array, "*n"]:
        return jnp.zeros(jnp.broadcast_shapes(jnp.shape(last), level.shape))


def truncated(
    representation: Representation, counts: CountLikelihood, family: FeatureFamily, num: int
) -> Truncated:
    """The model with no more than the first `num` atoms of a series, by Gibbs sampling."""
    model = SliceModel(TruncatedWeights(representation, counts), family)
    return Truncated(model, decay=1.0, capacity=num)


def double_slice(kernel: SliceCRM) -> DoubleSlice:
    """The same sampler with other levels."""
    return DoubleSlice(kernel.model, decay=kernel.decay, capacity=kernel.capacity)
