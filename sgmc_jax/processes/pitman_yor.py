"""The Pitman-Yor and the Dirichlet process."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import betaln, gammaln
from jaxtyping import Array, Bool, Float, Int, Real

from .. import _checks
from .._checks import scalar
from ..random import accept, gamma, log_gamma
from ..random.slots import slot_uniform
from ..special import log_rising_factorial
from .gamma_prior import at_least_tiny, gamma_prior, redraw_concentration
from .process import Atoms, Hyper, Series

_STEP = 0.7  # of the Metropolis walk in (log a, logit d)


class Sticks(NamedTuple):
    """log v_j and log(1 - v_j), of weights w_j = v_j prod_{l<j} (1 - v_l)."""

    log_stick: Float[Array, " K"]
    log_left: Float[Array, " K"]


class PitmanYor(Series):
    """The Pitman-Yor process: clusters of sizes that follow a power law.

    A point joins cluster k with probability proportional to m_k - d, and a new one proportional to
    a + K d, where a is the concentration, d the discount and K the number of clusters.

    Args:
        concentration: a > -d; its first value if it has a prior.
        discount: d in [0, 1), 0 being the Dirichlet process; likewise.
        prior: `None` for fixed values; or the shape and rate of a gamma prior on the concentration,
            the discount then being uniform on (0, 1).

    Raises:
        ValueError: if a number is out of its range.

    Example: the probability that two items are in one cluster.
        >>> import jax.numpy as jnp
        >>> process = PitmanYor(concentration=0.5, discount=0.5)
        >>> together = process.logdensity(process.start(), jnp.array([2, 0]))
        >>> round(float(jnp.exp(together)), 4)  # (1 - 1/2) / (1 + 1/2)
        0.3333

    Reference:
        Pitman and Yor (1997), The two-parameter Poisson-Dirichlet distribution.
    """

    concentration: Float[Array, ""] = eqx.field(converter=scalar("concentration"))
    discount: Float[Array, ""] = eqx.field(converter=scalar("discount"))
    prior: Any = eqx.field(converter=gamma_prior("prior"), default=None)

    def __check_init__(self):
        a, d = self.concentration, self.discount
        _checks.positive("discount", d, zero=True)
        if _checks.certainly(lambda d: d >= 1, d):
            raise ValueError(f"discount must be below 1, got {d}")
        if _checks.certainly(lambda a, d: ~(a > -d), a, d):
            raise ValueError(f"concentration must be above minus the discount, got {a} and {d}")
        _checks.finite("concentration", a)
        if self.prior is not None and _checks.certainly(lambda a: ~(a > 0), a):
            raise ValueError(f"concentration must be positive to have a prior, got {a}")

    def start(self) -> Hyper:
        """The hyper-parameters that a chain begins with."""
        return {"concentration": self.concentration, "discount": self.discount}

    @property
    def priors(self) -> dict[str, Any]:
        """The prior of each hyper-parameter, or `None`."""
        return {"concentration": self.prior, "discount": self.prior}

    def logdensity(self, hyper: Hyper, counts: Int[Array, " K"]) -> Float[Array, ""]:
        """The log probability of clusters of these sizes (zeros are no clusters), in any order.

        `sum_{0<j<K} log(a + j d) - sum_{0<i<n} log(a + i) + sum_k sum_{0<i<m_k} log(i - d)`
        """
        used = counts > 0
        factorials = jnp.sum(jnp.where(used, gammaln(jnp.maximum(counts, 1).astype(float)), 0))
        total = gammaln(jnp.maximum(jnp.sum(counts), 1).astype(float))
        return self._log_hyper(hyper, counts) + factorials - total

    def _log_hyper(self, hyper: Hyper, counts: Int[Array, " K"]) -> Float[Array, ""]:
        """`logdensity` without its factorials, which are large and know nothing of a and d.

        With P(x, n) = Gamma(x + n) / Gamma(x) the products over i are, of n items and of a cluster,
        (n - 1)! P(n, a) / Gamma(a + 1) and (m - 1)! / (P(m - d, d) Gamma(1 - d)).
        """
        a, d = hyper["concentration"], hyper["discount"]
        used, index = counts > 0, jnp.arange(counts.shape[0])
        more = (index > 0) & (index < jnp.sum(used))
        births = jnp.sum(jnp.where(more, jnp.log(a + jnp.where(more, index * d, 1.0)), 0.0))
        size = jnp.where(used, counts, 1)
        joins = jnp.where(used, -log_rising_factorial(size - d, d) - gammaln(1 - d), 0.0)
        num = jnp.maximum(jnp.sum(counts), 1)
        # -P(a + 1, n - 1) with (n - 1)!, by what is smaller; 0 of one item without rounding error
        few = gammaln(num.astype(float)) - log_rising_factorial(a + 1, num - 1)
        others = jnp.where(num > a, gammaln(a + 1) - log_rising_factorial(num, a), few)
        others = jnp.where(num > 1, others, 0.0)
        return births + jnp.sum(joins) + others

    def redraw(self, key: Any, hyper: Hyper, counts: Int[Array, " K"]) -> Hyper:
        """A Metropolis step on (log a, logit d) given the sizes of the clusters."""
        if self.prior is None:
            return hyper
        return self._walk(key, hyper, lambda hyper: self._log_hyper(hyper, counts))

    def draw_weights(
        self, key: Any, hyper: Hyper, counts: Int[Array, " K"], among: Bool[Array, " K"]
    ) -> tuple[Float[Array, " K"], Float[Array, ""]]:
        """(w_A, w_0) ~ Dirichlet({m_k - d}_A, a + J d + n_0), by their logs, to a common factor.

        A are J of the clusters, and n_0 items are in others, which have w_0 together.
        """
        a, d = hyper["concentration"], hyper["discount"]
        in_tail = jnp.sum(jnp.where(among, 0, counts))
        tail = a + jnp.sum(among) * d + in_tail
        shapes = jnp.append(tail, jnp.where(among, counts - d, 1.0))
        log_weight = log_gamma(key, shapes)  # in one call, the tail first: slots are appended
        return log_weight[1:], log_weight[0]

    def stick_shapes(
        self, hyper: Hyper, counts: Real[Array, " K"]
    ) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
        """The shapes of each stick's beta law, 1 - d + m_j and a + j d + sum_{l>j} m_l."""
        a, d = hyper["concentration"], hyper["discount"]
        below = jnp.flip(jnp.cumsum(jnp.flip(counts[1:])))
        later = jnp.append(below, jnp.zeros((1,), below.dtype))
        return 1 - d + counts, a + jnp.arange(1, len(counts) + 1) * d + later

    def log_weights(self, series: Sticks) -> tuple[Float[Array, " K"], Float[Array, ""]]:
        """log w_j = log v_j + sum_{l<j} log(1 - v_l)."""
        before, log_rest = _left_before(series.log_left)
        return series.log_stick + before, log_rest

    def draw_atoms(
        self, key: Any, hyper: Hyper, counts: Int[Array, " K"], end: Float[Array, ""] | float
    ) -> Atoms:
        """Given K clusters the weights are

            (w_1, ..., w_K, w_0) ~ Dirichlet(m_1 - d, ..., m_K - d, a + K d),

        w_0 being that of all empty atoms, which are those of a process with the concentration
        a + K d. Cluster k arrives at E_k / w_k, and the empty atoms at t_1 < t_2 < ...,

            t_e = t_{e-1} + E_e / r_e,    r_1 = w_0,    r_{e+1} = r_e (1 - V_e),
            V_e ~ Beta(1 - d, a + (K + e) d)

        from t_0 = 0, with all E ~ Exp(1).

        Reference:
            Perman, Pitman and Yor (1992), Size-biased sampling of Poisson point processes and
            excursions; Pitman (1996), Some developments of the Blackwell-MacQueen urn scheme, for
            the weights given the points.
        """
        log_weight, log_rate, log_wait = self._by_slot(key, hyper, counts)
        empty = jnp.append(counts == 0, True)
        wait = jnp.where(empty, jnp.exp(log_wait - log_rate) / end, 0)
        own = jnp.exp(log_wait[:-1] - log_weight) / end
        passed = jnp.cumsum(wait)
        arrived = jnp.where(empty[:-1], passed[:-1], own) < 1
        return Atoms(log_weight, arrived, log_rate[-1], passed[-1] < 1)

    def draw_order(self, key: Any, hyper: Hyper, counts: Int[Array, " K"]) -> Int[Array, " K"]:
        """The slots in the order of their sticks, which is that of arrival, see `draw_atoms`.

        If the slots do not suffice, a cluster has the last.
        """
        log_weight, log_rate, log_wait = self._by_slot(key, hyper, counts)
        wait = jnp.where(counts == 0, (log_wait - log_rate)[:-1], -jnp.inf)
        empty = jax.lax.cumlogsumexp(wait)
        return jnp.argsort(jnp.where(counts == 0, empty, log_wait[:-1] - log_weight))

    def _by_slot(
        self, key: Any, hyper: Hyper, counts: Int[Array, " K"]
    ) -> tuple[Float[Array, " K"], Float[Array, " K+1"], Float[Array, " K+1"]]:
        """The log weights of all slots; and, with one slot more, log r and log E."""
        weight_key, left_key, wait_key = jax.random.split(key, 3)
        a, d, used = hyper["concentration"], hyper["discount"], counts > 0
        # Everything is drawn by slot, so that slots which are added change nothing: a cluster has
        # the gamma behind its weight, an empty slot the two behind its V.
        left = log_gamma(left_key, jnp.where(used, 1.0, self._left_shapes(hyper, used)))
        shapes = jnp.append(a + jnp.sum(used) * d, jnp.where(used, counts, 1) - d)
        drawn = log_gamma(weight_key, shapes)
        own, both = drawn[1:], jnp.logaddexp(drawn[1:], left)
        log_total = jnp.logaddexp(drawn[0], jax.nn.logsumexp(own, where=used))
        before, log_rest = _left_before(jnp.where(used, 0, left - both))
        log_rate = drawn[0] - log_total + jnp.append(before, log_rest)
        log_weight = jnp.where(used, own - log_total, log_rate[:-1] + own - both)
        log_wait = jnp.log(-jnp.log(slot_uniform(wait_key, (len(used) + 1,), own.dtype)))
        return log_weight, log_rate, log_wait

    def _left_shapes(self, hyper: Hyper, used: Bool[Array, " K"]) -> Float[Array, " K"]:
        """a + (K + e) d, for the e-th empty slot."""
        number = jnp.sum(used) + jnp.cumsum(~used)
        return hyper["concentration"] + number * hyper["discount"]

    def redraw_from_series(
        self, key: Any, hyper: Hyper, series: Sticks, used: Bool[Array, " K"]
    ) -> Hyper:
        """A Metropolis step on (log a, logit d) given the sticks in use."""
        if self.prior is None:
            return hyper
        log_stick, log_left = series
        index = jnp.arange(1, len(used) + 1)

        def logdensity(hyper: Hyper) -> Float[Array, ""]:
            a, d = hyper["concentration"], hyper["discount"]
            b = a + index * d
            each = -d * log_stick + (b - 1) * log_left - betaln(1 - d, b)
            return jnp.sum(jnp.where(used, each, 0))

        return self._walk(key, hyper, logdensity)

    def _walk(self, key: Any, hyper: Hyper, logdensity: Any) -> Hyper:
        shape, rate = self.prior
        step_key, test_key = jax.random.split(key)
        dtype = hyper["concentration"].dtype
        step = _STEP * jax.random.normal(step_key, (2,), dtype)
        d = hyper["discount"]
        d = jnp.where(d > 0, d, 1e-3)  # a chain may begin at 0, but does not return
        logit = jnp.log(d) - jnp.log1p(-d) + step[1]
        proposal = {
            "concentration": hyper["concentration"] * jnp.exp(step[0]),
            "discount": jax.nn.sigmoid(logit),
        }

        def target(hyper: Hyper) -> Float[Array, ""]:
            a, d = hyper["concentration"], hyper["discount"]
            jacobian = jnp.log(a) + jnp.log(d) + jnp.log1p(-d)
            return logdensity(hyper) + (shape - 1) * jnp.log(a) - rate * a + jacobian

        gain = target(proposal) - target(hyper)
        taken = accept(test_key, gain)
        return jax.tree.map(lambda new, old: jnp.where(taken, new, old), proposal, hyper)


