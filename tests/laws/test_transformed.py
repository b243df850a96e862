"""Models in unconstrained coordinates: Jacobians, chain rules, laws of constrained draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma

from sgmc_jax import (
    ControlVariate,
    Full,
    FunctionModel,
    LinearModel,
    Minibatch,
    Transformed,
    Uniform,
    bijectors,
    hmc,
    sample,
    sgld,
)
from tests.laws.moments import check_law, fault_is_seen, run_law

KEY = jax.random.key(16)
BELOW, ON_AND_BELOW = np.tril_indices(3, -1), np.tril_indices(3)
NUMBERS = {
    "real": (4, lambda x: x),
    "positive": (4, lambda x: x),
    "unit_interval": (4, lambda x: x),
    "interval(-1.5, 3)": (4, lambda x: x),
    "greater_than(2.5)": (4, lambda x: x),
    "less_than(-1)": (4, lambda x: x),
    "simplex": (4, lambda x: x[:-1]),
    "ordered": (4, lambda x: x),
    "correlation": (3, lambda x: x[BELOW]),
    "correlation_cholesky": (3, lambda x: x[BELOW]),
    "covariance": (6, lambda x: x[ON_AND_BELOW]),
}
THEIRS = {
    "positive": "positive",
    "unit_interval": "unit_interval",
    "simplex": "simplex",
    "ordered": "ordered_vector",
    "correlation": "corr_matrix",
    "correlation_cholesky": "corr_cholesky",
    "covariance": "positive_definite",
}


def of(name):
    return bijectors.as_bijector("constraints", name)


def check_jacobian(bijector, size, free):
    """At ten points, against the Jacobian by forward differentiation."""

    def both(z):
        jacobian = jax.jacfwd(lambda z: free(bijector.forward(z)))(z)
        return bijector.log_det(z), jnp.linalg.slogdet(jacobian)[1]

    closed, by_differentiation = jax.jit(jax.vmap(both))(1.5 * jax.random.normal(KEY, (10, size)))
    np.testing.assert_allclose(closed, by_differentiation, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", NUMBERS)
def test_jacobians_are_those_of_differentiation(name, x64):
    check_jacobian(of(name), *NUMBERS[name])


def test_the_check_sees_a_weight_that_is_off_by_one(x64, monkeypatch):
    right = bijectors.Covariance.log_det
    wrong = lambda self, z: right(self, z) - jnp.sum(z[..., -3:])
    monkeypatch.setattr(bijectors.Covariance, "log_det", wrong)
    with pytest.raises(AssertionError):
        check_jacobian(of("covariance"), *NUMBERS["covariance"])


@pytest.mark.parametrize("name", NUMBERS)
def test_there_and_back_along_leading_axes(name, x64):
    z = jax.random.normal(KEY, (2, 5, NUMBERS[name][0]))

    @jax.jit
    def everything(z):
        x, bijector = of(name).forward(z), of(name)
        each = jax.vmap(jax.vmap(bijector.log_det))(z)
        one = bijector.forward(z[1, 3])
        return (bijector.inverse(x), z), (x[1, 3], one), (bijector.log_det(z), each.sum())

    for here, there in everything(z):
        np.testing.assert_allclose(here, there, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", THEIRS)
def test_names_are_the_bijections_of_numpyro(name, x64):
    numpyro = pytest.importorskip("numpyro.distributions")
    theirs = of(getattr(numpyro.constraints, THEIRS[name]))

    @jax.jit
    def everything(z):
        x = theirs.forward(z)
        logs = of(name).log_det(z), theirs.log_det(z)
        return (of(name).forward(z), x), logs, (theirs.inverse(x), z)

    for ours, other in everything(jax.random.normal(KEY, (NUMBERS[name][0],))):
        np.testing.assert_allclose(ours, other, rtol=1e-8, atol=1e-10)


def test_far_from_the_origin_nothing_overflows():
    @jax.jit
    def slopes():
        sign = lambda size: 20.0 * jnp.sign(jax.random.normal(KEY, (size,)))
        return {
            name: jax.value_and_grad(of(name).log_det)(sign(size))
            for name, (size, _) in NUMBERS.items()
        }

    for name, found in slopes().items():
        assert all(np.all(np.isfinite(x)) for x in found), name


@pytest.mark.parametrize("z", [-200.0, 200.0])
def test_in_float32_no_number_is_rounded_to_its_bound(z):
    at = lambda name: float(of(name).forward(jnp.float32(z)))
    assert 2.5 < at("greater_than(2.5)") and at("less_than(-1)") < -1
    assert -1.5 < at("interval(-1.5, 3)") < 3 and 0 < at("unit_interval") < 1 and 0 < at("positive")


def test_correlations_near_one_in_float32():
    """Where cosh itself overflows."""
    log_det = of("correlation").log_det(jnp.full(3, 200.0, jnp.float32))
    np.testing.assert_allclose(log_det, -8 * (200 - np.log(2)), rtol=1e-5)


def test_small_shares_keep_their_digits_in_float32():
    z = jnp.array([20.0, 1.0, -1.0], jnp.float32)
    bijector = of("simplex")
    np.testing.assert_allclose(bijector.inverse(bijector.forward(z)), z, rtol=1e-5)


# ------------------------------------------------------------ the law of the user's coordinates

ALPHA, SCALE = jnp.array([2.0, 3.0, 4.0]), jnp.array([[1.0, 0.5], [0.5, 2.0]])
SHAPE, FREEDOM = 3.0, 6.0


def wishart(s):
    inverse = jnp.linalg.inv(SCALE)
    return 0.5 * (FREEDOM - 3) * jnp.linalg.slogdet(s)[1] - 0.5 * jnp.sum(inverse * s)


LOG_DENSITIES = {
    "gamma": lambda x: (SHAPE - 1) * jnp.log(x) - x,
    "shifted": lambda x: (SHAPE - 1) * jnp.log(x - 3) - x,
    "turned": lambda x: (SHAPE - 1) * jnp.log(-x) + x,
    "beta": lambda x: jnp.log(x + 1) + 2 * jnp.log(3 - x),  # Beta(2, 3) on (-1, 3)
    "dirichlet": lambda p: jnp.sum((ALPHA - 1) * jnp.log(p)),
    "ordered": lambda x: -0.5 * jnp.sum(x**2),
    "lkj": lambda r: jnp.linalg.slogdet(r)[1],  # LKJ(2)
    "wishart": wishart,
}
CONSTRAINTS = {
    "gamma": "positive",
    "shifted": "greater_than(3)",
    "turned": "less_than(0)",
    "beta": "interval(-1, 3)",
    "dirichlet": "simplex",
    "ordered": "ordered",
    "lkj": "correlation",
    "wishart": "covariance",
}
POINT = {
    "gamma": jnp.array(2.0),
    "shifted": jnp.array(5.0),
    "turned": jnp.array(-2.0),
    "beta": jnp.array(0.5),
    "dirichlet": ALPHA / 9,
    "ordered": jnp.array([-1.0, 0.0, 1.0]),
    "lkj": jnp.eye(3),
    "wishart": FREEDOM * SCALE,
}
# moments, and means of logarithms, which tell most where the density is small
EXPECTED = {
    "gamma": [SHAPE, digamma(SHAPE)],
    "shifted": [SHAPE + 3, digamma(SHAPE)],
    "turned": [-SHAPE, digamma(SHAPE)],
    "beta": [4 * 0.4 - 1, 16 * 0.2 - 8 * 0.4 + 1],  # 4 b - 1, b ~ Beta(2, 3)
    "dirichlet": [2 / 9, 3 / 9, 2 * 3 / 90, 4 * 5 / 90],
    "ordered": [-1.5 / np.sqrt(np.pi), 0.0, 1.5 / np.sqrt(np.pi)],
    "lkj": [0.0, 1 / 6, 1 / 6, 1 / 6],  # 2 Beta(a, a) - 1, a = eta - 1 + d / 2 = 2.5
    "wishart": [6.0, 3.0, 12.0],
}


MOMENTS = {
    "gamma": lambda x: jnp.stack([x, jnp.log(x)]),
    "shifted": lambda x: jnp.stack([x, jnp.log(x - 3)]),
    "turned": lambda x: jnp.stack([x, jnp.log(-x)]),
    "beta": lambda x: jnp.stack([x, x**2]),
    "dirichlet": lambda p: jnp.stack([p[0], p[1], p[0] ** 2, p[2] ** 2]),
    "ordered": lambda x: x,
    "lkj": lambda r: jnp.stack([r[1, 0], r[1, 0] ** 2, r[2, 0] ** 2, r[2, 1] ** 2]),
    "wishart": lambda s: jnp.stack([s[0, 0], s[1, 0], s[1, 1]]),
}


def run_all(names):
    """All of them as one independent product."""
    product = lambda x: sum((LOG_DENSITIES[name](x[name]) for name in names), jnp.zeros(()))
    model = Transformed(FunctionModel(product), {name: CONSTRAINTS[name] for name in names})

    def moments(state, info):
        x = model.constrain(state.position)
        return {name: MOMENTS[name](x[name]) for name in names}

    return run_law(
        KEY,
        hmc(Minibatch(model, Full()), 0.25, 4),
        model.unconstrain({name: POINT[name] for name in names}),
        None,
        num_chains=256,
        num_steps=1_240,
        burn_in=40,
        reduce=moments,
    )


def check(run, name):
    check_law(run.trace.mean[name], EXPECTED[name], 0.03)


MATRICES = ("lkj", "wishart")


@pytest.mark.parametrize(
    "names",
    [
        [name for name in CONSTRAINTS if name not in MATRICES],
        pytest.param(MATRICES, marks=pytest.mark.full),
    ],
    ids=["vectors", "matrices"],
)
def test_the_laws_are_those_of_the_users_coordinates(names):
    run = run_all(names)
    for name in names:
        check(run, name)


KINDS = {
    "gamma": bijectors.Exp,
    "shifted": bijectors.GreaterThan,
    "turned": bijectors.LessThan,
    "beta": bijectors.Interval,
    "dirichlet": bijectors.StickBreaking,
    "ordered": bijectors.Ordered,
    "lkj": bijectors.Correlation,
    "wishart": bijectors.Covariance,
}


@pytest.mark.full
@pytest.mark.at_length
def test_the_laws_see_a_jacobian_left_out(monkeypatch):
    for kind in KINDS.values():
        monkeypatch.setattr(kind, "log_det", lambda self, z: jnp.zeros(()))
    run = run_all(KINDS)
    for name in KINDS:
        fault_is_seen(check, run, name)


# ------------------------------------------------------------ gradients of items

X = jax.random.normal(jax.random.key(1), (30, 3))
Y = X @ jnp.array([0.2, 0.3, 0.5])
LINEAR = LinearModel(lambda w: -w[0], lambda eta, y: -0.5 * (y - eta) ** 2, lambda eta, y: y - eta)


def test_gradients_of_items_are_pulled_back(x64):
    model, data = Transformed(LINEAR, "simplex"), (X.astype(float), Y.astype(float))
    z, weight = jnp.array([0.4, -1.0]), jnp.linspace(0.0, 2.0, 30)
    loglik = lambda z, x, y: -0.5 * (y - x @ model.constrain(z)) ** 2

    @jax.jit
    def everything(z, data):
        each = jax.vmap(jax.grad(loglik), (None, 0, 0))(z, *data)
        whole = jax.grad(lambda z: model.logdensity(z, data))(z)
        there = model.logprior(z) + jnp.sum(model.loglik_batch(z, data))
        return (
            (model.per_item(z, data), each),
            (model.weighted_sum(z, data, weight).value, weight @ each),
            (model.prior(z).value + each.sum(0), whole),
            (model.logdensity(z, data), there),
        )

    for ours, other in everything(z, data):
        np.testing.assert_allclose(ours, other, rtol=1e-9, atol=1e-12)


def test_control_variates_at_their_centre_are_exact():
    model, centre = Transformed(LINEAR, "simplex"), jnp.array([0.4, -1.0])
    grad = ControlVariate(Minibatch(model, Uniform(3)), centre)

    @jax.jit
    def both(data):
        estimate, _ = grad.estimate(KEY, grad.init(KEY, centre, data), centre, data)
        return estimate.value, jax.grad(model.logdensity)(centre, data)

    ours, exact = both((X, Y))
    np.testing.assert_allclose(ours, exact, rtol=1e-4)


# ------------------------------------------------------------ use, and wrong use

PLAIN = FunctionModel(lambda x: -jnp.sum(x["a"]) - x["b"]["c"] ** 2)


class Shifted:
    """A bijector of nobody's, with tfp's and distrax's methods."""

    forward = staticmethod(lambda z: jnp.exp(z) + 2)
    inverse = staticmethod(lambda x: jnp.log(x - 2))
    forward_log_det_jacobian = staticmethod(lambda z: z)


