"""The parameters of a likelihood of one's own, moved together: their law given the features."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import Collective, Space, Vmap, sample
from sgmc_jax.bnp import BetaBernoulli, FeatureLikelihood, hybrid_features
from sgmc_jax.families import explicit_features
from sgmc_jax.families.feature_family import FeatureRows
from tests.laws.moments import check_mean, fault_is_seen

pytestmark = pytest.mark.runs_long

KEY = jax.random.key(9)
NOISE, SCALE = 0.6, 1.1
FAMILY = FeatureLikelihood(
    lambda theta, z, x: -0.5 * (x - z @ theta) ** 2 / NOISE**2,
    lambda theta: -0.5 * theta**2 / SCALE**2,
    lambda key: SCALE * jax.random.normal(key),
    step_size=0.5,
    num_steps=3,
)
FEATURES = np.array([[1, 1, 1, 1, 2, 0], [0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 1, 0]])
ITEMS = np.array([1.2, 0.4, 0.9, 2.0, 3.1, 5.0], np.float32)
REAL = np.array([True] * 5 + [False])


def posterior():
    """The moments of slots 0 and 2, whose features occur 6 and 2 times; the law is normal."""
    z = FEATURES[[0, 2]][:, REAL].astype(float)
    covariance = np.linalg.inv(z @ z.T / NOISE**2 + np.eye(2) / SCALE**2)
    mean = covariance @ z @ ITEMS[REAL] / NOISE**2
    return mean, covariance + np.outer(mean, mean)


def moments(num_chains=512, num_steps=600, burn_in=100):
    rows = FeatureRows(jnp.asarray(ITEMS), jnp.asarray(FEATURES), jnp.asarray(REAL))
    counts = rows.features.sum(1)

    def step(params, key):
        _, params = FAMILY.redraw(key, {}, params, (), counts, rows, 5, Collective())
        return params, params

    def chain(key):
        draws = jax.lax.scan(step, jnp.array([0.0, 7.0, 0.0]), jax.random.split(key, num_steps))[1]
        theta = draws[burn_in:, [0, 2]]
        return theta.mean(0), jnp.einsum("ti,tj->ij", theta, theta) / len(theta), draws[-1, 1]

    return jax.jit(jax.vmap(chain))(jax.random.split(KEY, num_chains))


def check_posterior():
    mean, square, free = moments()
    expected = posterior()
    check_mean(mean, expected[0], 0.02)
    check_mean(square, expected[1], 0.03)
    assert np.all(free == 7.0), "a free slot has moved"


def test_parameters_have_their_posterior_law():
    check_posterior()


def test_an_energy_that_forgets_the_masses_is_seen(monkeypatch):
    monkeypatch.setattr(explicit_features._Slots, "squared_norm", Space.squared_norm)
    fault_is_seen(check_posterior)


def test_slots_that_a_chain_grew_by_do_not_stop_its_moves():
    """They are 0, where |theta| has no gradient."""
    family = FeatureLikelihood(
        lambda theta, z, x: -0.5 * jnp.sum((x - z @ theta) ** 2),
        lambda theta: -jnp.linalg.norm(theta),
        lambda key: jax.random.normal(key, (2,)),
        step_size=0.1,
    )
    x = np.random.default_rng(0).normal(size=(30, 2)) + [3, 0]
    made = [
        sample(KEY, hybrid_features(BetaBernoulli(1.0), family, capacity=n), None, x, num_steps=40)
        for n in (2, 32)
    ]
    assert made[0].capacity > 2
    for run in made:
        theta, z = run.trace.shared["parameters"], run.trace.local["features"]
        kept = (z.sum(1) > 0)[1:] & (z.sum(1) > 0)[:-1]
        assert np.mean(np.any(np.diff(theta, axis=0) != 0, axis=2)[kept]) > 0.5


def test_padding_has_no_part_in_the_gradient():
    """Its entries are 0, where log(z theta) has no gradient; a shard may have no others."""
    family = FeatureLikelihood(
        lambda u, z, x: x * jnp.log(z @ jnp.exp(u)) - z @ jnp.exp(u),
        lambda u: u - jnp.exp(u),
        lambda key: jnp.log(jax.random.exponential(key)),
        step_size=0.05,
    )
    x = jnp.array([3.0, 5.0, 0.0, 0.0])
    z = jnp.array([[1, 1, 0, 0], [0, 1, 0, 0]])

    def moved(rows):
        rows = FeatureRows(x[:rows], z[:, :rows], jnp.arange(rows) < 2)
        return family.redraw(KEY, {}, jnp.zeros(2), (), z.sum(1), rows, 2, Collective())[1]

    assert np.all(moved(2) != 0)
    np.testing.assert_allclose(moved(4), moved(2), rtol=1e-6)

    alone = explicit_features._Posterior(family, jnp.ones(2, bool), Collective())
    none = explicit_features._without_padding(FeatureRows(x[2:], z[:, 2:], jnp.zeros(2, bool)))
    gradient, value = alone.estimate(KEY, None, jnp.zeros(2), none)[0][:2]
    np.testing.assert_allclose(gradient, 0)  # 1 - exp(u), of the prior
    np.testing.assert_allclose(value, -2)


@pytest.mark.parametrize("engine, blocks", [(None, 2), (Vmap(4), 8)], ids=str)
def test_parameters_move_beside_padding(engine, blocks):
    """Five items in blocks or shards that are not full, or have none."""
    family = FeatureLikelihood(
        lambda u, z, x: x * jnp.log(z @ jnp.exp(u)) - z @ jnp.exp(u),
        lambda u: u - jnp.exp(u),
        lambda key: jnp.log(jax.random.exponential(key)),
        step_size=0.05,
    )
    kernel = hybrid_features(BetaBernoulli(1.0), family, blocks=blocks)
    data = np.array([3.0, 5.0, 4.0, 2.0, 6.0], np.float32)
    run = sample(KEY, kernel, None, data, num_steps=40, engine=engine)
    theta, z = run.trace.shared["parameters"], run.trace.local["features"]
    kept = (z.sum(1) > 0)[1:] & (z.sum(1) > 0)[:-1]
    assert np.mean((np.diff(theta, axis=0) != 0)[kept]) > 0.5
