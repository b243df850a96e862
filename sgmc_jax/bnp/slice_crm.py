"""Slice sampling of completely random measures, without truncation."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from .. import _checks
from .._checks import scalar
from .._types import Data, Key, as_keys
from ..collective import Dist, leading_axis
from ..contract import SlotInfo
from ..families import FeatureFamily, FeatureRows
from ..processes import (
    CountLikelihood,
    FeatureProcess,
    MeasureSeries,
    NegativeBinomial,
    Representation,
)
from ..random.words import item_uniforms, slot_item_uniforms, word_keys
from ._columns import Ordered, last_before
from ._series_weights import SeriesWeights
from ._starts import Starter
from ._weights import Weights
from .hybrid.blocks import Blocks, Rows
from .hybrid.features import FEW_ROWS, LatentFeatures, from_seeds
from .hybrid.kernel import HybridState, HybridSums, ModelKernel
from .hybrid.rows import draw_entries

_NUMBERS = 2**17  # entries of as many rows as are visited together on a CPU
_MOST_NUMBERS = 2**27  # and elsewhere


class Sliced(NamedTuple):
    """What all rows have in common in a step: atoms, parameters, and the keys of their draws."""

    atoms: Ordered
    shared: dict[str, Any]
    params: PyTree
    level_key: Any
    entry_key: Any


class SliceModel(LatentFeatures):
    """What a slice sampler samples: the state of a feature sampler, with weights as its process."""

    process: Weights  # type: ignore[assignment]

    def init(self, key: Any, position: Any, blocks: Blocks, capacity: int) -> HybridState:
        start_key, extra_key = jax.random.split(key)
        state = super().init(start_key, position, blocks, capacity)
        shared, local = state.position
        extra = self.process.extra(extra_key, shared, capacity)
        return state._replace(position=Dist(shared | extra, local))

    def starter(self, data: PyTree, capacity: int) -> Starter | None:
        num, process = leading_axis(data), self.process.collapsed
        if num < FEW_ROWS:
            return None
        # a start is made by a collapsed chain, for which weights have to be integrated out
        if process is not None:
            start = from_seeds(process, self.family, data, capacity)
            return lambda key: self._own(start(key), process)
        told = f"position=None begins with one feature, and {num} items may never leave it"
        warnings.warn(f"{told}: give features to begin with", stacklevel=2)
        return None

    def _own(self, start: Dist, process: FeatureProcess) -> Dist:
        """What a start of that process says of the family and of the features."""
        mine, theirs = self.process.start().keys(), process.start().keys()
        others = set() if mine == theirs else mine | theirs  # of another process mean another thing
        shared = {name: x for name, x in start.shared.items() if name not in others}
        return Dist(shared, start.local)

    def _sums(self, params: PyTree, z: Array, blocks: Blocks, lost: Array) -> HybridSums:
        sums = super()._sums(params, z, blocks, lost)
        rows = FeatureRows(blocks.shard.items, z.T, blocks.real)
        return sums._replace(more=self.process.statistics(rows))


class SliceCRM(ModelKernel):
    """See `slice_crm` and `slice_features`.

    Example:
        >>> from sgmc_jax.bnp import BetaBernoulli, LinearGaussian, SliceCRM, slice_features
        >>> kernel = slice_features(BetaBernoulli(1.0), LinearGaussian(2), capacity=32, decay=2.0)
        >>> isinstance(kernel, SliceCRM), kernel.capacity, float(kernel.decay)
        (True, 32, 2.0)
    """

    model: SliceModel
    decay: Float[Array, ""] = eqx.field(converter=scalar("decay"), kw_only=True)

    def __check_init__(self):
        _checks.positive("decay", self.decay)

    @property
    def keeps_weights(self) -> bool:
        return self.model.process.moved

    def retarget(self, key: Key, state: HybridState, data: Data) -> HybridState:
        state = super().retarget(key, state, data)
        shared, local = state.position
        return state._replace(position=Dist(self.model.process.retargeted(shared), local))

    def step(self, key: Key, state: HybridState, data: Data) -> tuple[HybridState, SlotInfo]:
        """All that is not an entry, given the entries; then the entries, all rows at once."""
        keys = jax.random.split(as_keys(key).noise, 6)
        weight_key, empty_key, atom_key, birth_key, entry_key, end_key = keys
        model, blocks = self.model, self._blocks(data)
        family, weights, num = model.family, model.process, blocks.shard.total
        sums, counts = state.sums, state.sums.counts
        z = model.entries(state.position.local["features"], blocks)
        rows = FeatureRows(blocks.shard.items, z.T, blocks.real)
        params, shared = model.reference(state), dict(state.position.shared)
        del shared["parameters"]

        # with empty atoms integrated out; these are fresh draws after it, none is carried over
        shared, used = weights.draw(weight_key, shared, counts, sums.more, num)
        atoms = weights.arranged(empty_key, shared, used, num)
        args = sums.statistics, counts, rows, num, self.comm
        shared, params = family.redraw(atom_key, shared, params, *args)
        # of explicit families: what no item has is of the prior, whatever was in the slot before
        params = family.births(birth_key, params, counts == 0)

        # levels have been integrated out so far: rows draw theirs given the order just made
        now = Sliced(atoms, shared, params, *jax.random.split(entry_key))
        features, beyond = self._all_rows(now, rows, blocks.index)
        lost = atoms.lost | beyond

        z = features.T
        # about these parameters: of small residuals the sums of squares do not cancel
        own = model._sums(params, z, blocks, lost)
        sums = self.comm.sum(own)
        # where they are integrated out this is a report: the next step draws parameters of its own
        drawn = family.report(end_key, shared, params, sums.statistics, sums.counts)
        shared = shared | weights.kept(atoms) | {"parameters": drawn}
        local = {"features": blocks.unpad(z).astype(model.process.dtype)}
        state = HybridState(Dist(shared, local), sums, model.kept(params))
        return self._told(state, params, z), state.slots

    def _all_rows(
        self, now: Sliced, rows: FeatureRows, index: Int[Array, " n"]
    ) -> tuple[Int[Array, "K n"], Bool[Array, ""]]:
        """`_sweep` of all rows, some at a time, so that what it needs stays in a CPU's cache.

        The last rows may be visited twice, each time from the same entries to the same.
        """
        capacity, num = rows.features.shape
        numbers = _NUMBERS if jax.default_backend() == "cpu" else _MOST_NUMBERS
        size = min(max(numbers // capacity, 64), num)
        if size == num:
            return self._sweep(now, rows, index)

        def part(i: Array, loop: tuple[Array, Array]) -> tuple[Array, Array]:
            features, lost = loop
            take = Rows(jnp.minimum(i * size, num - size), size)
            some = FeatureRows(
                jax.tree.map(take, rows.items), take(rows.features, 1), take(rows.real)
            )
            new, beyond = self._sweep(now, some, take(index))
            features = jax.lax.dynamic_update_slice_in_dim(features, new, take.begin, axis=1)
            return features, lost | beyond

        return jax.lax.fori_loop(0, -(-num // size), part, (rows.features, jnp.zeros((), bool)))

    def _sweep(
        self, now: Sliced, rows: FeatureRows, index: Int[Array, " n"]
    ) -> tuple[Int[Array, "K n"], Bool[Array, ""]]:
        """New entries of the columns up to each row's level, from the last to the first.

        A row's level has a law that depends on its last column alone. So an entry matters to that
        only where no later column has one; then the last is either k or the last before it, none of
        which has been visited. A column is read where the sweep began: a loop that reads what it
        writes copies all of it at every column.

        Returns:
            the entries, and whether a level is beyond the atoms that are known.
        """
        atoms, process = now.atoms, self.model.process.entries
        dtype, index = atoms.place.dtype, index.astype(jnp.uint32)
        rank = atoms.rank
        last, before = last_before(rows.features, atoms.order, rank)
        # given the entries of the row in the new order; these are then drawn given the level
        level = self._level(last, item_uniforms(now.level_key, index, dtype))
        # padding has no level above 0, and is not visited
        level = jnp.where(rows.real, level, 0)
        # columns past all levels are empty, and stay so
        visited = jnp.sum(rank <= jnp.max(level))
        (cipher,) = word_keys(now.entry_key, 1)
        uniforms = slot_item_uniforms(cipher, self.capacity, index, dtype)

        def column(i: Array, loop: tuple) -> tuple:
            features, likelihood, above = loop
            j = visited - 1 - i
            k = atoms.order[j]
            old = rows.features[k]

            def log_step(lower: Int[Array, " n"]) -> Float[Array, " n"]:
                # 1 in place of 0 moves the row's last column from before[j] to rank[j], unless a
                # later one has an entry; from 1 on nothing moves
                gain = self._gain(rank[j], before[j], level, (lower == 0) & ~above)
                return process.log_step(atoms.log_weight[k], lower) + gain.astype(dtype)

            # past its own level a row has nothing, and is given nothing
            new, likelihood = draw_entries(
                process, likelihood, log_step, k, old, uniforms[k], rank[j] > level
            )
            return features.at[k].set(new), likelihood, above | (new > 0)

        likelihood = self.model.family.together(now.shared, now.params, rows)
        start = rows.features, likelihood, jnp.zeros(level.shape, bool)
        features = jax.lax.fori_loop(0, visited, column, start)[0]
        # between the last known index and the level there may be atoms that the row has not tried
        return features, jnp.any(level > atoms.number)

    def _gain(self, last: Array, before: Array, level: Array, longer: Array) -> Array:
        """What an entry adds to a row's log weight where it makes it longer."""
        gain = self._log_level(last, level) - self._log_level(before, level)
        return jnp.where(longer, gain, 0)

    def _level(self, last: Int[Array, " n"], uniforms: Float[Array, " n"]) -> Int[Array, " n"]:
        """K_n = k_n + J,   P(J = j) = (1 - q) q^j,   q = e^(-1 / decay)."""
        return last + jnp.floor(-self.decay * jnp.log(uniforms)).astype(jnp.int32)

    def _log_level(self, last: Int[Array, "*n"], level: Int[Array, " n"]) -> Float[Array, "*n"]:
        """log P(K_n | k_n) but for what does not depend on k_n, where K_n >= k_n."""
        return last / self.decay

    def _blocks(self, data: Data) -> Blocks:
        return Blocks.of(data, self.comm.size, self.comm)


