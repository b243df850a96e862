"""A document's proportions given the topics: geodesic Monte Carlo on the simplex."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ... import _checks
from ..._types import Data, Empty, Kernel, Key, Position, as_keys
from ...batching import Full
from ...gradients import Latent, Minibatch
from ...model import FunctionModel
from ...spaces import Simplex
from ...splitting import leapfrog
from .density import Prior, gram, inner_products, lengths
from .documents import UnitVectors, check_vectors


class Proportions(Latent):
    """Draws of p(theta_d | v_d, topics), of shape (draws, K) a document, from a chain each.

        Dir(theta | alpha) exp(kappa v'beta theta / |beta theta|)

    A draw is a trajectory of geodesic Monte Carlo with a Metropolis test of its own.
    """

    prior: Prior
    step_size: Array = eqx.field(converter=_checks.real("proportion_step_size"))
    num_steps: int = eqx.field(static=True)
    draws: int = eqx.field(static=True)
    burn_in: int = eqx.field(static=True)

    exact: ClassVar[bool] = False  # from scratch it takes trajectories

    def __check_init__(self):
        _checks.positive("proportion_step_size", self.step_size)
        for name in ("num_steps", "draws", "burn_in"):
            _checks.whole(name, getattr(self, name))

    def draw(
        self, key: Any, position: Position, items: UnitVectors, previous: Any
    ) -> Float[Array, "n draws k"]:
        products, inner = inner_products(position, items), gram(position)
        if previous is None:
            start = jnp.full_like(products, 1 / self.prior.num_topics)
        else:
            start = previous[:, -1]
        length = self.draws + (self.burn_in if previous is None else 0)
        chain = partial(self._chain, inner, length)
        return jax.vmap(chain)(jax.random.split(key, len(products)), start, products)

    def _chain(self, inner: Array, length: int, key: Any, theta: Array, products: Array) -> Array:
        """The last draws of one document."""
        prior = self.prior
        density = partial(_log_posterior, prior.alpha, prior.concentration, inner, products)
        grad = Minibatch(FunctionModel(density), Full())
        kernel = leapfrog(grad, self.step_size.astype(theta.dtype), self.num_steps, Simplex())
        init_key, step_key = jax.random.split(key)

        def step(state: Any, key: Any) -> tuple[Any, Array]:
            state, _ = kernel.step(key, state, None)
            return state, state.position

        state = kernel.init(init_key, theta, None)
        return jax.lax.scan(step, state, jax.random.split(step_key, length))[1][-self.draws :]

    def check(self, position: Position, data: Data) -> None:
        check_vectors(data, self.prior.vocabulary)


def _log_posterior(
    alpha: Array, concentration: Array, inner: Array, products: Array, theta: Array
) -> Array:
    """Up to a constant, with respect to the volume of `Simplex`."""
    cosine = jnp.sum(products * theta) / lengths(inner, theta)
    return Simplex.log_dirichlet(theta, alpha) + concentration.astype(theta.dtype) * cosine


class ProportionsState(eqx.Module):
    """The proportions, (D, K)."""

    position: Float[Array, "d k"]


class ProportionMoves(Kernel):
    """The kernel of all documents' proportions given the topics."""

    latent: Proportions
    topics: Float[Array, "k v"]

    def init(self, key: Key, position: Position, data: Data) -> ProportionsState:
        return ProportionsState(position)

    def step(self, key: Key, state: ProportionsState, data: Data) -> tuple[ProportionsState, Empty]:
        old = state.position[:, None]
        new = self.latent.draw(as_keys(key).noise, self.topics, data, old)
        return ProportionsState(new[:, -1]), Empty()

    def check(self, position: Position, data: Data) -> None:
        self.latent.check(self.topics, data)
        wanted = (len(data.columns), self.latent.prior.num_topics)
        if jnp.shape(position) != wanted:
            raise ValueError(
                f"position['proportions'] must be of shape {wanted}, documents and topics, got "
                f"{jnp.shape(position)}"
            )
        Simplex().check(position)
