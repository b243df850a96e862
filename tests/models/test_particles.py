"""Particle smoothers against Kalman's, and stochastic volatility by its densities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm
from scipy import stats

from sgmc_jax import ControlVariate, Full, Minibatch, Window, sample, sgld
from sgmc_jax import models as m
from sgmc_jax.collective import as_shard
from sgmc_jax.models.series import particles
from tests.laws.moments import Z, fault_is_seen

KEY = jax.random.key(41)
Q, R = 0.5, 0.3
PHI = jnp.float32(0.8)


class Autoregression(m.NonlinearStateSpace):
    """x_t ~ N(phi x_{t-1}, Q), y_t ~ N(x_t, R), whose gradient Kalman's smoother knows."""

    def logprior(self, position):
        return jnp.zeros(())

    def draw_first(self, key, position, num):
        return jnp.sqrt(Q / (1 - position**2)) * jax.random.normal(key, (num,))

    def draw_next(self, key, position, states):
        return position * states + jnp.sqrt(Q) * jax.random.normal(key, states.shape)

    def log_first(self, position, state):
        return norm.logpdf(state, 0.0, jnp.sqrt(Q / (1 - position**2)))

    def log_next(self, position, before, after):
        return norm.logpdf(after, position * before, jnp.sqrt(Q))

    def log_row(self, position, state, row):
        return norm.logpdf(row, state, jnp.sqrt(R))


def series(length=12):
    rng, x, rows = np.random.default_rng(2), 0.0, []
    for _ in range(length):
        x = 0.8 * x + np.sqrt(Q) * rng.normal()
        rows.append(x + np.sqrt(R) * rng.normal())
    return jnp.asarray(rows, jnp.float32)


def kalman():
    known = {"state_noise": Q, "observation": 1.0, "observation_noise": R}
    known = {name: x * np.eye(1) for name, x in known.items()}
    return m.LinearGaussianStateSpace(1, 1, known=known)


def exact_terms(batcher, rows):
    """Each window's gradient in phi, and the log likelihood."""
    every = batcher.population(as_shard(rows)).items
    at = {"transition": PHI.reshape(1, 1)}
    terms = kalman().per_item(at, every)["transition"]
    return np.asarray(terms).ravel(), float(kalman().log_likelihood(at, rows))


def particle_terms(batcher, rows, num, draws):
    """The same by particles, (draws, windows)."""
    every, model = batcher.population(as_shard(rows)).items, Autoregression()
    smoother = m.ParticleSmoother(model, num)

    def one(key):
        return model.per_item(PHI, (every, smoother.draw(key, PHI, every, None)))

    return np.asarray(jax.jit(lambda keys: jax.lax.map(one, keys))(jax.random.split(KEY, draws)))


def check_particles(num=256, draws=256, tolerance=0.12):
    """Three windows with a buffer: both edges, an interior one, and padding."""
    batcher, rows = Window(5, 2), series()
    exact, _ = exact_terms(batcher, rows)
    values = particle_terms(batcher, rows, num, draws)
    error = values.std(0, ddof=1) / np.sqrt(draws)
    # what particles bias, of order 1 / num, is far below the error
    gap = np.abs(values.mean(0) - exact)
    assert np.all(gap < Z * error), f"off by {gap / error} standard errors"
    assert np.all(Z * error < tolerance * np.max(np.abs(exact))), f"blind: {error}"


@pytest.mark.full
def test_particles_against_kalman():
    check_particles()


@pytest.mark.full
@pytest.mark.parametrize("fault", ["no weights", "no ancestors", "no edge"])
@pytest.mark.at_length
def test_wrong_paths_are_seen(fault, monkeypatch):
    if fault == "no weights":
        even = particles.systematic
        monkeypatch.setattr(particles, "systematic", lambda key, w: even(key, jnp.zeros_like(w)))
    elif fault == "no ancestors":
        honest = particles.bootstrap

        def bootstrap(*args):
            found = honest(*args)
            own = jnp.broadcast_to(jnp.arange(found.ancestors.shape[1]), found.ancestors.shape)
            return found._replace(ancestors=own)

        monkeypatch.setattr(particles, "bootstrap", bootstrap)
    else:
        monkeypatch.setattr(Autoregression, "draw_first", lambda self, key, x, n: 5 * jnp.ones(n))
    fault_is_seen(check_particles)