def slice_crm(
    representation: Representation,
    counts: CountLikelihood,
    family: FeatureFamily,
    *,
    mass_prior: Any = None,
    decay: Any = 2.0,
    capacity: int = 16,
) -> SliceCRM:
    """Slice sampling of any completely random measure, given as a series, under any counts.

        theta_k = tau(V_k, g_k),   V_k ~ G,   g_1 < g_2 < ... of a unit-rate Poisson process
        X_nk ~ h(. | theta_k),   psi_k ~ H,   y_n ~ f(. | sum_k X_nk delta(psi_k))

    Points (V, g) that no item has are, given X, a Poisson process of intensity
    G(dv) prod_n h(0 | tau(v, g)) dg; points in use are independent of them and of each other, with
    density G(v) prod_n h(X_nk | tau(v, g)). So a step

        draws the mass, a' ~ Gamma(s + K, r + E), if it has a Gamma(s, r) prior; g_k = g_k a' / a,
        moves the points in use by Metropolis, all at once: of the series of a measure nu each
        theta_k, on nu(theta) prod_n h(X_nk | theta), and (V_k, g_k) is drawn given it; of another
        series (V_k, g_k), on that density,
        draws the first empty points anew: a unit-rate series, thinned by prod_n h(0 | theta),
        puts all in the order of g: the features of the series,
        draws psi | X, Y and the levels K_n = k_n + Geometric,
        and the entries, with h in place of the odds, as `slice_features` does.

    K atoms being in use, and E = int (1 - prod_n h(0 | theta)) nu(d theta) at a mass of 1; with
    places g_k as large again as the mass, weights stay as they are. No other integral over empty
    points is needed, and no point waits for its neighbours.

    Targets:
        the posterior of the entries, their columns in no order, with their weights and parameters,
        and the mass if it has a prior, exactly.

    Args:
        representation: `bondesson(measure)`, `inverse_levy(measure)`, ..., or one of your own,
            `Representation.from_functions`.
        counts: h: `Bernoulli()`, `OddsBernoulli()`, `Poisson()`, `NegativeBinomial(size)`, or one
            of your own, `CountLikelihood.from_function`.
        family: f and H: `LinearGaussian(dim)`, or any other of `slice_features`.
        mass_prior: `None` for the mass of the representation's measure, or the shape and rate of
            its gamma prior; that of the measure is then its first value. A representation of one's
            own needs an `exposure` for it.
        decay: how far slices reach, as for `slice_features`.
        capacity: the number of slots to begin with; the runner doubles it when it is used up, and
            the chain does not depend on it.

    State:
        `position = Dist(shared, local)` as of `slice_features`, but with a `mass` only if the
        representation has one; `shared["series"]` has besides the `v`, `g` and `log_theta` of each
        slot, part of the chain. So another kernel may move its features only if it gives these
        their law: another series of the same measure does, but not `hybrid_features`, which
        integrates weights out, goes with `slice_features`, and is refused by a `cycle` with this
        one. At first `None` is one feature of all items; in `sample`, of 20 or more, what
        `BetaBernoulli(1)` or `GammaPoisson(1)` finds.

    Info:
        `active`, the number of features; `overflow`.

    Raises:
        ValueError, TypeError: if a number is out of its range, the data unfit for the family, or a
            prior given to the mass of a representation that has none.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import sample
        >>> from sgmc_jax.bnp import LinearGaussian, slice_crm
        >>> from sgmc_jax.processes import Bernoulli, StableBetaProcess, rejection
        >>> X = jnp.tile(jnp.array([[3.0, 0.0], [0.0, 3.0], [3.0, 3.0]]), (4, 1))
        >>> series = rejection(StableBetaProcess(1.0, 1.0, 0.3))  # features with a power law
        >>> kernel = slice_crm(series, Bernoulli(), LinearGaussian(2, 0.3, 3.0), capacity=64)
        >>> run = sample(jax.random.key(0), kernel, None, X, num_steps=20)
        >>> run.trace.local["features"].shape
        (20, 12, 64)

    Reference:
        Nand, Bouchard-Cote and Campbell (2020), Slice sampling for general completely random
        measures, algorithm 1, of which this is another form: there points move between their
        neighbours in an order that is kept, and those that are empty by Metropolis, which biases
        the chain.
    """
    for name, value, kind in [
        ("representation", representation, Representation),
        ("counts", counts, CountLikelihood),
        ("family", family, FeatureFamily),
    ]:
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be a {kind.__name__}, got {type(value).__name__}")
    if isinstance(counts, NegativeBinomial):
        _checks.one_number("the size of counts", counts.size)
    series = isinstance(representation, MeasureSeries)
    if counts.below_one and series and not representation.measure.bounded:
        raise ValueError(
            f"counts must be such as OddsBernoulli() or Poisson() for the weights of "
            f"{type(representation.measure).__name__}, which may exceed 1, got "
            f"{type(counts).__name__}"
        )
    model = SliceModel(SeriesWeights(representation, counts, mass_prior), family)
    return SliceCRM(model, decay=decay, capacity=capacity)