@pytest.mark.parametrize("constraint", [Shifted(), bijectors.Foreign(Shifted())])
def test_bijectors_of_others(constraint):
    model = Transformed(PLAIN, {"a": constraint})
    z = model.unconstrain({"a": jnp.array([3.0, 4.0]), "b": {"c": jnp.array(0.0)}})
    np.testing.assert_allclose(z["a"], np.log([1.0, 2.0]), rtol=1e-6)
    np.testing.assert_allclose(model.logprior(z), -7 + np.log(2.0), rtol=1e-6)
    run = sample(KEY, sgld(Minibatch(model, Full()), 0.01), z, None, num_steps=5, num_chains=2)
    assert model.constrain(run.trace)["a"].shape == (2, 5, 2)
    assert np.all(model.constrain(run.trace)["a"] > 2)


def test_transforms_of_numpyro_and_their_parameters_are_leaves():
    numpyro = pytest.importorskip("numpyro.distributions")
    chain = numpyro.transforms.ComposeTransform(
        [numpyro.transforms.ExpTransform(), numpyro.transforms.AffineTransform(2.0, 3.0)]
    )
    for constraint in (chain, numpyro.constraints.greater_than(2.0)):
        model = Transformed(PLAIN, {"a": constraint})
        assert any(float(leaf) == 2.0 for leaf in jax.tree.leaves(model))
        x = {"a": jnp.array([3.0, 4.0]), "b": {"c": jnp.array(0.0)}}
        back = jax.jit(lambda model, x: model.constrain(model.unconstrain(x)))(model, x)
        np.testing.assert_allclose(back["a"], x["a"], rtol=1e-6)


