"""The Pitman-Yor and the Dirichlet process."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from .. import _checks
from .._checks import as_real
from ..random.gamma import gamma, log_gamma


class PitmanYor(eqx.Module):
    """The Pitman-Yor process: a point joins cluster k with probability proportional to m_k - d, a
    new one proportional to a + K d, where a is the concentration, d the discount and K the number
    of clusters.

    Args:
        concentration: a > -d.
        discount: d in [0, 1); 0 is the Dirichlet process.

    Raises:
        ValueError: if a number is out of its range.

    Reference:
        Pitman and Yor (1997), The two-parameter Poisson-Dirichlet distribution.
    """

    concentration: Array = eqx.field(converter=as_real)
    discount: Array = eqx.field(converter=as_real)

    def __check_init__(self):
        _checks.positive("discount", self.discount, zero=True)
        if _checks.is_concrete(self.discount) and bool(jnp.any(self.discount >= 1)):
            raise ValueError(f"discount must be below 1, got {self.discount}")
        if _checks.is_concrete(self.discount) and _checks.is_concrete(self.concentration):
            if not bool(jnp.all(self.concentration > -self.discount)):
                raise ValueError(
                    f"concentration must be above minus the discount, got {self.concentration} "
                    f"and {self.discount}"
                )

    def start(self) -> dict[str, Array]:
        """The hyper-parameters that a chain begins with."""
        return {"concentration": self.concentration, "discount": self.discount}

    def redraw(self, key: Any, hyper: dict[str, Array], counts: Array) -> dict[str, Array]:
        """The hyper-parameters given the sizes of the clusters; here they are fixed."""
        return hyper


class DirichletProcess(PitmanYor):
    """The Dirichlet process: a Pitman-Yor process of discount 0.

    Args:
        concentration: a > 0; its first value if it has a prior.
        prior: `None` for a fixed concentration, or the shape and rate of its gamma prior.

    Raises:
        ValueError: if a number is out of its range.

    Reference:
        Escobar and West (1995), Bayesian density estimation and inference using mixtures, section
        6, for drawing the concentration.
    """

    prior: Any = None

    def __init__(self, concentration: Any = 1.0, prior: tuple[Any, Any] | None = None):
        _checks.positive("concentration", concentration)
        self.concentration = as_real(concentration)
        self.discount = jnp.zeros_like(self.concentration)
        self.prior = None
        if prior is not None:
            for value in prior:
                _checks.positive("prior", value)
            self.prior = tuple(as_real(value) for value in prior)

    def redraw(self, key: Any, hyper: dict[str, Array], counts: Array) -> dict[str, Array]:
        """eta ~ Beta(a + 1, n), then a from a mixture of Gamma(s + K, .) and Gamma(s + K - 1, .)."""
        if self.prior is None:
            return hyper
        (shape, rate), old = self.prior, hyper["concentration"]
        size = jnp.sum(counts).astype(old.dtype)
        active = jnp.sum(counts > 0).astype(old.dtype)
        beta_key, pick_key, gamma_key = jax.random.split(key, 3)
        log_a, log_b = log_gamma(beta_key, jnp.stack([old + 1, size]))
        log_eta = log_a - jnp.logaddexp(log_a, log_b)
        odds = (shape + active - 1) / (size * (rate - log_eta))
        one_more = jax.random.uniform(pick_key, dtype=old.dtype) * (1 + odds) < odds
        drawn = gamma(gamma_key, shape + active - 1 + one_more) / (rate - log_eta)
        return hyper | {"concentration": drawn.astype(old.dtype)}