@pytest.mark.full
def test_the_bias_falls_with_the_particles():
    """Of order 1 / n for all rows at once; the likelihood's estimate has none."""
    batcher, rows = Window(None), series(30)
    exact, evidence = exact_terms(batcher, rows)
    gaps, draws = [], 4_000
    for num in (4, 8, 16):
        values = particle_terms(batcher, rows, num, draws)
        error = values.std(0, ddof=1) / np.sqrt(draws)
        gaps.append(abs(float((values.mean(0) - exact)[0])))
        assert gaps[-1] > 3 * error or num == 16, (num, gaps, error)
    assert gaps[2] < 0.7 * gaps[0]
    estimate = lambda key: Autoregression().log_likelihood(key, PHI, rows, 64)
    logs = np.asarray(jax.jit(jax.vmap(estimate))(jax.random.split(KEY, 4_000))) - evidence
    ratio = np.exp(logs)
    assert abs(ratio.mean() - 1) < Z * ratio.std() / np.sqrt(4_000)


def test_rows_that_fill_up_a_window_weigh_nothing():
    every = Window(5).population(as_shard(series())).items
    last = jax.tree.map(lambda x: x[-1], every)
    found = particles.bootstrap(Autoregression(), KEY, PHI, last, 8)
    assert list(found.evidence != 0) == list(last.real) == [True, True, False, False, False]
    np.testing.assert_array_equal(found.log_weight, 0)


def test_systematic_resampling_has_the_weights():
    """Each index floor or ceil of n w times, and n w on average over the uniform number."""
    log_weight = jnp.log(jnp.array([0.05, 0.4, 0.0, 0.25, 0.3]))
    keys = jax.random.split(KEY, 4_000)
    index = np.asarray(jax.vmap(lambda key: particles.systematic(key, log_weight))(keys))
    counts = (index[:, :, None] == np.arange(5)).sum(1)
    wanted = 5 * np.exp(log_weight)
    assert np.all(np.abs(counts - wanted) < 1 + 1e-5)
    error = counts.std(0) / np.sqrt(4_000)
    assert np.all(np.abs(counts.mean(0) - wanted) <= Z * error + 1e-6)


@pytest.mark.full
def test_the_densities_are_those_of_the_model(x64):
    """The prior's Jacobians, the stationary law near phi = 1, and what is simulated."""
    model = m.StochasticVolatility((0.5, 2.0), (20.0, 1.5), (2.5, 0.1))

    def density(position):
        v = model.natural(position)
        total = stats.norm.logpdf(v["mean"], 0.5, 2.0)
        total += stats.beta.logpdf((v["persistence"] + 1) / 2, 20.0, 1.5)
        total += np.log(1 - v["persistence"] ** 2)
        precision = 1 / v["scale"] ** 2
        return total + stats.gamma.logpdf(precision, 2.5, scale=10.0) + np.log(precision)

    points = [(-1.0, 0.95, 0.2), (0.3, 0.2, 0.5), (2.0, -0.3, 1.1)]
    at = [model.position(mean=a, persistence=b, scale=c) for a, b, c in points]
    gaps = [float(model.logprior(x) - density(x)) for x in at]
    np.testing.assert_allclose(gaps, gaps[0], rtol=1e-9)
    near = model.position(mean=0.0, persistence=1 - 1e-9, scale=0.2)
    wanted = norm.logpdf(3.0, 0.0, 0.2 / np.sqrt(1e-9 * (2 - 1e-9)))
    np.testing.assert_allclose(model.log_first(near, 3.0), wanted, rtol=1e-6)
    start = model.position(mean=-1.0, persistence=0.6, scale=0.5)
    states, rows = jax.vmap(lambda key: model.simulate_returns(key, start, 3))(
        jax.random.split(KEY, 4_000)
    )
    spread = 0.25 / (1 - 0.36)
    for values, mean in (
        (states, -1.0),
        ((states[:, 1:] + 1) * (states[:, :-1] + 1), 0.6 * spread),
        (rows**2, np.exp(-1 + spread / 2)),
    ):
        error = Z * np.asarray(values).std(0) / np.sqrt(4_000)
        assert np.all(np.abs(np.asarray(values).mean(0) - mean) < error)


def test_densities_of_states_and_returns(x64):
    model = m.StochasticVolatility()
    position = model.position(mean=-1.0, persistence=0.6, scale=0.5)
    for found, law, at in (
        (model.log_first(position, 0.3), stats.norm(-1.0, 0.5 / 0.8), 0.3),
        (model.log_next(position, 0.7, 0.3), stats.norm(-1.0 + 0.6 * 1.7, 0.5), 0.3),
        (model.log_row(position, 0.3, -1.2), stats.norm(0.0, np.exp(0.15)), -1.2),
    ):
        np.testing.assert_allclose(found, law.logpdf(at), rtol=1e-9)