def test_a_prefix_covers_what_is_below_it():
    model = Transformed(PLAIN, {"b": "positive"})
    x = {"a": jnp.array([-3.0, 4.0]), "b": {"c": jnp.array(0.5)}}
    z = model.unconstrain(x)
    np.testing.assert_allclose(z["b"]["c"], np.log(0.5), rtol=1e-6)
    np.testing.assert_array_equal(z["a"], x["a"])
    pair = Transformed(FunctionModel(lambda x: x[0] + x[1]), ("positive", None))
    assert float(pair.unconstrain((jnp.array(1.0), jnp.array(-1.0)))[0]) == 0.0


POSITION = {"a": jnp.array([3.0, 4.0]), "b": {"c": jnp.array(0.0)}}
WRONG = {
    "no such name": ({"a": "negative"}, ValueError, r"constraints\['a'\] must be one of real"),
    "bounds": ({"a": "interval(2, 1)"}, ValueError, "two bounds, lower < upper"),
    "no bound": ({"a": "greater_than(x)"}, ValueError, "one bound, a finite number"),
    "infinite": ({"a": "less_than(inf)"}, ValueError, "one bound, a finite number"),
    "two of one": ({"a": "greater_than(1, 2)"}, ValueError, "one bound, a finite number"),
    "one of two": ({"a": "interval(1)"}, ValueError, "two bounds, lower < upper"),
    "below": ({"b": "greater_than(1)"}, ValueError, r"position\['b'\]\['c'\] must be inside"),
    "no bounds": ({"a": "interval(2, x)"}, ValueError, "two bounds, lower < upper"),
    "no constraint": ({"a": 3.0}, TypeError, r"constraints\['a'\] must be the name of a support"),
    "no such part": ({"z": "positive"}, ValueError, r"must have a part constraints\['z'\]"),
    "too deep": ({"a": {"c": "positive"}}, ValueError, r"must have a part constraints\['a'\]"),
    "outside": ({"b": "positive"}, ValueError, r"position\['b'\]\['c'\] must be inside the sup"),
    "no simplex": ({"a": "simplex"}, ValueError, "inside the support of 'simplex', StickBreaking"),
    "unordered": (
        {"a": bijectors.Interval(0.0, 3.5)},
        ValueError,
        r"position\['a'\] must be inside the support of Interval",
    ),
}


