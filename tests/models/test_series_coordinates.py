"""Parameters of series models in the user's coordinates, of one position and of a run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import Minibatch, Window, sample, sgld
from sgmc_jax import models as m

KEY, LEAD = jax.random.key(7), (2, 5)  # chains and draws
K, D = 3, 2


def hidden(emission, **shapes):
    """A hidden Markov model of three states and positions with leading axes."""
    parameters = {
        name: jax.random.normal(jax.random.fold_in(KEY, i), (*LEAD, K, *shape))
        for i, (name, shape) in enumerate(shapes.items())
    }
    logits = jax.random.normal(KEY, (*LEAD, K, K - 1))
    return m.HiddenMarkov(K, emission), {"transition": logits, "emission": parameters}


def linear(known):
    names = {"transition": (D, D), "state_noise": (3,), "observation": (1, D)}
    names |= {"observation_noise": (1,)}
    keys = jax.random.split(KEY, len(names))
    position = {
        name: 0.4 * jax.random.normal(key, (*LEAD, *shape))
        for key, (name, shape) in zip(keys, names.items())
        if name not in known
    }
    return m.LinearGaussianStateSpace(D, 1, known=known), position


def volatile():
    keys = jax.random.split(KEY, 3)
    names = ("mean", "persistence", "log_scale")
    return m.StochasticVolatility(), {n: jax.random.normal(k, LEAD) for n, k in zip(names, keys)}


MODELS = {
    "normal": lambda: hidden(m.NormalEmission(), mean=(2,), log_scale=(2,)),
    "counts": lambda: hidden(m.PoissonEmission(), log_rate=()),
    "symbols": lambda: hidden(m.CategoricalEmission(4), logits=(3,)),
    "function": lambda: hidden(m.FunctionEmission(lambda w: 0.0, lambda w, y: 0.0), any=(2,)),
    "linear": lambda: linear({}),
    "known": lambda: linear({"observation": jnp.ones((1, D)), "state_noise": jnp.eye(D)}),
    "volatile": volatile,
}
at = lambda tree, *index: jax.tree.map(lambda x: x[index], tree)
close = lambda a, b: jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 3e-5, 3e-5), a, b)


@pytest.mark.parametrize("name", MODELS)
def test_there_and_back_with_any_leading_axes(name):
    model, draws = MODELS[name]()
    told = model.constrain(draws)
    close(model.unconstrain(told), draws)
    close(model.constrain(at(draws, 1, 3)), at(told, 1, 3))
    close(model.unconstrain(at(told, 1, 3)), at(draws, 1, 3))
    on_host = model.constrain(jax.tree.map(np.asarray, draws))
    close(on_host, told)


@pytest.mark.parametrize("name", ["normal", "counts", "symbols", "function"])
def test_chains_and_what_they_emit(name):
    model, draws = MODELS[name]()
    told, one = model.constrain(draws), at(draws, 0, 2)
    np.testing.assert_allclose(told["transition"].sum(-1), np.ones((*LEAD, K)), rtol=1e-6)
    np.testing.assert_allclose(told["transition"][0, 2], model.transition_matrix(one), rtol=1e-6)
    close(model.position(told["transition"][0, 2], one["emission"]), one)
    given, emission = draws["emission"], told["emission"]
    if name == "normal":
        close(emission, {"mean": given["mean"], "scale": np.exp(given["log_scale"])})
    if name == "counts":
        close(emission, {"rate": np.exp(given["log_rate"])})
    if name == "symbols":
        each = model.emission.log_probabilities(at(one["emission"], 1))
        np.testing.assert_allclose(emission["probabilities"][0, 2, 1], np.exp(each), rtol=1e-5)


@pytest.mark.parametrize("name", ["linear", "known"])
def test_matrices_but_those_that_are_known(name):
    model, draws = MODELS[name]()
    told, one = model.constrain(draws), at(draws, 1, 4)
    assert set(told) == set(draws)
    close(model.matrices(one), dict(model.known) | at(told, 1, 4))
    close(model.position(**at(told, 1, 4)), one)


def test_volatility():
    model, draws = volatile()
    told = model.constrain(draws)
    np.testing.assert_allclose(told["persistence"], np.tanh(draws["persistence"]), rtol=1e-6)
    close(model.natural(draws), told)
    close(model.position(**at(told, 0, 0)), at(draws, 0, 0))


def of_a_chain():
    model = m.HiddenMarkov(2, m.NormalEmission())
    emission = {"mean": jnp.array([-1.0, 1.0]), "log_scale": jnp.zeros(2)}
    start = model.position(jnp.array([[0.9, 0.1], [0.2, 0.8]]), emission)
    return model, Minibatch(model, Window(None)), start, "emission.scale[0]"


def of_normal_states():
    model, one = m.LinearGaussianStateSpace(1, 1, known={"observation": jnp.eye(1)}), 0.5
    matrices = ("transition", "state_noise", "observation_noise")
    start = model.position(**{name: one * jnp.eye(1) for name in matrices})
    return model, Minibatch(model, Window(None)), start, "state_noise[0, 0]"


def of_volatility():
    model = m.StochasticVolatility()
    start = model.position(mean=0.0, persistence=0.9, scale=0.2)
    return model, model.gradients(Window(None), 8), start, "scale"


full = pytest.mark.full


@pytest.mark.parametrize(
    "make", [of_volatility, *(pytest.param(f, marks=full) for f in (of_a_chain, of_normal_states))]
)
def test_runs_report_parameters_and_say_where_they_do_not(make):
    model, grad, start, name = make()
    kernel = sgld(grad, 1e-5)
    run = sample(KEY, kernel, start, jnp.sin(jnp.arange(12.0)), num_steps=6, num_chains=3)
    assert run.unconstrained
    table, leaves = run.summary(model), jax.tree.leaves(model.constrain(start))
    assert name in table.names
    assert len(table.names) == sum(x.size for x in leaves)
    # steps are small: the mean is near where the chains began, in the user's coordinates
    found, wanted = np.sort(table.columns["mean"]), np.sort(np.concatenate(leaves, axis=None))
    np.testing.assert_allclose(found, wanted, atol=0.05)
    assert not any("unconstrained" in remark for remark in table.remarks)
    assert "summary(model) tells the parameters" in run.summary().remarks[0]
    pytest.importorskip("arviz_base")
    with pytest.warns(UserWarning, match="tells the parameters"):
        run.to_arviz()
    assert name.split("[")[0] in run.to_arviz(model).posterior


def spoilt(name, **changes):
    model, draws = MODELS[name]()
    return lambda: model.unconstrain(model.constrain(draws) | changes)


WRONG = {
    "no probabilities": (spoilt("counts", transition=np.ones((K, K))), "positive and sum to one"),
    "another size": (spoilt("counts", transition=np.full((2, 2), 0.5)), "must end in the shape"),
    "no rate": (spoilt("counts", emission={"rate": -np.ones(K)}), "rate must be"),
    "no scale": (
        spoilt("normal", emission={"mean": np.ones(K), "scale": -np.ones(K)}),
        "scale must be",
    ),
    "no symbols": (
        spoilt("symbols", emission={"probabilities": np.ones((K, 4))}),
        "probabilities must be positive and sum to one",
    ),
    "no covariance": (spoilt("linear", state_noise=-np.eye(D)), "must be positive definite"),
    "not symmetric": (spoilt("linear", state_noise=np.eye(D) + np.eye(D, k=1)), "symmetric"),
    "what is known": (spoilt("known", observation=np.ones((1, D))), "must be made of"),
    "no persistence": (spoilt("volatile", persistence=2.0), "persistence must be between -1 and 1"),
    "no deviation": (spoilt("volatile", scale=0.0), "scale must be"),
    "other names": (spoilt("volatile", log_scale=0.0), 'must be a dict of "mean"'),
}


@pytest.mark.parametrize("call, message", WRONG.values(), ids=WRONG)
def test_what_no_position_stands_for_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_draws_of_another_shape_are_refused():
    model, draws = MODELS["counts"]()
    with pytest.raises(ValueError, match="must end in the shape"):
        model.constrain(draws | {"transition": jnp.zeros((4, K, K))})
    with pytest.raises(ValueError, match="must be a dict"):
        model.constrain(draws["transition"])


def test_a_series_alone_has_no_density_of_stochastic_volatility():
    model = m.StochasticVolatility()
    position = model.position(mean=-1.0, persistence=0.9, scale=0.2)
    with pytest.raises(TypeError, match="no density in closed form, `log_likelihood` estimates it"):
        model.logdensity(position, jnp.ones(5))
