"""The slice sampler of Nand et al. (2020) step by step, with its misprints and without.

Beta-Bernoulli features of three items without data, with the inverse-Levy series of a beta process
of concentration 1: theta_k = e^(-g_k / c). The multisets of columns have the law of the buffet.
"""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from tests.enumeration import features as exact
from tests.laws.moments import check_law, fault_is_seen, fewer

pytestmark = pytest.mark.runs_long

KEY, NUM = jax.random.key(7), exact.NUM
MASS, DECAY, SLOTS, PIECES = 0.8, 1.0, 32, 3
RANK = jnp.arange(1, SLOTS + 1)


def expected_columns(g):
    """I(g) = int_g^inf 1 - (1 - e^(-t / c))^N dt = c sum_i (1 - x^i) / i, x = 1 - e^(-g / c)."""
    x = -jnp.expm1(-g / MASS)
    return MASS * sum((1 - x**i) / i for i in range(1, NUM + 1))


def log_column(g, m):
    """log of prod_n h(x_n | theta) of a column with the sum m."""
    return -m * g / MASS + (NUM - m) * jnp.log(-jnp.expm1(-g / MASS))


class Printed:
    """One sweep; its arguments are what is printed otherwise than it holds."""

    def __init__(self, empty="drawn", proposal="free", levels="fresh"):
        self.empty, self.proposal, self.levels = empty, proposal, levels

    def sweep(self, key, x, g, known):
        """Entries (K, N), arrivals g, and how many of these are those of the last sweep."""
        keys = jax.random.split(key, 6)
        last = jnp.max(RANK[:, None] * x, axis=0)
        level = last + jnp.floor(-DECAY * jnp.log(jax.random.uniform(keys[0], (NUM,)))).astype(int)
        used, m = jnp.max(last), jnp.sum(x, axis=1)
        fresh = jax.random.exponential(keys[1], (SLOTS,))
        g = jax.lax.fori_loop(known, SLOTS, lambda k, g: g.at[k].set(before(g, k) + fresh[k]), g)
        for key in jax.random.split(keys[2]):
            g = jax.lax.fori_loop(0, used - 1, lambda k, g, key=key: self._between(key, g, m, k), g)
            g = jnp.where(used > 0, self._end(key, g, m, used - 1), g)
        if self.empty == "drawn":
            g = self._drawn(keys[3], g, used)
        else:
            step = lambda k, g: self._end(jax.random.fold_in(keys[3], k), g, m, k)
            g = jax.lax.fori_loop(used, jnp.max(level), step, g)
        uniforms = jax.random.uniform(keys[4], x.shape)
        x = jax.lax.fori_loop(
            0, SLOTS, lambda k, now: self._entries(now, g, level, x, uniforms, k), x
        )
        return x, g, jnp.max(level)

    def _between(self, key, g, m, k):
        """Substep 1: Metropolis between the neighbours."""
        move_key, accept_key = jax.random.split(jax.random.fold_in(key, k))
        low, high = before(g, k), g[k + 1]
        size = (high - low) / PIECES
        clip = lambda t: t if self.proposal == "free" else jnp.clip(t, low + size, high - size)
        new = clip(g[k]) + size * jax.random.uniform(move_key, minval=-1, maxval=1)
        back = (self.proposal == "clamped") | (jnp.abs(g[k] - clip(new)) <= size)
        ratio = log_column(new, m[k]) - log_column(g[k], m[k])
        within = (low < new) & (new < high) & back
        taken = within & (jnp.log(jax.random.uniform(accept_key)) < ratio)
        return g.at[k].set(jnp.where(taken, new, g[k]))

    def _end(self, key, g, m, k):
        """Substep 2: Metropolis with all later columns integrated out."""
        move_key, accept_key = jax.random.split(key)
        log = lambda t: jnp.where(
            t > before(g, k), log_column(t, m[k]) - t - expected_columns(t), -jnp.inf
        )
        new = g[k] + jax.random.uniform(move_key, minval=-1, maxval=1)
        taken = jnp.log(jax.random.uniform(accept_key)) < log(new) - log(g[k])
        return g.at[k].set(jnp.where(taken, new, g[k]))

    def _drawn(self, key, g, used):
        """Arrivals after the last one in use, thinned by the probability that no item has them."""
        gap_key, keep_key = jax.random.split(key)
        begin = jnp.where(used > 0, g[used - 1], 0.0)
        points = begin + jnp.cumsum(jax.random.exponential(gap_key, (2 * SLOTS,)))
        keep = jax.random.uniform(keep_key, points.shape) < jnp.exp(log_column(points, 0))
        points = jnp.sort(jnp.where(keep, points, jnp.inf))
        return jnp.where(RANK > used, points[jnp.maximum(RANK - 1 - used, 0)], g)

    def _entries(self, x, g, level, old, uniforms, k):
        """Column k of all items."""
        if self.levels == "fresh":
            without = jnp.max(RANK[:, None] * x.at[k].set(0), axis=0)
            with_ = jnp.maximum(without, k + 1)
        else:  # k_n and k'_n of the beginning of the sweep
            second, last = jnp.sort(RANK[:, None] * old, axis=0)[-2:]
            without = jnp.where(k + 1 == last, second, last)
            with_ = jnp.maximum(last, k + 1)
        odds = -g[k] / MASS - jnp.log(-jnp.expm1(-g[k] / MASS)) + (with_ - without) / DECAY
        new = (uniforms[k] < jax.nn.sigmoid(odds)) & (k < level)
        return x.at[k].set(new.astype(int))


def before(g, k):
    return jnp.where(k > 0, g[jnp.maximum(k - 1, 0)], 0.0)


def check(sampler, num_steps=4_000, num_chains=256, burn_in=50, tolerance=0.06):
    states = exact.binary()
    log = states.log_prior(exact.beta_columns(1.0)[0], MASS, 0.0)
    expected, count = states.law(log, 7), exact.statistics(states, 7)

    def step(state, key):
        x, g, known = sampler.sweep(key, *state)
        at = SimpleNamespace(position=SimpleNamespace(local={"features": x.T}))
        return (x, g, known), count(at, None)

    def chain(key):
        start = jnp.zeros((SLOTS, NUM), int), RANK.astype(float), 0
        keys = jax.random.split(key, burn_in + fewer(num_steps))
        return jnp.mean(jax.lax.scan(step, start, keys)[1][burn_in:], axis=0)

    means = jax.jit(jax.vmap(chain))(jax.random.split(KEY, num_chains))
    common = expected > 1e-3
    check_law(means[:, common], expected[common], tolerance)


@pytest.mark.full
@pytest.mark.optimised
@pytest.mark.parametrize("proposal", ["free", "accounted for"])
def test_all_columns(proposal):
    """Clamped proposals are right where those from which there is no way back are refused."""
    check(Printed(proposal=proposal))


FAULTS = {
    "empty columns by metropolis": {"empty": "moved"},
    "clamped proposals": {"proposal": "clamped"},
    "levels of the last sweep": {"levels": "stale"},
}


@pytest.mark.full
@pytest.mark.at_length
@pytest.mark.parametrize("fault", FAULTS)
def test_a_misprint_is_seen(fault):
    fault_is_seen(check, Printed(**FAULTS[fault]), tolerance=1.0)
