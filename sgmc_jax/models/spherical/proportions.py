"""A document's proportions given the topics: geodesic Monte Carlo on the simplex."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ... import _checks
from ..._types import Data, Empty, Kernel, Key, Position, as_keys
from ...gradients import Latent
from ...spaces import Simplex
from .density import Prior, gram, inner_products, lengths
from .documents import UnitVectors, check_vectors


class Proportions(Latent):
    """Draws of p(theta_d | v_d, topics), of shape (draws, K) a document, from a chain each.

        Dir(theta | alpha) exp(kappa v'beta theta / |beta theta|)

    A draw is a trajectory of geodesic Monte Carlo with a Metropolis test of its own.
    """

    prior: Prior
    step_size: Float[Array, ""] = eqx.field(converter=_checks.real("step_size"))
    num_steps: int = eqx.field(static=True)
    draws: int = eqx.field(static=True)
    burn_in: int = eqx.field(static=True)

    exact: ClassVar[bool] = False  # from scratch it takes trajectories

    def __check_init__(self):
        _checks.positive("step_size", self.step_size)
        for name in ("num_steps", "draws"):
            _checks.whole(name, getattr(self, name))
        _checks.whole("burn_in", self.burn_in, 0)

    def draw(
        self, key: Any, position: Position, items: UnitVectors, previous: Any
    ) -> Float[Array, "n draws k"]:
        products, inner = inner_products(position, items), gram(position)
        if previous is None:
            start = jnp.full_like(products, 1 / self.prior.num_topics)
        else:
            start = previous[:, -1]
        density = partial(self._log_density, products, inner)

        def trajectory(theta: Array, key: Any) -> tuple[Array, Array]:
            theta = self._moved(density, theta, key)
            return theta, theta

        length = self.draws + (self.burn_in if previous is None else 0)
        draws = jax.lax.scan(trajectory, start, jax.random.split(key, length))[1]
        return draws[-self.draws :].swapaxes(0, 1)

    def _log_density(
        self,
        products: Float[Array, "n k"],
        inner: Float[Array, "k k"],
        theta: Float[Array, "n k"],
    ) -> Float[Array, " n"]:
        """Of each document, with respect to the volume of the simplex, up to a constant."""
        cosine = jnp.sum(products * theta, axis=-1) / lengths(inner, theta)
        prior = jax.vmap(Simplex.log_dirichlet, (0, None))(theta, self.prior.alpha)
        return prior + self.prior.concentration.astype(theta.dtype) * cosine

    def _moved(
        self, density: Callable, theta: Float[Array, "n k"], key: Any
    ) -> Float[Array, "n k"]:
        """`gmc`, of all documents side by side, each of which has a test of its own."""
        space, step_size = Simplex(), self.step_size.astype(theta.dtype)
        velocity_key, test_key = jax.random.split(key)

        def slope(theta: Array) -> tuple[Array, Array]:
            log_density, pull = jax.vjp(density, theta)
            return log_density, space.gradient(theta, *pull(jnp.ones_like(log_density)))

        def kinetic(theta: Array, velocity: Array) -> Array:
            return jax.vmap(space.squared_norm)(theta, velocity) / 2

        def leap(_: Any, phase: Any) -> Any:
            moved, velocity, _, force = phase
            velocity = velocity + step_size / 2 * force
            moved, velocity = space.flow(moved, velocity, step_size)
            log_density, force = slope(moved)
            return moved, velocity + step_size / 2 * force, log_density, force

        velocity = space.normal(velocity_key, theta)
        log_density, force = slope(theta)
        old = log_density - kinetic(theta, velocity)
        phase = (theta, velocity, log_density, force)
        moved, velocity, log_density, _ = jax.lax.fori_loop(0, self.num_steps, leap, phase)
        gain = log_density - kinetic(moved, velocity) - old
        log_u = jnp.log1p(-jax.random.uniform(test_key, gain.shape, gain.dtype))
        return jnp.where((log_u < gain)[:, None], moved, theta)

    def check(self, position: Position, data: Data) -> None:
        check_vectors(data, self.prior.vocabulary)


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
