"""Models written in numpyro: their densities, their items, and their posteriors by its NUTS."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from sgmc_jax import (
    ControlVariate,
    Full,
    Minibatch,
    Uniform,
    ess,
    find_mode,
    from_numpyro,
    hmc,
    sample,
    sghmc,
    whiten,
)
from sgmc_jax.bijectors import Foreign

numpyro = pytest.importorskip("numpyro")
dist = numpyro.distributions
pytestmark = pytest.mark.runs_long

KEY = jax.random.key(5)
N = 12
X = jax.random.normal(jax.random.key(0), (N, 2))
ROW = X[:, 0]
Y = (X @ jnp.array([1.0, -2.0]) + jax.random.normal(jax.random.key(1), (N,)) > 0).astype(int)


def weights():
    return numpyro.sample("w", dist.Normal(0, 2).expand([2]).to_event(1))


def logistic(x, y=None):
    w = weights()
    with numpyro.plate("items", len(x)):
        numpyro.sample("y", dist.Bernoulli(logits=x @ w), obs=y)


def indexed(x, y):
    w = weights()
    with numpyro.plate("items", len(x), subsample_size=5) as index:
        numpyro.sample("y", dist.Bernoulli(logits=x[index] @ w), obs=y[index])


def of_a_size(size, x, y):
    w = weights()
    with numpyro.plate("items", size, subsample_size=5):
        x, y = numpyro.subsample(x, event_dim=1), numpyro.subsample(y, event_dim=0)
        numpyro.sample("y", dist.Bernoulli(logits=x @ w), obs=y)


def indexed_of_a_size(size, x, y):
    w = weights()
    with numpyro.plate("items", size, subsample_size=5) as index:
        numpyro.sample("y", dist.Bernoulli(logits=x[index] @ w), obs=y[index])


def without_plate(x, y):
    numpyro.sample("y", dist.Bernoulli(logits=x @ weights()), obs=y)


def plate_of_weights(x, y):
    with numpyro.plate("columns", 2):
        w = numpyro.sample("w", dist.Normal(0, 2))
    numpyro.sample("y", dist.Bernoulli(logits=x @ w), obs=y)


def scaled(x, y, scale):
    """Two observed sites, another plate around them, a scaled one, and a factor outside."""
    sigma = numpyro.sample("sigma", dist.HalfNormal(scale))
    p = numpyro.sample("p", dist.Dirichlet(jnp.ones(2)))
    numpyro.factor("pull", -(sigma**2))
    with numpyro.plate("items", len(x)):
        numpyro.sample("y", dist.Normal(x @ p, sigma), obs=y.astype(float))
        with numpyro.handlers.scale(scale=0.5), numpyro.plate("sides", 2, dim=-2):
            numpyro.sample("x", dist.StudentT(4.0, 0.0, sigma), obs=x.T)


SCHOOLS = (
    jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]),
    jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]),
)


def eight_schools(y, sd):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", 8):
        effect = numpyro.sample("effect", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mu + tau * effect, sd), obs=y)


# the model, its arguments, options, and the model and arguments whose whole density it has
CASES = {
    "plate": (logistic, (X, Y), {}, None),
    "subsample by index": (indexed, (X, Y), {}, logistic),
    "subsample of a size": (of_a_size, (N, X, Y), {}, logistic),
    "by index of a size": (indexed_of_a_size, (N, X, Y), {}, logistic),
    "axis": (without_plate, (X, Y), {"axis": -1}, None),
    "axis beside a plate": (plate_of_weights, (X, Y), {"axis": -1}, None),
    "no items": (without_plate, (X, Y), {}, None),
    "two sites": (scaled, (X, Y, 3.0), {"plate": "items"}, None),
    "eight schools": (eight_schools, SCHOOLS, {}, None),
}


def check_density(name):
    """The density is numpyro's, and its gradient that of the prior and all items together."""
    function, args, options, whole = CASES[name]
    model = from_numpyro(function, *args, **options)
    data, z = model.data(*args), model.start(KEY)
    potential = numpyro.infer.util.potential_energy
    theirs = lambda z: -potential(whole or function, (args[-2:] if whole else args), {}, z)
    value, gradient = jax.jit(jax.value_and_grad(theirs))(z)
    np.testing.assert_allclose(
        jax.jit(lambda z, data: model.logdensity(z, data))(z, data), value, rtol=2e-5
    )
    grad = Minibatch(model, Full())
    ours = jax.jit(lambda z, data: grad.estimate(KEY, grad.init(KEY, z, data), z, data)[0])(z, data)
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4), ours.value, gradient
    )


