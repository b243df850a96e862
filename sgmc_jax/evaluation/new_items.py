"""The law of items that are yet to come, given a draw of linear-Gaussian features."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, logsumexp, xlogy
from jaxtyping import Array, Float, Int

from .. import _checks
from .._checks import real, real_tree
from ..arrays import product
from ..processes import BetaBernoulli, GammaPoisson
from ..processes.counts import Bernoulli, BoundedCounts, CountLikelihood, NegativeBinomial
from ..processes.gamma_poisson import logarithmic
from ..random import poisson
from ._arrays import floating
from ._entries import (
    law_of_squares,
    log_density,
    log_noise,
    mean_entries,
    tell_of_larger,
    tell_of_more,
)

_SUMS = 2**16  # choices of all entries that are summed out
_MOST = 7  # the largest entry that is thought of, where there is no other bound
_BORN = 24  # new features of one item, beyond which lies less than 2e-10 where 5 are expected
_POWER = 3.0
_real, _optional = partial(real, wide=True), partial(real_tree, wide=True)


class NewItems(eqx.Module):
    """The law of items that are yet to come, given features, their weights and the noise.

    A new item has feature k with probability w_k and, besides, features that no item has yet:

        y = z A + b + s E,   z_k ~ Bernoulli(w_k),   J ~ Poisson(births),   b_d ~ N(0, S s_A^2)

    of E_d ~ N(0, 1), S = J being the number of the new ones. Items are independent given the draw,
    and each has the density

        p(y) = sum_S P(S) sum_z prod_k w_k^z_k (1 - w_k)^(1 - z_k) N(y; z A, (s^2 + S s_A^2) I).

    Where an item may have a feature several times, z_k ~ h(. | w_k) of other `counts`, the sum goes
    to z_k = `most`, and S = sum_j x_j^2, the entries x_j of new features having the logarithmic
    law P(x) ~ p^x / x.

    `NewItems.of` has it for draws of `slice_features`, `hybrid_features` and `collapsed_features`,
    with the weights integrated out: given the sums m_k of the columns of n items, of
    `BetaBernoulli(a, c)`,

        w_k = m_k / (n + c),   births = a c / (n + c),

    and of `GammaPoisson(a, c)`

        z_k ~ NegativeBinomial(m_k, p),   p = 1 / (n + c + 1),   births = -a c log(1 - p).

    For `slice_crm` give the constructor its `counts`, the weights `exp(log_theta)` of the series in
    the position for features in use, and 0 for all others; births, where entries are 0 or 1, are
    a (E(n + 1) - E(n)) with E(n) = `series.exposure(counts, n)` of mass 1, which in float32 are
    alike from some thousand items on. Average p(y) over draws before taking logarithms.

    Args:
        parameters: A, (K, D).
        weights: w, (K,), in the range of `counts`; 0 for free slots.
        noise_scale: s > 0.
        births: the expected number of new features of an item; `None` for none.
        feature_scale: s_A > 0, which matters only to these.
        birth_ratio: p, from 0 to 1; `None` where entries of new features are 1.
        counts: h, a `CountLikelihood`.
        most: the largest entry that is thought of; by default that of `counts`, or 7.

    Raises:
        ValueError, TypeError: if a number is out of its range, or a shape does not fit.

    Example: the held-out log density of a chain.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import sample
        >>> from sgmc_jax.bnp import BetaBernoulli, LinearGaussian, slice_features
        >>> X = jnp.tile(jnp.array([[3.0, 0.0], [0.0, 3.0], [3.0, 3.0]]), (4, 1))
        >>> process = BetaBernoulli(1.0)
        >>> kernel = slice_features(process, LinearGaussian(2, 0.3, 3.0), capacity=32)
        >>> def record(state, info):
        ...     return NewItems.of(process, state.position.shared, state.sums.counts, 12).largest(6)
        >>> run = sample(jax.random.key(0), kernel, None, X, num_steps=30, record=record)
        >>> items = jnp.array([[3.0, 0.0], [9.0, 9.0]])
        >>> each = jax.vmap(lambda law: law.log_prob(items))(run.trace)
        >>> near, far = jax.nn.logsumexp(each, axis=0) - jnp.log(30.0)
        >>> bool(near > far + 5)
        True

    Reference:
        Griffiths and Ghahramani (2011), The Indian buffet process: an introduction and review, for
        the next item's features; Titsias (2008), The infinite gamma-Poisson feature model; Panjer
        (1981), Recursive evaluation of a family of compound distributions, for P(S); Neal (2001),
        Annealed importance sampling.
    """

    parameters: Float[Array, "K D"] = eqx.field(converter=_real("parameters"))
    weights: Float[Array, " K"] = eqx.field(converter=_real("weights"))
    noise_scale: Float[Array, ""] = eqx.field(converter=_real("noise_scale"))
    births: Float[Array, ""] | None = eqx.field(converter=_optional("births"), default=None)
    feature_scale: Float[Array, ""] = eqx.field(converter=_real("feature_scale"), default=1.0)
    birth_ratio: Float[Array, ""] | None = eqx.field(
        converter=_optional("birth_ratio"), default=None
    )
    counts: CountLikelihood = Bernoulli()
    most: int | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        _checks.shaped("parameters", self.parameters, "K", "D")
        _checks.shaped("weights", self.weights, len(self.parameters))
        for name in ("noise_scale", "feature_scale"):
            _checks.shaped(name, getattr(self, name))
            _checks.positive(name, getattr(self, name))
        if not isinstance(self.counts, CountLikelihood):
            wanted = "a CountLikelihood, such as Poisson()"
            raise TypeError(f"counts must be {wanted}, got {type(self.counts).__name__}")
        if self.most is not None:
            _checks.whole("most", self.most)
        _checks.positive("weights", self.weights, zero=True)
        absent = lambda w: jnp.isnan(self.counts.log_absent(jnp.log(w)))
        if _checks.certainly(absent, self.weights):
            raise ValueError(f"weights must be at most 1, got {jnp.max(self.weights)}")
        for name in ("births", "birth_ratio"):
            if (value := getattr(self, name)) is not None:
                _checks.shaped(name, value)
                _checks.positive(name, value, zero=name == "births")
        if self.birth_ratio is not None and _checks.certainly(lambda p: p >= 1, self.birth_ratio):
            raise ValueError(f"birth_ratio must be below 1, got {self.birth_ratio}")
        tell_of_larger(self.counts, self.weights, self._most)
        tell_of_more(self.births, self.log_born)

    @classmethod
    def of(
        cls,
        process: BetaBernoulli | GammaPoisson,
        shared: dict[str, Any],
        counts: Int[Array | np.ndarray, " K"],
        num_items: Any,
        *,
        most: int | None = None,
    ) -> NewItems:
        """The law given a position, weights integrated out.

        Args:
            process: the sampler's `BetaBernoulli` or `GammaPoisson`.
            shared: `state.position.shared`, of a sampler with the family `LinearGaussian`.
            counts: m, `state.sums.counts` or the sums of the columns of `local["features"]`.
            num_items: n, how many items these are of.
            most: as of the constructor.
        """
        if not isinstance(process, BetaBernoulli | GammaPoisson):
            wanted = "a BetaBernoulli or a GammaPoisson"
            raise TypeError(f"process must be {wanted}, got {type(process).__name__}")
        wanted = ("parameters", "concentration", "mass", "noise_scale", "feature_scale")
        missing = [name for name in wanted if name not in shared]
        if missing:
            wanted = "a sampler of features with LinearGaussian"
            raise ValueError(f"shared must be of {wanted}, lacks {', '.join(missing)}")
        _checks.shaped("counts", counts, len(shared["parameters"]))
        counts, n, c = jnp.asarray(counts), num_items, shared["concentration"]
        births, ratio, law = process.birth_rate(shared, n + 1), None, Bernoulli()
        weights = counts / (n + c)
        if isinstance(process, GammaPoisson):
            ratio = 1 / (n + c + 1)
            weights = jnp.where(counts > 0, ratio, 0)
            law = NegativeBinomial(jnp.maximum(counts, 1).astype(weights.dtype))
        scales = shared["noise_scale"], births, shared["feature_scale"]
        return cls(shared["parameters"], weights, *scales, ratio, law, most)

    def largest(self, num: int) -> NewItems:
        """The law with the `num` likeliest features alone: the same if no more are in use."""
        _checks.whole("num", num)
        kept = jnp.argsort(self.counts.log_absent(jnp.log(self.weights)))[:num]
        counts = self.counts
        if isinstance(counts, NegativeBinomial) and jnp.ndim(counts.size):
            counts = NegativeBinomial(counts.size[kept])
        rows = {"parameters": self.parameters[kept], "weights": self.weights[kept]}
        return replace(self, **rows, counts=counts)

    def draw(self, key: Any, num: int) -> tuple[Float[Array, "n D"], Int[Array, "n K"]]:
        """New items, and how often each of them has each of the features."""
        _checks.random_key(key)
        _checks.whole("num", num)
        return _drawn(self, key, num)

    def log_prob(self, items: Float[Array | np.ndarray, "n D"]) -> Float[Array, " n"]:
        """log p(y) of each item, all entries up to `most` and new features summed out.

        New features are summed up to 24, or up to S = 49 where they have counts. Exact for at most
        (1 + most)^K = 2^16 choices of entries, as of 16 slots of zeros and ones; of a position with
        more, take the `largest`, or `estimate`.
        """
        return log_density(self, self._few("items", items))

    def entries(self, items: Float[Array | np.ndarray, "n D"]) -> Float[Array, "n K"]:
        """E[z_k | y] of each item: which features it has, in the mean over its entries.

        Of zeros and ones the probability that the item has feature k. All entries are summed, new
        features too, as by `log_prob`, of as many features; of the `largest` the columns are in the
        order of its `parameters`. Columns are those of this draw alone, as features of other draws
        have other names; `entries(y) @ parameters`, what features make of y, may be averaged.
        """
        return mean_entries(self, self._few("items", items))

    def estimate(
        self,
        key: Any,
        items: Float[Array | np.ndarray, "n D"],
        *,
        particles: int = 16,
        temperatures: int = 128,
    ) -> Float[Array, " n"]:
        """An estimate of log p(y) for any number of features, by annealed importance sampling.

        Entries begin as draws of their prior, and are redrawn one after the other at each of T
        temperatures, prior times f(y | z)^b_t, b_t = (t / T)^3. With

            W = prod_t f(y | z_(t-1))^(b_t - b_(t-1))

        the mean of W over the particles has the expectation p(y), whatever T and their number. Its
        logarithm, which is returned, is too low on average; the more of both, the less.
        """
        _checks.random_key(key)
        _checks.whole("particles", particles)
        _checks.whole("temperatures", temperatures)
        items = floating("items", items, "n", self.parameters.shape[1])
        return _annealed(self, key, items, _ladder(temperatures), particles)

    def _few(self, name: str, items: Any) -> Float[Array, "n D"]:
        """The items; raise if there are too many features for all entries to be summed."""
        num, dim = self.parameters.shape
        most = int(math.log(_SUMS, 1 + self._most) + 1e-9)
        if num > most:
            raise ValueError(
                f"parameters must have at most {most} rows to be summed out, got {num}: take the "
                "`largest`, or `estimate`"
            )
        return floating(name, items, "n", dim)

    @property
    def _most(self) -> int:
        if self.counts.dtype == jnp.bool_:
            return 1
        if isinstance(self.counts, BoundedCounts):
            return min(self.counts.maximum, self.most or self.counts.maximum)
        return self.most or _MOST

    @property
    def log_entries(self) -> Float[Array, "M K"]:
        """log P(z_k = x) for x = 0, ..., most."""
        x = jnp.arange(self._most + 1)[:, None]
        each = self.counts.log_prob(x, jnp.log(self.weights))
        # slots of no weight, which a position that grew later may have, need no other numbers
        each = jnp.where(self.weights == 0, jnp.where(x > 0, -jnp.inf, 0.0), each)
        return each - logsumexp(each, axis=0)

    @property
    def log_born(self) -> Float[Array, " S"]:
        """log P(S = s) for s = 0, 1, ..."""
        births = jnp.zeros(()) if self.births is None else self.births
        if self.birth_ratio is None:
            born = jnp.arange(1 if self.births is None else _BORN + 1)
            return xlogy(born, births) - births - gammaln(born + 1.0)
        return jnp.log(law_of_squares(births, self.birth_ratio, _MOST))


def _uniforms(key: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    """From (0, 1]: a 0 would be below the least tail, and its logarithm infinite."""
    return 1 - jax.random.uniform(key, shape, dtype)


def _pick(log_law: Float[Array, "M *n"], uniforms: Float[Array, "*n"]) -> Array:
    """How many tails P(z >= x) of a law are above a uniform."""
    law = jax.nn.softmax(log_law, axis=0)
    tails = jnp.cumsum(law[:0:-1], axis=0)
    return jnp.sum(uniforms < tails, axis=0)


@partial(jax.jit, static_argnames="num")
def _drawn(law: NewItems, key: Any, num: int) -> tuple[Array, Array]:
    entry_key, birth_key, noise_key = jax.random.split(key, 3)
    values, variance = law.parameters, law.noise_scale**2
    uniforms = _uniforms(entry_key, (num, len(values)), law.weights.dtype)
    z = _pick(law.log_entries[:, None], uniforms).astype(law.counts.dtype)
    if law.births is not None:
        born = poisson(birth_key, jnp.broadcast_to(law.births, (num, 1)))
        if law.birth_ratio is not None:
            size_key = jax.random.fold_in(birth_key, 1)
            u, v = _uniforms(size_key, (2, num, _BORN), values.dtype)
            sizes = logarithmic(jnp.log1p(-law.birth_ratio), u, v).astype(values.dtype)
            born = jnp.sum(jnp.where(jnp.arange(_BORN) < born, sizes**2, 0), 1, keepdims=True)
        variance = variance + born * law.feature_scale**2
    noise = jax.random.normal(noise_key, (num, values.shape[1]), values.dtype)
    return product(z.astype(values.dtype), values) + jnp.sqrt(variance) * noise, z


@partial(jax.jit, static_argnames="particles")
def _annealed(law: NewItems, key: Any, items: Array, ladder: Array, particles: int) -> Array:
    values, square = law.parameters, jnp.sum(law.parameters**2, axis=1)
    log_entries, log_f = law.log_entries, log_noise(law)
    entries = jnp.arange(len(log_entries), dtype=values.dtype)[:, None, None]
    shape, (start_key, move_key) = (len(values), len(items), particles), jax.random.split(key)
    ladder = ladder.astype(values.dtype)

    def residual(z: Array) -> Array:
        return items[:, None] - jnp.moveaxis(product(values.T, jnp.moveaxis(z, 0, 1)), 1, 2)

    def anneal(i: Array, loop: tuple[Array, Array]) -> tuple[Array, Array]:
        z, log_weight = loop
        rest = residual(z)
        gain = (ladder[i + 1] - ladder[i]) * log_f(jnp.sum(rest**2, axis=2))
        uniforms = _uniforms(jax.random.fold_in(move_key, i), shape, values.dtype)

        def column(k: Array, loop: tuple[Array, Array]) -> tuple[Array, Array]:
            z, rest = loop
            rest = rest + z[k][..., None] * values[k]
            along = jnp.sum(rest**2, axis=2) - 2 * entries * product(rest, values[k])
            noise = log_f(along + entries**2 * square[k])
            log_law = log_entries[:, k, None, None] + ladder[i + 1] * noise
            new = _pick(log_law, uniforms[k]).astype(values.dtype)
            return z.at[k].set(new), rest - new[..., None] * values[k]

        z, _ = jax.lax.fori_loop(0, len(values), column, (z, rest))
        return z, log_weight + gain.astype(log_weight.dtype)

    uniforms = _uniforms(start_key, shape, values.dtype)
    z = _pick(log_entries[:, :, None, None], uniforms).astype(values.dtype)
    start = z, jnp.zeros(shape[1:], values.dtype)
    _, log_weight = jax.lax.fori_loop(0, len(ladder) - 1, anneal, start)
    return logsumexp(log_weight, axis=1) - jnp.log(particles)


def _ladder(temperatures: int) -> Float[Array, " t"]:
    """0 = b_0 < ... < b_T = 1, most of them near 0, where the most changes."""
    return (jnp.arange(temperatures + 1) / temperatures) ** _POWER
