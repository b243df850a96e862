"""What ArviZ is given: names, coordinates, densities and further groups."""

import sys
import warnings
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import (
    Full,
    FunctionModel,
    Minibatch,
    Transformed,
    Window,
    cycle,
    hmc,
    inference_data,
    repeat,
    sample,
)
from sgmc_jax.models import HiddenMarkov, PoissonEmission

pytest.importorskip("arviz_base")
KEY, DATA = jax.random.key(0), jnp.linspace(-1.0, 2.0, 5)
NORMAL = FunctionModel(
    lambda x: -0.5 * x["mean"] ** 2 - x["scale"],
    lambda x, y: -0.5 * ((y - x["mean"]) / x["scale"]) ** 2 - jnp.log(x["scale"]),
)
MODEL = Transformed(NORMAL, {"scale": "positive"})
START = MODEL.unconstrain({"mean": jnp.array(0.5), "scale": jnp.array(1.0)})
GRAD = Minibatch(MODEL, Full())


def run(kernel=hmc(GRAD, 0.3), **args):
    args = {"num_steps": 6, "num_chains": 2} | args
    return sample(KEY, kernel, START, DATA, **args)


def test_draws_densities_and_statistics_have_their_names():
    made = run()
    tree = made.to_arviz(MODEL, DATA)
    positive = np.exp(made.trace["scale"])
    np.testing.assert_allclose(tree.posterior["scale"], positive, rtol=1e-6)
    likelihood = -0.5 * ((DATA - made.trace["mean"][..., None]) / positive[..., None]) ** 2
    likelihood -= np.log(positive)[..., None]
    np.testing.assert_allclose(tree.log_likelihood["items"], likelihood, rtol=1e-4, atol=1e-6)
    prior = -0.5 * made.trace["mean"] ** 2 - positive + made.trace["scale"]
    np.testing.assert_allclose(tree.sample_stats["lp"], prior + likelihood.sum(-1), rtol=1e-5)
    assert {"acceptance_rate", "diverging", "finite"} <= set(tree.sample_stats.data_vars)
    assert not tree.sample_stats["diverging"].any()


def exact_loo():
    """The sum of log p(y_i | the others), by quadrature over mean and scale."""
    mean, scale = np.meshgrid(np.linspace(-5, 5, 401), np.linspace(0.02, 12, 400))
    y = np.asarray(DATA, np.float64)[:, None, None]
    loglik = -0.5 * ((y - mean) / scale) ** 2 - np.log(scale)
    prior = -0.5 * mean**2 - scale
    rest = prior + loglik.sum(0) - loglik
    return np.sum(np.log(np.exp(rest + loglik).sum((1, 2)) / np.exp(rest).sum((1, 2))))


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:Estimated shape parameter")
def test_loo_by_arviz_is_that_of_a_quadrature():
    arviz = pytest.importorskip("arviz_stats")
    tree = run(num_steps=1_200, burn_in=200, num_chains=4).to_arviz(MODEL, DATA)
    assert abs(arviz.loo(tree).elpd - exact_loo()) < 0.15


def test_a_step_that_explodes_diverges():
    for thin in (1, 3):
        tree = run(hmc(GRAD, 30.0, 2), thin=thin).to_arviz()
        assert tree.sample_stats["diverging"].all()
    stats = run(cycle(hmc(GRAD, 30.0, 2), repeat(hmc(GRAD, 0.1), 3))).to_arviz().sample_stats
    assert stats["diverging"].all() and stats["diverging"].ndim == 2
    stats = run(cycle(hmc(GRAD, 30.0, 2), hmc(GRAD, 0.1))).to_arviz().sample_stats
    assert stats["diverging"].all() and {f"kernels.{i}.acceptance_rate" for i in (0, 1)} <= set(
        stats
    )


def test_one_of_several_steps_that_explodes_is_enough():
    errors = np.array([[[0.1, 2e3, 0.3], [0.2, 0.1, 999.0]]])  # chain, draw, and the step in it
    found = inference_data._statistics({"kernel.energy_error": errors}, 2)["diverging"]
    np.testing.assert_array_equal(found, [[True, False]])