SLOW = (
    "two sites",
    "axis",
    "axis beside a plate",
    "subsample of a size",
    "subsample by index",
    "eight schools",
)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.full) if n in SLOW else n for n in CASES]
)
def test_the_density_is_that_of_numpyro(name):
    check_density(name)


@pytest.mark.full
def test_the_check_sees_a_jacobian_left_out(monkeypatch):
    monkeypatch.setattr(Foreign, "log_det", lambda self, z: jnp.zeros(()))
    with pytest.raises(AssertionError):
        check_density("two sites")


def test_a_batch_is_the_sum_of_its_items():
    model, z = from_numpyro(logistic, X, Y), {"w": jnp.array([0.3, -0.8])}
    data = model.data(X, Y)
    rows = jnp.array([3, 7, 7])
    items, weight = jax.tree.map(lambda x: x[rows], data), jnp.array([1.0, 2.0, 0.5])
    each = jax.jit(lambda z, data: model.per_item(z, data))(z, data)
    total = jax.jit(lambda *args: model.weighted_sum(*args).value)(z, items, weight)
    for name in z:
        np.testing.assert_allclose(
            total[name], jnp.tensordot(weight, each[name][rows], 1), rtol=1e-4, atol=1e-5
        )


@pytest.mark.full
def test_items_are_arguments_and_others_are_leaves():
    model = from_numpyro(scaled, X, Y, 3.0, plate="items")
    assert set(model.data(X, Y, 3.0)) == {"x", "y"}
    assert N not in {np.shape(leaf)[:1] for leaf in jax.tree.leaves(model)}
    assert any(leaf == 3.0 for leaf in jax.tree.leaves(model) if np.ndim(leaf) == 0)
    assert from_numpyro(eight_schools, *SCHOOLS).data(*SCHOOLS) is None


def test_the_predictive_has_the_probabilities_of_the_likelihood():
    """A share of 40,000 coins: 5.5 standard errors."""
    model = from_numpyro(logistic, X, Y)
    w = jnp.array([0.3, -0.8])
    trace = {"w": jnp.broadcast_to(w, (4, 10_000, 2))}
    drawn = model.predictive(KEY, trace, X[:3])["y"]
    assert drawn.shape == (4, 10_000, 3)
    p = jax.nn.sigmoid(X[:3] @ w)
    error = 5.5 * jnp.sqrt(p * (1 - p) / 40_000)
    assert np.all(np.abs(drawn.mean((0, 1)) - p) < error)


# ------------------------------------------------------------ wrong use


def told(x, y=None):
    w = weights()
    numpyro.deterministic("norm", w @ w)
    mean = numpyro.deterministic("mean", x @ w)
    numpyro.deterministic("average", jnp.mean(x @ w))
    with numpyro.plate("items", len(x)):
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def test_deterministic_sites_are_told_but_for_those_of_rows():
    model, draws = from_numpyro(told, X, X[:, 0]), jax.random.normal(KEY, (3, 4, 2))
    made = model.constrain({"w": draws})
    assert set(made) == {"w", "norm"}
    np.testing.assert_allclose(made["norm"], jnp.sum(draws**2, axis=-1), rtol=1e-6)
    np.testing.assert_array_equal(model.unconstrain(made)["w"], draws)
    assert model.constrain({"w": draws[0, 0]})["norm"].shape == ()
    rows = model.predictive(KEY, {"w": draws}, X[:5])
    assert {name: x.shape for name, x in rows.items() if name != "norm"} == {
        name: (3, 4, *shape) for name, shape in {"mean": (5,), "average": (), "y": (5,)}.items()
    }
    kernel = hmc(Minibatch(model, Full()), 0.05, 3)
    run = sample(KEY, kernel, model.start, model.data(X, X[:, 0]), num_steps=10)
    assert "norm" in run.summary(model).names and "norm" not in run.summary().names
    assert "norm" in run.to_arviz(model, model.data(X, X[:, 0])).posterior


def of_alike_rows(x, old, y=None):
    """What equal rows, or rows of zeros, do not tell."""
    w = numpyro.sample("w", dist.Normal(0, 1))
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    numpyro.deterministic("explained", jnp.var(w * x) / (jnp.var(w * x) + scale**2))
    numpyro.deterministic("of the old", jnp.mean(jnp.where(old, w, 0.0)))
    numpyro.deterministic("tiny", 1e-12 * jnp.mean(w * x))
    numpyro.deterministic("ratio", w / scale)
    with numpyro.plate("items", len(x)):
        numpyro.sample("y", dist.Normal(w * x, scale), obs=y)


