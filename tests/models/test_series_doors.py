"""Series models at the door: shapes that would broadcast, precisions that differ, sure states."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import Window
from sgmc_jax.models import (
    FunctionEmission,
    HiddenMarkov,
    LinearGaussianStateSpace,
    NonlinearStateSpace,
    NormalEmission,
    StochasticVolatility,
)

KEY = jax.random.key(0)
ROWS = np.random.default_rng(0).normal(size=40)


def hidden(emission=None, **kwargs):
    model = HiddenMarkov(2, NormalEmission() if emission is None else emission, **kwargs)
    start = {"mean": jnp.array([-1.0, 1.0]), "log_scale": jnp.zeros(2)}
    return model, {"transition": jnp.zeros((2, 1)), "emission": start}


def test_means_of_states_are_no_means_of_a_row():
    """One prior for each state would be both, multiplied, for each of them."""
    for name, value in [("mean", jnp.array([-1.0, 1.0])), ("scale", jnp.ones(2))]:
        model, position = hidden(NormalEmission(**{name: value}))
        with pytest.raises(ValueError, match=f"{name} must broadcast to its leaf, of shape \\(\\)"):
            model.logprior(position)
    vectors = HiddenMarkov(2, NormalEmission(mean=jnp.array([-1.0, 1.0])))
    start = {"mean": jnp.zeros((2, 2)), "log_scale": jnp.zeros((2, 2))}
    assert np.isfinite(vectors.logprior({"transition": jnp.zeros((2, 1)), "emission": start}))


def test_a_prior_of_an_emission_is_one_number():
    own = FunctionEmission(
        lambda w: -0.5 * w["mean"] ** 2, lambda w, y: -0.5 * jnp.sum((y - w["mean"]) ** 2)
    )
    position = {"transition": jnp.zeros((2, 1)), "emission": {"mean": jnp.zeros((2, 3))}}
    with pytest.raises(TypeError, match="logprior must .*one floating number"):
        HiddenMarkov(2, own).logprior(position)


def test_a_first_state_that_is_known(x64):
    """The likelihood and its gradient are the limits of nearly sure ones."""
    position = hidden()[1]
    values, slopes = [], []
    for share in (1.0, 1 - 1e-9):
        model = hidden(initial=jnp.array([share, 1 - share]))[0]
        values.append(model.log_likelihood(position, ROWS))
        window = jax.tree.map(lambda x: x[0], Window(None).draw(KEY, (), ROWS)[0].items)
        slopes.append(jax.grad(model.window_loglik)(position, window))
    np.testing.assert_allclose(*values, rtol=1e-7)
    for one, other in zip(*map(jax.tree.leaves, slopes), strict=True):
        assert np.isfinite(one).all()
        np.testing.assert_allclose(one, other, atol=1e-5)
    for wrong in ([1.5, -0.5], [0.5, 0.4], [np.nan, 1.0]):
        with pytest.raises(ValueError, match="initial must be probabilities"):
            hidden(initial=jnp.array(wrong))


def test_degrees_of_freedom_of_the_noise_that_is_sampled():
    known = {"observation_noise": jnp.eye(5)}
    assert LinearGaussianStateSpace(1, 5, known=known).noise_prior[0] == 3
    with pytest.raises(ValueError, match="degrees of freedom above 4, got"):
        LinearGaussianStateSpace(1, 5)
    with pytest.raises(ValueError, match="scale must"):
        LinearGaussianStateSpace(1, 1, scale=jnp.ones(5))


def test_a_position_in_single_precision_takes_a_series_in_double(x64):
    single = lambda tree: jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), tree)
    model, position = hidden()
    np.testing.assert_allclose(
        model.log_likelihood(single(position), ROWS),
        model.log_likelihood(position, ROWS),
        rtol=1e-5,
    )
    assert model.most_likely(single(position), ROWS).shape == (40,)
    law = LinearGaussianStateSpace(1, 1, known={"observation": jnp.eye(1)})
    a, q, r = (jnp.full((1, 1), x) for x in (0.9, 0.5, 1.0))
    position = law.position(transition=a, state_noise=q, observation_noise=r)
    np.testing.assert_allclose(
        law.log_likelihood(single(position), ROWS[:, None]),
        law.log_likelihood(position, ROWS[:, None]),
        rtol=1e-5,
    )
    model = StochasticVolatility()
    position = single(model.position(mean=-1.0, persistence=0.95, scale=0.2))
    assert np.isfinite(model.log_likelihood(KEY, position, ROWS, 20))


class Column(NonlinearStateSpace):
    """States (num, 1) whose densities forget to sum over their axis."""

    def logprior(self, position):
        return jnp.zeros(())

    def draw_first(self, key, position, num):
        return jax.random.normal(key, (num, 1))

    def draw_next(self, key, position, before):
        return before + jax.random.normal(key, before.shape)

    def log_first(self, position, state):
        return jax.scipy.stats.norm.logpdf(state)

    def log_next(self, position, before, after):
        return jax.scipy.stats.norm.logpdf(after, before)

    def log_row(self, position, state, row):
        return jax.scipy.stats.norm.logpdf(row, state)


def test_densities_of_particles_are_numbers():
    """Else the weights of all would be of one particle each, and each 1."""
    with pytest.raises(TypeError, match="log_first must .*one floating number"):
        Column().log_likelihood(KEY, jnp.zeros(()), ROWS, 10)
