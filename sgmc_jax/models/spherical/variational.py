"""Variational inference of spherical admixtures, with all documents or with minibatches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.scipy.special import digamma, gammaln
from jaxtyping import Array, Float, Int

from ... import _checks
from ..._estimators import Estimate
from ..._types import Data, Kernel, Key, Position, as_keys
from ...arrays import product
from ...bessel import bessel_ratio, log_bessel_series
from ...collective import as_shard
from ...gradients import KeptState, Latent
from ...gradients.kept import KeptLatents
from ...model import Model
from ...spaces import Sphere
from .density import Prior, TopicModel, gram, in_parts, inner_products
from .documents import UnitVectors, check_vectors

_RATE = 0.2  # of the ascent over log a


class Bound(TopicModel):
    """The evidence's lower bound as a function of the topics' means b_k, by the delta method.

    Items are pairs of a document and log a_d, of its proportions' law Dir(a_d):

        kappa v'b E theta / sqrt(E |beta theta|^2) - KL(Dir(a_d), Dir(alpha)),
        E |beta theta|^2 = sum_k E theta_k^2 + sum_{j != k} E[theta_j theta_k] b_j'b_k,

    which is an approximation, and no bound: E of a quotient is taken for the quotient of E.
    """

    def loglik_batch(self, position: Position, items: Any) -> Float[Array, " n"]:
        vectors, log_a = items
        products = inner_products(position, vectors)
        return document_bound(self.prior_law, products, gram(position), log_a)

    def weighted_sum(self, position: Position, items: Any, weight: Float[Array, " n"]) -> Estimate:
        return in_parts(self._part, position, *items, weight)

    def _part(
        self,
        position: Float[Array, "k v"],
        vectors: UnitVectors,
        log_a: Float[Array, "n k"],
        weight: Float[Array, " n"],
    ) -> Estimate:
        return Model.weighted_sum(self, position, (vectors, log_a), weight)


def document_bound(
    prior: Prior,
    products: Float[Array, "n k"],
    inner: Float[Array, "k k"],
    log_a: Float[Array, "n k"],
) -> Float[Array, " n"]:
    """A document's part of `Bound`, from v'b_k and b_j'b_k."""
    a = jnp.exp(log_a)
    total = jnp.sum(a, axis=-1)
    inner = jnp.where(jnp.eye(len(inner), dtype=bool), 1, inner)
    square = jnp.sum(a * product(a, inner), axis=-1) + total  # E |beta theta|^2 a0 (a0 + 1)
    cosine = jnp.sum(a * products, axis=-1) * jnp.sqrt((total + 1) / (total * square))
    alpha = prior.alpha.astype(a.dtype)
    divergence = (
        gammaln(total)
        - jnp.sum(gammaln(a), axis=-1)
        + jnp.sum((a - alpha) * (digamma(a) - digamma(total)[:, None]), axis=-1)
        + prior.num_topics * gammaln(alpha)
        - gammaln(prior.num_topics * alpha)
    )
    return prior.concentration.astype(a.dtype) * cosine - divergence


class DirichletParameters(Latent):
    """log a_d of the proportions' laws, by steps of Adam's from what they were."""

    prior: Prior
    num_steps: int = eqx.field(static=True)

    exact: ClassVar[bool] = False  # no draw, but what an ascent has found

    def draw(
        self, key: Any, position: Position, items: UnitVectors, previous: Any
    ) -> Float[Array, "n k"]:
        products, inner = inner_products(position, items), gram(position)
        ascent = jax.grad(
            lambda log_a: -jnp.sum(document_bound(self.prior, products, inner, log_a))
        )
        start = jnp.zeros_like(products) if previous is None else previous
        adam = optax.adam(_RATE)

        def step(_: Any, carry: Any) -> Any:
            log_a, state = carry
            change, state = adam.update(ascent(log_a), state)
            return optax.apply_updates(log_a, change), state

        return jax.lax.fori_loop(0, self.num_steps, step, (start, adam.init(start)))[0]

    def check(self, position: Position, data: Data) -> None:
        check_vectors(data, self.prior.vocabulary)


class VariationalState(NamedTuple):
    """The topics' mean directions and concentrations, the documents' parameters, and the step."""

    position: Float[Array, "k v"]
    concentration: Float[Array, " k"]
    kept: KeptState
    count: Int[Array, ""]


class VariationalInfo(NamedTuple):
    """The bound, estimated from the batch, at the topics before the step."""

    bound: Float[Array, ""]


class Variational(Kernel):
    """See `SphericalAdmixture.variational`."""

    model: Bound
    kept: KeptLatents
    step_size: Float[Array, ""] | Callable

    def init(self, key: Key, position: Position, data: Data) -> VariationalState:
        prior = self.model.prior_law
        size = self.kept.batcher.population(as_shard(data)).size
        reach = prior.topic_concentration + prior.concentration * size / prior.num_topics
        each = jnp.broadcast_to(reach, position.shape[:1]).astype(position.dtype)
        kept = self.kept.init(key, _means(position, each), data)
        return VariationalState(position, each, kept, jnp.zeros((), jnp.int32))

    def step(
        self, key: Key, state: VariationalState, data: Data
    ) -> tuple[VariationalState, VariationalInfo]:
        keys = as_keys(key)
        count = state.count if keys.count is None else keys.count
        step_size = _checks.scheduled("step_size", self.step_size, count)
        step_size = step_size.astype(state.concentration.dtype)
        means = _means(state.position, state.concentration)
        (batch, _, new), kept = self.kept.redraw(keys, state.kept, means, data)
        prior = self.model.prior(means)
        items = self.model.weighted_sum(means, (batch.items, new), batch.weight)
        # the law of beta_k that is best, all else given, has the gradient as natural parameter
        old = state.concentration[:, None] * state.position
        natural = old + step_size * (prior.value + items.value - old)
        concentration = jnp.linalg.norm(natural, axis=1)
        bound = prior.logdensity + items.logdensity + _entropy(state.concentration, means)
        next_state = VariationalState(
            natural / concentration[:, None], concentration, kept, state.count + 1
        )
        return next_state, VariationalInfo(bound)

    def refresh(self, key: Key, state: VariationalState, data: Data) -> VariationalState:
        raise TypeError("Variational is a fit, no Markov kernel: it stands in no cycle or gibbs")

    def check(self, position: Position, data: Data) -> None:
        self.kept.check()
        self.kept.latent.check(position, data)
        self.kept.batcher.check(data)
        _checks.positive("step_size", self.step_size)
        self.model.check(position, data)
        Sphere().check(position)


def _means(position: Float[Array, "k v"], concentration: Float[Array, " k"]) -> Float[Array, "k v"]:
    """E beta_k of a von Mises-Fisher law."""
    order = position.shape[1] / 2 - 1
    return bessel_ratio(order, concentration)[:, None] * position


def _entropy(concentration: Float[Array, " k"], means: Float[Array, "k v"]) -> Float[Array, ""]:
    """That of the topics' laws, up to a constant: -sum_k (s A(s) + log c(s))."""
    order = means.shape[1] / 2 - 1
    series = log_bessel_series(order, concentration)
    return jnp.sum(series - concentration * jnp.linalg.norm(means, axis=1))