def _left_before(log_left: Float[Array, " K"]) -> tuple[Float[Array, " K"], Float[Array, ""]]:
    """sum_{l<j} log(1 - v_l) for every stick, and the sum over all."""
    total = jnp.cumsum(log_left)
    return jnp.append(jnp.zeros((1,), total.dtype), total[:-1]), total[-1]


class DirichletProcess(PitmanYor):
    """The Dirichlet process: a Pitman-Yor process of discount 0.

    Args:
        concentration: a > 0; its first value if it has a prior.
        prior: `None` for a fixed concentration, or the shape and rate of its gamma prior.

    Raises:
        ValueError: if a number is out of its range.

    Example: the probability that two items are in one cluster.
        >>> import jax.numpy as jnp
        >>> process = DirichletProcess(2.0)
        >>> together = process.logdensity(process.start(), jnp.array([2, 0]))
        >>> round(float(jnp.exp(together)), 4)  # 1 / (1 + 2)
        0.3333

    Reference:
        Escobar and West (1995), Bayesian density estimation and inference using mixtures, section
        6, for drawing the concentration.
    """

    def __init__(self, concentration: Any = 1.0, prior: tuple[Any, Any] | None = None):
        _checks.positive("concentration", concentration)
        self.concentration = scalar("concentration")(concentration)
        self.discount = jnp.zeros_like(self.concentration)
        self.prior = gamma_prior("prior")(prior)

    @property
    def priors(self) -> dict[str, Any]:
        return {"concentration": self.prior, "discount": None}

    def redraw(self, key: Any, hyper: Hyper, counts: Int[Array, " K"]) -> Hyper:
        """The concentration from its conditional, see `redraw_concentration`."""
        if self.prior is None:
            return hyper
        active = jnp.sum(counts > 0)
        return hyper | {
            "concentration": redraw_concentration(
                key, hyper["concentration"], self.prior, active, jnp.sum(counts)
            )
        }

    def redraw_from_series(
        self, key: Any, hyper: Hyper, series: Sticks, used: Bool[Array, " K"]
    ) -> Hyper:
        """The concentration from Gamma(s + J, r - sum_{j<=J} log(1 - v_j)), J sticks in use."""
        if self.prior is None:
            return hyper
        (shape, rate), old = self.prior, hyper["concentration"]
        rate = rate - jnp.sum(jnp.where(used, series.log_left, 0))
        drawn = gamma(key, shape + jnp.sum(used).astype(old.dtype)) / rate
        return hyper | {"concentration": at_least_tiny(drawn, old.dtype)}
