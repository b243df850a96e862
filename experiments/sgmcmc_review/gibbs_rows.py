"""Exact draws of all rows of a matrix factorisation: what its samplers are compared with."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from sgmc_jax import Kernel, as_keys, gibbs
from sgmc_jax.models import MatrixFactorization, RowPrior

CHUNK = 4_000  # ratings whose products are formed at once


def factor_gibbs(model: MatrixFactorization) -> Kernel:
    """Gibbs: users given items, items given users, hyper-parameters given both."""
    return gibbs(
        hyper=model.hyperparameters,
        factors=lambda rest: Rows(model, rest["hyper"]),
    )


class RowsState(NamedTuple):
    """The factors."""

    position: dict[str, Array]


class Rows(Kernel):
    """Exact draws of the users' rows given the items', then of the items' given the users'.

    Targets:
        for each user i, with Q_i = diag(lambda) + alpha sum_j V_j V_j',
        `U_i ~ N(Q_i^-1 (lambda mu + alpha sum_j (R_ij - centre) V_j), Q_i^-1)`.

    Reference:
        Salakhutdinov and Mnih (2008), Bayesian probabilistic matrix factorization using Markov
        chain Monte Carlo, equations 11 to 13.
    """

    model: MatrixFactorization
    hyper: dict[str, RowPrior]

    def init(self, key: Any, position: Any, data: Any) -> RowsState:
        return RowsState(position)

    def step(self, key: Any, state: RowsState, data: Any) -> tuple[RowsState, tuple]:
        (users, items), rating = data
        first, second = jax.random.split(as_keys(key).noise)
        factors = dict(state.position)
        target = rating - self.model.centre
        factors["users"] = self.rows(first, "users", users, factors["items"][items], target)
        factors["items"] = self.rows(second, "items", items, factors["users"][users], target)
        return RowsState(factors), ()

    def rows(
        self,
        key: Any,
        side: str,
        own: Int[Array, " n"],
        other: Float[Array, "n k"],
        target: Float[Array, " n"],
    ) -> Float[Array, "rows k"]:
        """The rows of one side, from the other side's of each rating."""
        model, prior = self.model, self.hyper[side]
        number = model.num_users if side == "users" else model.num_items
        weight = jnp.exp(prior.log_precision)
        linear = jnp.zeros((number, model.rank)).at[own].add(target[:, None] * other)

        def add(total: Array, rows: Array) -> tuple[Array, None]:
            inside = (rows < len(own))[:, None, None]
            x = other[rows % len(own)]
            outer = jnp.where(inside, x[:, :, None] * x[:, None, :], 0.0)
            return total.at[own[rows % len(own)]].add(outer), None

        index = jnp.arange(-(-len(own) // CHUNK) * CHUNK).reshape(-1, CHUNK)
        squares, _ = jax.lax.scan(add, jnp.zeros((number, model.rank, model.rank)), index)
        precision = jnp.diag(weight) + model.noise_precision * squares
        linear = weight * prior.mean + model.noise_precision * linear
        root = jnp.linalg.cholesky(precision)
        noise = jax.random.normal(key, linear.shape)
        solve = jax.scipy.linalg.solve_triangular
        half = jax.vmap(lambda root, b: solve(root, b, lower=True))(root, linear)
        return jax.vmap(lambda root, b: solve(root.T, b, lower=False))(root, half + noise)
