"""The law of items that are yet to come, given a draw of linear-Gaussian features."""

from __future__ import annotations

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln, logsumexp, xlogy
from jaxtyping import Array, Bool, Float, Int

from .. import _checks
from .._checks import real, real_tree
from ..arrays import product
from ..processes import BetaBernoulli
from ..random import poisson
from ._arrays import floating

_MOST = 16  # features whose entries are summed out
_BORN = 24  # new features of one item, beyond which lies less than 1e-10 where 5 are expected
_NUMBERS = 2**22  # differences of items and sums of features at once
_POWER = 3.0


class NewItems(eqx.Module):
    """The law of items that are yet to come, given features, their weights and the noise.

    A new item has feature k with probability w_k and, besides, features that no item has yet:

        y = z A + b + s E,   z_k ~ Bernoulli(w_k),   J ~ Poisson(births),   b_d ~ N(0, J s_A^2)

    of E_d ~ N(0, 1), J being the number of the new ones. Items are independent given the draw, and
    each has the density

        p(y) = sum_J Poisson(J; births) sum_z prod_k w_k^z_k (1 - w_k)^(1 - z_k)
               N(y; z A, (s^2 + J s_A^2) I).

    `NewItems.of` has it for draws of `slice_features`, `hybrid_features` and `collapsed_features`
    with `BetaBernoulli(a, c)`: given entries of n items of which m_k have feature k, the weights
    are integrated out, w_k = m_k / (n + c) and births = a c / (n + c). For `slice_crm` with
    `Bernoulli()` give the constructor the weights `exp(representation.log_tau(v, g))` of the
    features in use (the representation of the position's mass, if that has a prior), and 0 for
    all others. Average p(y) over draws before taking logarithms.

    Args:
        parameters: A, (K, D).
        weights: w, (K,), from 0 to 1; 0 for free slots.
        noise_scale: s > 0.
        births: the expected number of new features of an item; `None` for none.
        feature_scale: s_A > 0, which matters only to these.

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
        the next item's features; Neal (2001), Annealed importance sampling.
    """

    parameters: Float[Array, "K D"] = eqx.field(converter=real("parameters"))
    weights: Float[Array, " K"] = eqx.field(converter=real("weights"))
    noise_scale: Float[Array, ""] = eqx.field(converter=real("noise_scale"))
    births: Float[Array, ""] | None = eqx.field(converter=real_tree("births"), default=None)
    feature_scale: Float[Array, ""] = eqx.field(converter=real("feature_scale"), default=1.0)

    def __check_init__(self):
        _checks.shaped("parameters", self.parameters, "K", "D")
        _checks.shaped("weights", self.weights, len(self.parameters))
        for name in ("noise_scale", "feature_scale"):
            _checks.shaped(name, getattr(self, name))
            _checks.positive(name, getattr(self, name))
        _checks.positive("weights", self.weights, zero=True)
        if _checks.certainly(lambda w: w > 1, self.weights):
            raise ValueError(f"weights must be at most 1, got {jnp.max(self.weights)}")
        if self.births is not None:
            _checks.shaped("births", self.births)
            _checks.positive("births", self.births, zero=True)

    @classmethod
    def of(
        cls,
        process: BetaBernoulli,
        shared: dict[str, Any],
        counts: Int[Array, " K"],
        num_items: Any,
    ) -> NewItems:
        """The law given a position, weights integrated out.

        Args:
            process: the sampler's `BetaBernoulli`.
            shared: `state.position.shared`, of a sampler with the family `LinearGaussian`.
            counts: m, `state.sums.counts` or the sums of the columns of `local["features"]`.
            num_items: n, how many items these are of.
        """
        if not isinstance(process, BetaBernoulli):
            raise TypeError(f"process must be a BetaBernoulli, got {type(process).__name__}")
        wanted = ("parameters", "concentration", "mass", "noise_scale", "feature_scale")
        missing = [name for name in wanted if name not in shared]
        if missing:
            wanted = "a sampler with BetaBernoulli and LinearGaussian"
            raise ValueError(f"shared must be of {wanted}, lacks {', '.join(missing)}")
        _checks.shaped("counts", counts, len(shared["parameters"]))
        weights = jnp.asarray(counts) / (num_items + shared["concentration"])
        births = process.birth_rate(shared, num_items + 1)
        scales = shared["noise_scale"], births, shared["feature_scale"]
        return cls(shared["parameters"], weights, *scales)

    def largest(self, num: int) -> NewItems:
        """The law with the features of the `num` largest weights alone: the same if no more are."""
        _checks.whole("num", num)
        kept = jnp.argsort(-self.weights)[:num]
        rows = self.parameters[kept], self.weights[kept]
        return NewItems(*rows, self.noise_scale, self.births, self.feature_scale)

    def draw(self, key: Any, num: int) -> tuple[Float[Array, "n D"], Bool[Array, "n K"]]:
        """New items, and which of the features each of them has."""
        _checks.whole("num", num)
        return _drawn(self, key, num)

    def log_prob(self, items: Float[Array, "n D"]) -> Float[Array, " n"]:
        """log p(y) of each item, all 2^K entries and the first 24 new features summed out.

        Exact for at most 16 slots; of a position with more, take the `largest`, or `estimate`.
        """
        num, dim = self.parameters.shape
        if num > _MOST:
            raise ValueError(
                f"parameters must have at most {_MOST} rows to be summed out, got {num}: take the "
                "`largest`, or `estimate`"
            )
        return _summed(self, floating("items", items, "n", dim))

    def estimate(
        self, key: Any, items: Float[Array, "n D"], *, particles: int = 16, temperatures: int = 128
    ) -> Float[Array, " n"]:
        """An estimate of log p(y) for any number of features, by annealed importance sampling.

        Entries begin as draws of their prior, and are redrawn one after the other at each of T
        temperatures, prior times f(y | z)^b_t, b_t = (t / T)^3. With

            W = prod_t f(y | z_(t-1))^(b_t - b_(t-1))

        the mean of W over the particles has the expectation p(y), whatever T and their number. Its
        logarithm, which is returned, is too low on average; the more of both, the less.
        """
        _checks.whole("particles", particles)
        _checks.whole("temperatures", temperatures)
        items = floating("items", items, "n", self.parameters.shape[1])
        return _annealed(self, key, items, _ladder(temperatures), particles)

    def log_noise(self, square: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """log f of an item at this squared distance from its sum of features."""
        dim = self.parameters.shape[1]
        normal = lambda v: -0.5 * (dim * jnp.log(2 * jnp.pi * v) + square[..., None] / v)
        noise = jnp.square(self.noise_scale)[None]
        if self.births is None:
            return normal(noise)[..., 0]
        born = jnp.arange(_BORN + 1)
        log_mass = xlogy(born, self.births) - self.births - gammaln(born + 1.0)
        return logsumexp(log_mass + normal(noise + born * self.feature_scale**2), axis=-1)


@partial(jax.jit, static_argnames="num")
def _drawn(law: NewItems, key: Any, num: int) -> tuple[Array, Array]:
    entry_key, birth_key, noise_key = jax.random.split(key, 3)
    values, variance = law.parameters, law.noise_scale**2
    z = jax.random.uniform(entry_key, (num, len(values)), law.weights.dtype) < law.weights
    if law.births is not None:
        born = poisson(birth_key, jnp.broadcast_to(law.births, (num, 1)))
        variance = variance + born * law.feature_scale**2
    noise = jax.random.normal(noise_key, (num, values.shape[1]), values.dtype)
    return product(z.astype(values.dtype), values) + jnp.sqrt(variance) * noise, z


@jax.jit
def _summed(law: NewItems, items: Array) -> Array:
    num, dim = law.parameters.shape
    choices = (jnp.arange(2**num)[:, None] >> jnp.arange(num)) & 1 == 1
    each = jnp.where(choices, jnp.log(law.weights), jnp.log1p(-law.weights))
    log_prior = jnp.sum(each, axis=1)
    means = product(choices.astype(items.dtype), law.parameters.astype(items.dtype))

    def one(item: Array) -> Array:
        return logsumexp(log_prior + law.log_noise(jnp.sum((item - means) ** 2, axis=1)))

    return jax.lax.map(one, items, batch_size=max(1, _NUMBERS // (2**num * dim)))


@partial(jax.jit, static_argnames="particles")
def _annealed(law: NewItems, key: Any, items: Array, ladder: Array, particles: int) -> Array:
    values, square = law.parameters, jnp.sum(law.parameters**2, axis=1)
    log_odds = jnp.log(law.weights) - jnp.log1p(-law.weights)
    shape, (start_key, move_key) = (len(values), len(items), particles), jax.random.split(key)
    ladder = ladder.astype(values.dtype)

    def residual(z: Array) -> Array:
        return items[:, None] - jnp.moveaxis(product(values.T, jnp.moveaxis(z, 0, 1)), 1, 2)

    def anneal(i: Array, loop: tuple[Array, Array]) -> tuple[Array, Array]:
        z, log_weight = loop
        rest = residual(z)
        gain = (ladder[i + 1] - ladder[i]) * law.log_noise(jnp.sum(rest**2, axis=2))
        uniforms = jax.random.uniform(jax.random.fold_in(move_key, i), shape, values.dtype)

        def column(k: Array, loop: tuple[Array, Array]) -> tuple[Array, Array]:
            z, rest = loop
            rest = rest + z[k][..., None] * values[k]
            without = jnp.sum(rest**2, axis=2)
            with_it = without - 2 * product(rest, values[k]) + square[k]
            low, high = law.log_noise(jnp.stack([without, with_it]))
            chance = jax.nn.sigmoid(log_odds[k] + ladder[i + 1] * (high - low))
            new = (uniforms[k] < chance).astype(values.dtype)
            return z.at[k].set(new), rest - new[..., None] * values[k]

        z, _ = jax.lax.fori_loop(0, len(values), column, (z, rest))
        return z, log_weight + gain

    chance = law.weights[:, None, None]
    z = (jax.random.uniform(start_key, shape, values.dtype) < chance).astype(values.dtype)
    start = z, jnp.zeros(shape[1:], values.dtype)
    _, log_weight = jax.lax.fori_loop(0, len(ladder) - 1, anneal, start)
    return logsumexp(log_weight, axis=1) - jnp.log(particles)


def _ladder(temperatures: int) -> Float[Array, " t"]:
    """0 = b_0 < ... < b_T = 1, most of them near 0, where the most changes."""
    return (jnp.arange(temperatures + 1) / temperatures) ** _POWER