def test_deterministic_sites_of_rows_are_found_by_the_rows_themselves():
    old = ROW > 0
    model = from_numpyro(of_alike_rows, ROW, old, ROW)
    position = {"w": jnp.array(2.0), "scale": jnp.array(-1.0)}
    made = model.constrain(position)
    assert set(made) == {"w", "scale", "ratio"}
    np.testing.assert_allclose(made["ratio"], 2.0 * jnp.exp(1.0), rtol=1e-6)
    rows = model.predictive(KEY, jax.tree.map(lambda x: x[None], position), ROW, old)
    assert 0.1 < rows["explained"][0] < 1
    # the draws of a run of numpyro's, as a start
    again = model.unconstrain({name: x[0] for name, x in rows.items() if name != "y"} | made)
    np.testing.assert_allclose(again["scale"], -1.0, rtol=1e-6)


def pooled(y, sd):
    """A scale that no row of zeros can have."""
    mu = numpyro.sample("mu", dist.Normal(0, 10))
    numpyro.deterministic("twice", 2 * mu)
    with numpyro.plate("studies", len(y)):
        numpyro.sample("y", dist.Normal(mu, sd), obs=y)


def shares(y, p):
    """Likewise a law of positive numbers, and rows that are probabilities."""
    rate = numpyro.sample("rate", dist.HalfCauchy(1.0))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Gamma(2.0, rate), obs=y)
        numpyro.sample("z", dist.Bernoulli(p), obs=(y > 1).astype(int))


def flat(y):
    """A prior without draws."""
    bounded = dist.constraints.interval(-50.0, 50.0)
    mu = numpyro.sample("mu", dist.ImproperUniform(bounded, (), ()))
    slope = numpyro.sample("slope", dist.ImproperUniform(dist.constraints.real, (), (2,)))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(mu + slope[0] * slope[1], 1.0), obs=y)


def two_dims(x, y):
    """The plate of the rows stands at another place beside another plate."""
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("rows", len(x)):
        numpyro.sample("x", dist.Normal(mu, 1), obs=x)
    with numpyro.plate("columns", 2), numpyro.plate("rows", len(x)):
        numpyro.sample("y", dist.Normal(mu, 1), obs=y)


DOORS = {
    "rows of scales": (pooled, SCHOOLS, {}),
    "rows of shares": (shares, (SCHOOLS[1], SCHOOLS[1] / 20), {}),
    "flat": (flat, (SCHOOLS[0],), {}),
    "two places": (two_dims, (ROW, X), {"plate": "rows"}),
}


@pytest.mark.parametrize("function, args, options", DOORS.values(), ids=DOORS)
def test_rows_and_priors_of_any_kind_have_the_density_of_numpyro(recwarn, function, args, options):
    model = from_numpyro(function, *args, **options)
    data, z = model.data(*args), model.start(KEY)
    theirs = -numpyro.infer.util.potential_energy(function, args, {}, z)
    np.testing.assert_allclose(model.logdensity(z, data), theirs, rtol=2e-5)
    data = jax.tree.map(jnp.asarray, data)
    each = model.loglik_batch(z, data)
    assert each.shape == (len(args[0]),)
    one = model.loglik_batch(z, jax.tree.map(lambda x: x[2:3], data))
    np.testing.assert_allclose(one, each[2:3], rtol=1e-5)
    assert model.constrain(z).keys() == model.forward(z).keys() | set(model.deterministic)
    assert not [str(w.message) for w in recwarn if "support" in str(w.message)]


def test_positions_have_the_sites_and_their_shapes():
    """A site of another name would take the place of a deterministic one of that name."""
    model = from_numpyro(told, X, ROW)
    kernel, data = hmc(Minibatch(model, Full()), 0.1), model.data(X, ROW)
    start = {"w": jnp.zeros(2), "mean": jnp.zeros(N)}
    with pytest.raises(ValueError, match=r"dict of the sites \['w'\], got \['mean', 'w'\]"):
        sample(KEY, kernel, start, data, num_steps=2)
    assert set(model.unconstrain(start)) == {"w"}
    with pytest.raises(ValueError, match=r"dict of the sites \['w'\], got \['v', 'w'\]"):
        model.unconstrain({"w": jnp.zeros(2), "v": jnp.zeros(2)})
    with pytest.raises(ValueError, match="dict of the sites .*, got ArrayImpl"):
        sample(KEY, kernel, jnp.zeros(2), data, num_steps=2)
    schools = from_numpyro(eight_schools, *SCHOOLS)
    common = {name: jnp.zeros(()) for name in ("mu", "tau", "effect")}  # one for all schools
    with pytest.raises(ValueError, match=r"a site 'effect' of shape \(8,\), got \(\)"):
        sample(KEY, hmc(Minibatch(schools, Full()), 0.1), common, None, num_steps=2)