@pytest.mark.full
def test_stochastic_volatility_by_windows():
    """The particle gradient of a window of six rows against quadrature over its states' grid."""
    model = m.StochasticVolatility()
    start = model.position(mean=-1.0, persistence=0.8, scale=0.6)
    rows = model.simulate_returns(KEY, start, 12)[1]
    every = Window(4, 1).population(as_shard(rows)).items
    wanted = jax.jit(lambda x: gridded(model, x, jax.tree.map(lambda a: a[1], every)))(start)
    smoother = m.ParticleSmoother(model, 256)

    def one(key):
        pairs = (every, smoother.draw(key, start, every, None))
        return jax.tree.map(lambda g: g[1], model.per_item(start, pairs))

    values = jax.jit(lambda keys: jax.lax.map(one, keys))(jax.random.split(KEY, 1_000))
    for name, exact in wanted.items():
        error = np.asarray(values[name]).std() / np.sqrt(1_000)
        assert abs(np.asarray(values[name]).mean() - exact) < Z * error, name


def gridded(model, position, window, points=301):
    """Fisher's terms of an interior window, states on a grid of their stationary law."""
    spread = jnp.exp(position["log_scale"]) / jnp.sqrt(1 - jnp.tanh(position["persistence"]) ** 2)
    grid = jax.lax.stop_gradient(position["mean"] + spread * jnp.linspace(-6, 6, points))
    pairs = jax.vmap(jax.vmap(model.log_next, (None, None, 0)), (None, 0, None))

    def complete(position):
        moves = pairs(position, grid, grid)
        rows = jax.vmap(lambda y: jax.vmap(lambda x: model.log_row(position, x, y))(grid))
        emits = rows(window.rows)
        fixed, first = jax.lax.stop_gradient(
            (moves, jax.vmap(model.log_first, (None, 0))(position, grid))
        )
        seen = jax.lax.stop_gradient(emits)
        ahead, filtered = [jnp.zeros(points)], [first]
        for t in reversed(range(1, len(seen))):
            ahead.insert(0, jax.nn.logsumexp(fixed + seen[t] + ahead[0], axis=1))
        total = 0.0
        for t in range(len(seen)):
            joint = filtered[-1][:, None] + fixed + seen[t] + ahead[t]
            weight = jax.nn.softmax(joint.ravel()).reshape(joint.shape)
            total = total + window.share[t] * jnp.sum(weight * (moves + emits[t]))
            filtered.append(jax.nn.logsumexp(filtered[-1][:, None] + fixed, axis=0) + seen[t])
        return total

    return jax.grad(complete)(position)


ROWS = jnp.ones(6)
SV = m.StochasticVolatility()
START = SV.position(mean=0.0, persistence=0.5, scale=0.5)


def _sampled(grad, data=ROWS):
    return sample(KEY, sgld(grad, 0.1), START, data, num_steps=1)


BAD = {
    "prior": (lambda: m.StochasticVolatility(mean_prior=1.0), "mean_prior must be a pair"),
    "scale": (lambda: m.StochasticVolatility((0.0, -1.0)), "mean_prior must be finite and pos"),
    "none": (lambda: m.StochasticVolatility(precision_prior=None), "precision_prior must be a"),
    "persistence": (
        lambda: SV.position(mean=0.0, persistence=1.0, scale=1.0),
        "persistence must be between -1 and 1",
    ),
    "particles": (lambda: SV.gradients(Window(2), 1), "num_particles must be a whole number"),
    "items": (lambda: _sampled(SV.gradients(Full(), 8)), "items of StochasticVolatility must be"),
    "vectors": (
        lambda: _sampled(SV.gradients(Window(2), 8), jnp.ones((6, 2))),
        r"the series must be of shape \(T,\), got rows of shape \(2,\)",
    ),
    "dict": (
        lambda: _sampled(SV.gradients(Window(2), 8), {"returns": jnp.ones(6)}),
        "the series must be one array, got rows .*returns: float",
    ),
    "position": (
        lambda: SV.logprior({"mean": jnp.zeros(2)}),
        "position of StochasticVolatility must have the shapes",
    ),
    "anchor": (
        lambda: _sampled(ControlVariate(SV.gradients(Window(2), 8), START)),
        "no exact sum|no difference of two points",
    ),
    "no latents": (lambda: _sampled(Minibatch(SV, Window(2))), "gradients"),
}


@pytest.mark.parametrize("name", list(BAD))
def test_what_does_not_fit_is_refused(name):
    make, message = BAD[name]
    with pytest.raises((TypeError, ValueError), match=message):
        make()