def test_a_run_without_draws_has_groups_without_any():
    """As one that was interrupted in its burn-in."""
    model = FunctionModel(lambda x: -0.5 * x @ x, lambda x, y: -0.5 * jnp.sum((x - y) ** 2))
    kernel, y = hmc(Minibatch(model, Full()), 0.3, 3), jnp.zeros((5, 2))
    args = {"num_steps": 4, "thin": 9, "num_chains": 2, "position_axis": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = sample(jax.random.key(0), kernel, jnp.zeros(2), y, **args).to_arviz(model, y)
    assert made.posterior["x"].shape == (2, 0, 2)
    assert made.log_likelihood["items"].shape == (2, 0, 5)
    assert made.sample_stats["diverging"].shape == made.sample_stats["lp"].shape == (2, 0)


def test_coordinates_and_further_groups():
    made = run(record=lambda state, info: {"w": jnp.zeros(3)})
    names = {"coords": {"side": ["a", "b", "c"]}, "dims": {"w": ["side"], "y": ["item"]}}
    new = {"posterior_predictive": {"y": np.zeros((2, 6, 5))}, "observed_data": {"y": DATA}}
    tree = made.to_arviz(**names, **new)
    assert tree.posterior["w"].dims == ("chain", "draw", "side")
    assert list(tree.posterior["side"].values) == ["a", "b", "c"]
    assert tree.posterior_predictive["y"].dims == ("chain", "draw", "item")
    assert tree.observed_data["y"].dims == ("item",)


def test_kernels_are_a_dimension_of_all_but_the_data():
    kernels = eqx.filter_vmap(lambda h: hmc(GRAD, h))(jnp.array([0.1, 0.2, 0.3]))
    made = run(kernels, kernel_axis=0)
    groups = {"observed_data": {"y": DATA}, "posterior_predictive": {"y": np.ones((3, 2, 6, 5))}}
    tree = made.to_arviz(MODEL, DATA, dims={"items": ["item"], "y": ["item"]}, **groups)
    assert tree.log_likelihood["items"].dims == ("chain", "draw", "kernel", "item")
    assert tree.sample_stats["lp"].dims == ("chain", "draw", "kernel")
    assert tree.posterior_predictive["y"].dims == ("chain", "draw", "kernel", "item")
    assert tree.observed_data["y"].dims == ("item",) and tree.observed_data["y"].shape == (5,)


def test_a_group_has_names():
    with pytest.raises(TypeError, match="observed_data must be a dict of arrays by name, got"):
        run(num_steps=4).to_arviz(observed_data=DATA)


def test_data_need_a_model():
    with pytest.raises(ValueError, match="model must be given with data"):
        run().to_arviz(data=DATA)


def test_an_arviz_before_the_first(monkeypatch):
    """It takes groups by keyword; seen with 0.23, whose `summary` and `loo` read them."""
    monkeypatch.setitem(sys.modules, "arviz_base", None)
    monkeypatch.setitem(sys.modules, "arviz", SimpleNamespace(from_dict=lambda **made: made))
    made = run().to_arviz(dims={"mean": ["side"]}, observed_data={"y": np.ones(3)})
    assert made["posterior"]["mean"].shape == (2, 6) and made["observed_data"]["y"].shape == (3,)
    assert made["coords"] == {} and made["dims"] == {"mean": ["side"]}


def test_without_arviz_the_message_says_what_to_install(monkeypatch):
    for name in ("arviz_base", "arviz"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="pip install"):
        run().to_arviz()


def test_a_series_has_no_likelihood_of_items():
    model, series = HiddenMarkov(2, PoissonEmission()), np.arange(20) // 10
    start = {"transition": jnp.zeros((2, 1)), "emission": {"log_rate": jnp.array([0.0, 0.5])}}
    kernel = hmc(Minibatch(model, Window(None)), 1e-3, 2)
    args = {"num_steps": 3, "num_chains": 2, "position_axis": None}
    made = sample(KEY, kernel, start, series, **args)
    tree = made.to_arviz(model, series)
    assert "log_likelihood" not in tree.children
    lp = model.logdensity(jax.tree.map(lambda x: x[1, 2], made.trace), series)
    np.testing.assert_allclose(tree.sample_stats["lp"][1, 2], lp, rtol=1e-5)