def discrete(x):
    z = numpyro.sample("z", dist.Bernoulli(0.5))
    numpyro.sample("x", dist.Normal(z, 1), obs=x)


def two_plates(x):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("rows", x.shape[0], dim=-2), numpyro.plate("columns", x.shape[1]):
        numpyro.sample("x", dist.Normal(mu, 1), obs=x)


def local(x):
    with numpyro.plate("rows", len(x)):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        numpyro.sample("x", dist.Normal(mu, 1), obs=x)


def dependent_prior(x):
    mu = numpyro.sample("mu", dist.Normal(jnp.mean(x) + 4, 1))
    with numpyro.plate("rows", len(x)):
        numpyro.sample("x", dist.Normal(mu, 1), obs=x)


def scaled_prior(x):
    mu = numpyro.sample("mu", dist.Normal(0, jnp.std(x)))  # of blank rows none
    with numpyro.plate("rows", len(x)):
        numpyro.sample("x", dist.Normal(mu, 1), obs=x)


def dependent_items(x):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("rows", len(x)):
        numpyro.sample("x", dist.Normal(mu + jnp.mean(x), 1), obs=x)


def autoregression(x):
    phi = numpyro.sample("phi", dist.Normal(0, 1))
    with numpyro.plate("rows", len(x)):
        before = jnp.concatenate([jnp.zeros(1), x[:-1]])
        numpyro.sample("x", dist.Normal(phi * before, 1), obs=x)


def effects_by_place(x):
    effect = numpyro.sample("effect", dist.Normal(0, 1).expand([N]).to_event(1))
    with numpyro.plate("rows", len(x)) as index:
        numpyro.sample("x", dist.Normal(effect[index], 1), obs=x)


def moving_support(x):
    top = numpyro.sample("top", dist.HalfNormal(1))
    mu = numpyro.sample("mu", dist.Uniform(0, top))
    with numpyro.plate("rows", len(x)):
        numpyro.sample("x", dist.Normal(mu, 1), obs=x)


def with_param(x):
    numpyro.sample("mu", dist.Normal(numpyro.param("m", 0.0), 1))


def captured():
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("rows", N):
        numpyro.sample("x", dist.Normal(mu, 1), obs=X[:, 0])


def captured_along():
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    numpyro.sample("x", dist.Normal(mu, jnp.ones(N)), obs=X[:, 0])


def drowned_prior(x):
    """28 nats of 28,000."""
    numpyro.sample("weights", dist.Normal(0, 1).expand([20_000]).to_event(1))
    dependent_prior(x)


def on_a_sphere(x):
    direction = numpyro.sample("direction", dist.ProjectedNormal(jnp.ones(3)))
    with numpyro.plate("rows", len(x)):
        numpyro.sample("x", dist.Normal(direction[0], 1), obs=x)


class Own(type(dist.constraints.real)):
    """A support of one's own, for which numpyro has no bijection."""


def of_an_own_support(x):
    mu = numpyro.sample("mu", dist.ImproperUniform(Own(), (), ()))
    with numpyro.plate("rows", len(x)):
        numpyro.sample("x", dist.Normal(mu, 1), obs=x)