@pytest.mark.parametrize("constraints, error, message", WRONG.values(), ids=WRONG)
def test_wrong_constraints_are_named(constraints, error, message):
    with pytest.raises(error, match=message):
        Transformed(PLAIN, constraints).unconstrain(POSITION)


@pytest.mark.parametrize("x", [jnp.bfloat16(3.0), jnp.float16(1000.0), jnp.bfloat16(1e30)])
def test_positions_of_half_precision_are_inside_to_their_rounding(x):
    model = Transformed(FunctionModel(lambda x: -x["s"]), {"s": "positive"})
    assert model.unconstrain({"s": x})["s"].dtype == x.dtype
    with pytest.raises(ValueError, match="inside the support"):
        model.unconstrain({"s": -x})


def test_wrong_models_and_numbers_are_named():
    with pytest.raises(TypeError, match="model must be a Model"):
        Transformed(jnp.sum, CONSTRAINTS)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="lower must be below upper"):
        bijectors.Interval(1.0, jnp.array([2.0, 0.0]))
    with pytest.raises(ValueError, match="not next to it"):
        bijectors.Interval(1.0, np.nextafter(np.float32(1), np.float32(2)))
    with pytest.raises(ValueError, match=r"d \(d - 1\) / 2 along their last axis, got 4"):
        of("correlation").forward(jnp.zeros(4))
    with pytest.raises(TypeError, match="position.* must be floating"):
        Transformed(PLAIN, {"a": "positive"}).unconstrain({"a": 1, "b": {"c": 0.5}})
    numpyro = pytest.importorskip("numpyro.distributions")
    with pytest.raises(ValueError, match="support with a bijection"):
        Transformed(PLAIN, {"a": numpyro.constraints.nonnegative_integer})
