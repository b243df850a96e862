"""The hierarchical Dirichlet process."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .. import _checks
from .._checks import scalar
from ..random import gamma, log_gamma
from .gamma_prior import at_least_tiny, gamma_prior, redraw_concentration
from .process import Process


class HierarchicalDirichletProcess(Process):
    """A Dirichlet process for each group of items, with one base measure that all of them share.

        G_0 ~ DP(a, H),   G_s ~ DP(g, G_0) for each group s

    The items of group s sit down at tables by a Chinese restaurant process of concentration g, and
    each table has a cluster by one of concentration a over all tables. Given the weights w of the
    clusters in G_0, an item has cluster k with probability proportional to n_sk + g w_k.

    Args:
        concentration: a > 0; its first value if it has a prior.
        group_concentration: g > 0; likewise.
        prior: `None` for a fixed a, or the shape and rate of its gamma prior.
        group_prior: the same for g.

    Raises:
        ValueError: if a number is not positive.

    Example:
        >>> process = HierarchicalDirichletProcess(1.0, 2.0, group_prior=(1.0, 1.0))
        >>> [name for name, prior in process.priors.items() if prior is not None]
        ['group_concentration']

    Reference:
        Teh, Jordan, Beal and Blei (2006), Hierarchical Dirichlet processes: their gamma is a, their
        alpha_0 is g.
    """

    concentration: Float[Array, ""] = eqx.field(converter=scalar("concentration"))
    group_concentration: Float[Array, ""] = eqx.field(converter=scalar("group_concentration"))
    prior: Any = eqx.field(converter=gamma_prior("prior"), default=None)
    group_prior: Any = eqx.field(converter=gamma_prior("group_prior"), default=None)

    def __check_init__(self):
        _checks.positive("concentration", self.concentration)
        _checks.positive("group_concentration", self.group_concentration)

    def start(self) -> dict[str, Float[Array, ""]]:
        """The hyper-parameters that a chain begins with."""
        return {
            "concentration": self.concentration,
            "group_concentration": self.group_concentration,
        }

    @property
    def priors(self) -> dict[str, Any]:
        """The prior of each hyper-parameter, or `None`."""
        return {"concentration": self.prior, "group_concentration": self.group_prior}

    def redraw(
        self,
        key: Any,
        hyper: dict[str, Array],
        tables: Int[Array, " K"],
        log_ratio: Float[Array, ""],
        ones: Int[Array, ""],
    ) -> dict[str, Array]:
        """Both concentrations from their conditionals.

        Given m tables, with w_s ~ Beta(g + 1, n_s) and e_s ~ Bernoulli(n_s / (n_s + g)),

            g ~ Gamma(shape + m - sum_s e_s, rate - sum_s log w_s).

        Args:
            tables: the number of tables of each cluster, (K,).
            log_ratio: the sum of log w_s.
            ones: the sum of e_s.
        """
        group_key, top_key = jax.random.split(key)
        num_tables, a, g = jnp.sum(tables), hyper["concentration"], hyper["group_concentration"]
        if self.group_prior is not None:
            shape, rate = self.group_prior
            # the difference of whole numbers first: a small shape would be lost beside them
            drawn = gamma(group_key, shape + (num_tables - ones)) / (rate - log_ratio)
            g = at_least_tiny(drawn, g.dtype)
        if self.prior is not None:
            a = redraw_concentration(top_key, a, self.prior, jnp.sum(tables > 0), num_tables)
        return hyper | {"concentration": a, "group_concentration": g}

    def draw_weights(
        self, key: Any, a: Float[Array, ""], tables: Int[Array, " K"]
    ) -> tuple[Float[Array, " K"], Float[Array, ""]]:
        """Logarithms of (w_1, ..., w_K, w_0) ~ Dirichlet(m_1, ..., m_K, a), w_0 that of all others,
        which is often smaller than any number where a is."""
        served = tables > 0
        shapes = jnp.append(a, jnp.where(served, tables, 1).astype(a.dtype))
        logs = log_gamma(key, shapes)  # w_0 first: slots are appended
        logs = jax.nn.log_softmax(jnp.where(jnp.append(True, served), logs, -jnp.inf))
        return logs[1:], logs[0]