WRONG = {
    "discrete": (discrete, (1.0,), {}, "no discrete latent sites, got 'z'"),
    "two plates": (two_plates, (X,), {}, "one plate over items, got .*: choose by plate="),
    "latents inside": (local, (ROW,), {"plate": "rows"}, "but 'rows' has latent sites"),
    "no such plate": (local, (ROW,), {"plate": "row"}, "but 'row' has no observed site"),
    "prior": (dependent_prior, (ROW,), {}, "prior that does not depend on the rows of x"),
    "of many": (drowned_prior, (ROW,), {}, "prior that does not depend on the rows of x"),
    # numpyro itself refuses a scale of 0 where it validates arguments
    "its scale": (scaled_prior, (ROW,), {}, "prior that does not depend on the rows|invalid scale"),
    "items": (dependent_items, (ROW,), {}, "does not depend on other items"),
    "a series": (autoregression, (ROW,), {}, "does not depend on other items"),
    "places": (effects_by_place, (ROW,), {}, "nor on its place among them"),
    "support": (moving_support, (ROW,), {}, "supports that do not depend on other sites.*'mu'"),
    "sphere": (on_a_sphere, (ROW,), {}, "spherical sample site 'direction'"),
    "no bijection": (of_an_own_support, (ROW,), {}, "that numpyro can map.* site 'mu'"),
    "param": (with_param, (ROW,), {}, "no param sites, got 'm'"),
    "captured": (captured, (), {}, "array with a row for each of the 12 items of rows"),
    "captured along an axis": (captured_along, (), {"axis": 0}, "of the 12 items of x, got none"),
    "axis": (without_plate, (X, Y), {"axis": 1}, "axis must be a batch axis of one length"),
}


@pytest.mark.parametrize("function, args, options, message", WRONG.values(), ids=WRONG)
def test_models_that_cannot_be_are_named(function, args, options, message):
    with pytest.raises(ValueError, match=message):
        from_numpyro(function, *args, **options)


def test_wrong_data_is_named():
    model = from_numpyro(logistic, X, Y)
    kernel = hmc(Minibatch(model, Full()), 0.1)
    with pytest.raises(TypeError, match="data must be a dict of x, y"):
        sample(KEY, kernel, model.start, (X, Y), num_steps=2)
    with pytest.raises(ValueError, match="y must be given"):
        model.data(X)
    with pytest.raises(TypeError, match="model must be a function, got int"):
        from_numpyro(3, X)  # type: ignore[arg-type]


def test_without_numpyro_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpyro", None)
    with pytest.raises(ImportError, match=r"sgmc_jax\[numpyro\]"):
        from_numpyro(logistic, X, Y)


# ------------------------------------------------------------ posteriors


def nuts(function, args):
    """Draws by numpyro: (chain, draw, ...) by site."""
    engine = numpyro.infer.NUTS(function, target_accept_prob=0.9)
    chains = numpyro.infer.MCMC(
        engine,
        num_warmup=1_000,
        num_samples=2_000,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    chains.run(jax.random.key(11), *args)
    return chains.get_samples(group_by_chain=True)


def mean_and_error(draws):
    """The posterior mean, and its Monte Carlo error."""
    size = jnp.maximum(ess(draws), 1.0)
    return np.asarray(draws.mean((0, 1))), np.asarray(draws.std((0, 1)) / jnp.sqrt(size))


def check_means(ours, theirs, sites):
    for name in sites:
        (mean, error), (other, others) = map(mean_and_error, (ours[name], theirs[name]))
        error = np.sqrt(error**2 + others**2) + 1e-6  # constants of a triangle have none
        # of chains that hardly move it would be any
        assert np.all(error < 0.1 * np.asarray(theirs[name].std((0, 1))) + 2e-6), (name, error)
        gap = np.abs(mean - other) / error
        assert np.all(gap < 4), (name, gap)


def check_schools(y, sd):
    """As by NUTS, which has the data."""
    model = from_numpyro(eight_schools, y, sd)
    args = {"num_steps": 11_000, "num_chains": 8, "burn_in": 1_000}
    run = sample(KEY, hmc(Minibatch(model, Full()), 0.2, 8), model.start, None, **args)
    draws, theirs = model.constrain(run.trace), nuts(eight_schools, SCHOOLS)
    check_means(draws, theirs, ["mu", "tau", "effect"])


@pytest.mark.full
def test_eight_schools_as_by_nuts():
    check_schools(*SCHOOLS)


@pytest.mark.full
def test_schools_a_little_better_are_seen():
    """By a point, a third of the posterior standard deviation of mu."""
    with pytest.raises(AssertionError, match="mu"):
        check_schools(SCHOOLS[0] + 1.0, SCHOOLS[1])


def correlated(y):
    scale = numpyro.sample("scale", dist.HalfNormal(2).expand([3]).to_event(1))
    factor = numpyro.sample("factor", dist.LKJCholesky(3, 2.0))
    with numpyro.plate("items", len(y)):
        law = dist.MultivariateNormal(0.0, scale_tril=scale[:, None] * factor)
        numpyro.sample("y", law, obs=y)


def two_normals(y):
    share = numpyro.sample("share", dist.Dirichlet(jnp.full(2, 2.0)))
    ordered = dist.transforms.OrderedTransform()
    law = dist.TransformedDistribution(dist.Normal(0, 3).expand([2]).to_event(1), ordered)
    mean = numpyro.sample("mean", law)
    with numpyro.plate("items", len(y)):
        each = dist.Normal(mean, 1.0)
        numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(share), each), obs=y)


def zero_inflated(x, y):
    gate = numpyro.sample("gate", dist.Beta(2, 2))
    rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
    slope = numpyro.sample("slope", dist.Uniform(-1, 1))
    with numpyro.plate("items", len(x)):
        law = dist.ZeroInflatedPoisson(gate, rate * jnp.exp(slope * x))
        numpyro.sample("y", law, obs=y)


def heavy_tails(x, y):
    slope = numpyro.sample("slope", dist.Normal(0, 2).expand([3]).to_event(1))
    scale = numpyro.sample("scale", dist.HalfCauchy(1.0))
    with numpyro.plate("items", len(x)):
        numpyro.sample("y", dist.StudentT(4.0, x @ slope, scale), obs=y)


def simulated(name):
    """A model, and data of it."""
    rng = np.random.default_rng(4)
    x, size = rng.normal(size=(2_000, 3)).astype(np.float32), 2_000
    if name == "logistic":
        x = x[:, :2] * np.array([1.0, 0.3], np.float32)
        y = x @ np.array([1.0, -2.0]) + rng.logistic(size=size) > 0
        return logistic, (x, y.astype(int))
    if name == "correlated":
        root = np.linalg.cholesky([[1.0, 0.5, 0.2], [0.5, 2.0, -0.4], [0.2, -0.4, 0.5]])
        return correlated, (x @ root.T.astype(np.float32),)
    if name == "two normals":
        return two_normals, (x[:, 0] + np.where(rng.random(size) < 0.3, -2.0, 1.5),)
    if name == "heavy tails":
        noise = 0.7 * rng.standard_t(4, size=size)
        return heavy_tails, (x, (x @ np.array([1.0, -1.0, 0.5]) + noise).astype(np.float32))
    rate = np.where(rng.random(size) < 0.2, 0, 2 * np.exp(0.4 * x[:, 0]))
    return zero_inflated, (x[:, 0], rng.poisson(rate))


@pytest.mark.full
@pytest.mark.at_length
@pytest.mark.runs_long
@pytest.mark.parametrize(
    "name", ["logistic", "correlated", "two normals", "zero inflated", "heavy tails"]
)
def test_posteriors_are_those_of_nuts(name):
    function, args = simulated(name)
    args = jax.tree.map(jnp.asarray, args)
    model = from_numpyro(function, *args)
    data, theirs = model.data(*args), nuts(function, args)
    mode = find_mode(KEY, model, model.start(KEY), data)
    space = whiten(model, mode, data)
    steps = {"num_steps": 3_000, "num_chains": 4, "burn_in": 200}
    run = sample(KEY, hmc(Minibatch(model, Full()), 0.5, 3, space=space), mode, data, **steps)
    check_means(model.constrain(run.trace), theirs, theirs)
    grad = ControlVariate(Minibatch(model, Uniform(100)), mode)
    run = sample(KEY, sghmc(grad, 0.3, space=space), mode, data, **steps | {"num_steps": 6_000})
    for site, draws in model.constrain(run.trace).items():
        mean, sd = theirs[site].mean((0, 1)), theirs[site].std((0, 1))
        gap = np.abs(draws.mean((0, 1)) - mean)
        assert np.all(gap < 0.1 * sd + 1e-6), (site, gap / sd)


def test_other_plates_have_all_of_their_rows():
    """A plate that takes a subset of its own had one and the same for ever."""
    import numpyro
    import numpyro.distributions as dist

    def model(x, z):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        with numpyro.plate("rows", len(x)):
            numpyro.sample("x", dist.Normal(mu, 1), obs=x)
        with numpyro.plate("others", len(z), subsample_size=5) as i:
            numpyro.sample("z", dist.Normal(mu, 1), obs=z[i])

    x, z = np.arange(4.0), np.linspace(-3, 8, 50)
    made, mu = from_numpyro(model, x, z, plate="rows"), 0.4
    wanted = norm.logpdf(mu) + norm.logpdf(x, mu).sum() + norm.logpdf(z, mu).sum()
    found = made.logdensity({"mu": jnp.array(mu)}, made.data(x, z))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
