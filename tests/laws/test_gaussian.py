"""The exact laws of discretised samplers on Gaussians (closed forms and linear systems)."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import (
    ControlVariate,
    EmpiricalFisher,
    Full,
    FunctionModel,
    LinearModel,
    Minibatch,
    StochasticDensity,
    Uniform,
    cycle,
    gibbs,
    metropolis,
    repeat,
    sghmc,
    sgld,
    sgnht,
    thin,
)
from sgmc_jax.spaces import Euclidean
from sgmc_jax.splitting import Splitting
from sgmc_jax.trajectory import _redraw
from sgmc_jax.transitions import EulerLangevin, GeodesicFlow, GradientKick, MomentumRefreshment
from tests.laws.moments import check_law, fault_is_seen, run_law

pytestmark = pytest.mark.runs_long

KEY = jax.random.key(20)
CURVATURE, NOISE, TEMPERATURE, FRICTION = 1.7, 2.3, 0.8, 1.3
STEPS = np.array([0.2, 0.6])


def location(noise=NOISE, num_items=8, batch_size=2):
    """y_i ~ N(x, s^2): curvature 1.7 and a minibatch gradient of variance `noise`, exactly."""
    kappa = num_items**2 * (1 - batch_size / num_items) / (batch_size * (num_items - 1))
    variance = num_items / 1.2
    y = np.random.default_rng(0).normal(size=num_items)
    y -= y.mean()
    y *= np.sqrt(noise * variance**2 / kappa / np.sum(y**2))
    model = FunctionModel(
        lambda x: -0.25 * jnp.sum(x**2), lambda x, y: -0.5 * jnp.sum((y - x) ** 2) / variance
    )
    return Minibatch(model, Uniform(batch_size)), y


def some_fast(names, fast):
    """All names, those that are not among the fast ones in the full tier."""
    return [name if name in fast else pytest.param(name, marks=pytest.mark.full) for name in names]


GRAD, Y = location()


def density(x, items):
    return GRAD.model.logprior(x) + 4 * jnp.sum(GRAD.model.loglik_batch(x, items))


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_two_chains_of_one_noise_approach_at_the_rate_of_the_drift(share, x64):
    """Like (1 - m h)^K with the drift h grad U, and like (1 - m h / 2)^K with half of it."""
    steep, h, num = np.array([1.0, 2.5, 4.0]), 0.1, 7  # the least is m
    model = FunctionModel(lambda x: -0.5 * jnp.sum(steep * x**2))
    kernel = sgld(Minibatch(model, Full()), share * h)

    def end(x):
        state = kernel.init(KEY, x, None)
        for i in range(num):
            state, _ = kernel.step(jax.random.fold_in(KEY, i), state, None)
        return state.position

    x, y = np.ones(3), np.array([3.0, 1.0, 1.0])  # apart where U is flattest
    apart = np.linalg.norm(end(jnp.asarray(x)) - end(jnp.asarray(y))) / np.linalg.norm(x - y)
    np.testing.assert_allclose(apart, (1 - share * h * steep.min()) ** num, rtol=1e-12)
    faster = np.linalg.norm(end(jnp.asarray(x)) - end(jnp.asarray(x + 1))) / np.sqrt(3)
    assert faster < apart  # m bounds the rate from below


def variance_of_several(word, h, num):
    """Of Euler steps of size h from a fresh momentum: a discrete Lyapunov equation."""
    kick = np.array([[1, 0], [-h * CURVATURE, 1 - h * FRICTION]])
    move = {"E": kick, "A": np.array([[1, h], [0, 1]])}
    noise = np.diag([0, 2 * h * FRICTION * TEMPERATURE + h**2 * NOISE])

    def after(variance):
        both = np.diag([variance, TEMPERATURE])
        for letter in word * num:
            both = move[letter] @ both @ move[letter].T + (noise if letter == "E" else 0)
        return both[0, 0]

    return after(0.0) / (1 - (after(1.0) - after(0.0)))


def several(word, num):
    """As many steps from a fresh momentum, and their variances."""
    make = lambda step_size, temperature: sghmc(
        GRAD, num * step_size, FRICTION, temperature=temperature, word="R" + num * word
    )
    return make, [variance_of_several(word, h, num) for h in STEPS]


CLOSED_FORMS = {  # the variances at h = .2 and .6
    "sgld": (partial(sgld, GRAD), (0.7300, 1.7887)),
    "density": (partial(sgld, StochasticDensity(density, Uniform(2))), (0.7300, 1.7887)),
    "EA": (partial(sghmc, GRAD, friction=FRICTION, word="EA"), (0.5861, 1.0449)),
    "BAOAB": (partial(sghmc, GRAD, friction=FRICTION, word="BAOAB"), (0.5771, 0.8577)),
    "OBABO": (partial(sghmc, GRAD, friction=FRICTION, word="OBABO"), (0.5852, 0.9427)),
    "AFBNFA": (partial(sghmc, GRAD, friction=FRICTION, word="AFBNFA"), (0.5730, 0.7633)),
    "ABOBA": (partial(sghmc, GRAD, friction=FRICTION), (0.5752, 0.7985)),
    "R + 3 EA": several("EA", 3),
    "R + 3 AE": several("AE", 3),
}


def second_moments(make, data, num_chains=1024, num_steps=6_000, position=0.0, steps=STEPS):
    """E x^2 of each chain, (chain, step size), from one vmapped sweep."""
    kernels = eqx.filter_vmap(make)(jnp.asarray(steps))
    run = run_law(
        KEY,
        kernels,
        jnp.zeros(()) + position,
        data,
        num_steps=num_steps,
        num_chains=num_chains,
        burn_in=num_steps // 40,
        kernel_axis=0,
        reduce=lambda state, info: state.position**2,
    )
    return np.asarray(run.trace.mean).T


@pytest.mark.parametrize("name", some_fast(CLOSED_FORMS, ("sgld", "density", "BAOAB", "ABOBA")))
def test_variance_with_minibatches(name):
    make, expected = CLOSED_FORMS[name]
    moments = second_moments(lambda h: make(step_size=h, temperature=TEMPERATURE), Y)
    # the printed values have four digits
    check_law(moments, expected, 0.01)


@pytest.mark.parametrize("word, factor", [("EA", 5 / 6), ("AE", 5 / 4)])
def test_euler_steps_from_a_fresh_momentum_are_off_at_vanishing_steps(word, factor):
    """Five of them, by L / (L + 1) or L / (L - 1): the momentum is drawn half a step from where."""
    ratio = variance_of_several(word, 1e-5, 5) / (TEMPERATURE / CURVATURE)
    assert abs(ratio - factor) < 1e-4


@pytest.mark.full
def test_the_law_sees_a_momentum_that_is_drawn_a_tenth_too_hot(monkeypatch):
    honest = MomentumRefreshment.__call__

    def hotter(self, key, phase, h, field):
        drawn = honest(self, key, phase, h, field)
        return drawn._replace(momentum=1.1**0.5 * drawn.momentum)

    monkeypatch.setattr(MomentumRefreshment, "__call__", hotter)
    fault_is_seen(test_variance_with_minibatches, "R + 3 AE")


def test_the_law_sees_noise_too_large_by_a_twentieth(monkeypatch):
    honest = EulerLangevin.variance
    monkeypatch.setattr(EulerLangevin, "variance", lambda s, h, v: 1.05**2 * honest(s, h, v))
    fault_is_seen(test_variance_with_minibatches, "sgld")


def test_the_law_sees_a_wrong_denominator(monkeypatch):
    honest = Uniform.draw

    def miscounted(self, key, bstate, data):
        batch, bstate = honest(self, key, bstate, data)
        return eqx.tree_at(lambda b: b.weight, batch, batch.weight * 2 / 3), bstate

    monkeypatch.setattr(Uniform, "draw", miscounted)
    fault_is_seen(test_variance_with_minibatches, "sgld")


@pytest.mark.full
@pytest.mark.at_length
def test_the_law_sees_one_key_used_twice(monkeypatch):
    import sgmc_jax.splitting as splitting

    monkeypatch.setattr(splitting, "split", lambda key, num: [key] * num)
    fault_is_seen(test_variance_with_minibatches, "OBABO")


CORRECTED = {  # with the noise of the gradient subtracted: the variance with an exact gradient
    "sgld": (sgld, lambda h: 2 / (CURVATURE * (2 - h * CURVATURE))),
    "EA": (
        partial(sghmc, friction=FRICTION, word="EA"),
        lambda h: 2 * (2 - h * FRICTION) / (CURVATURE * (4 - 2 * h * FRICTION - h**2 * CURVATURE)),
    ),
    "AFBNFA": (
        partial(sghmc, friction=FRICTION, word="AFBNFA"),
        lambda h: h * FRICTION / (2 * CURVATURE * np.sinh(FRICTION * h / 2)),
    ),
    "ABOBA": (partial(sghmc, friction=FRICTION), lambda h: 1 / CURVATURE + 0 * h),
}


@pytest.mark.parametrize("name", some_fast(CORRECTED, ("sgld", "ABOBA")))
def test_variance_with_the_noise_subtracted(name):
    make, law = CORRECTED[name]
    steps = np.array([0.1, 0.15])
    moments = second_moments(lambda h: make(GRAD, h, noise_covariance=NOISE), Y, steps=steps)
    check_law(moments, law(steps), 0.015)


@pytest.mark.parametrize(
    "form", ["matrix", *(pytest.param(f, marks=pytest.mark.full) for f in ("number", "diagonal"))]
)
def test_every_form_of_a_noise_covariance(form):
    """Two coordinates, of which each has its own noise and a correlation with the other's."""
    root = np.array([[1.5, 0.0], [0.8, 1.0]])
    if form != "matrix":
        root = np.diag([1.5, 1.5 if form == "number" else 0.7])
    signs = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]]) / 4
    kappa = 16 * (1 - 1 / 4) / 3
    slopes = signs @ root.T / np.sqrt(kappa * np.sum(signs[:, 0] ** 2))
    covariance = {"number": 1.5**2, "diagonal": np.diag(root) ** 2, "matrix": root @ root.T}[form]
    model = FunctionModel(lambda x: -0.5 * x @ x, lambda x, s: s @ x)
    kernel = sgld(Minibatch(model, Uniform(1)), 0.4, noise_covariance=covariance)
    args = {"num_chains": 1024, "num_steps": 3_000, "burn_in": 100}
    products = lambda state, info: jnp.outer(state.position, state.position)
    run = run_law(KEY, kernel, jnp.zeros(2), slopes, reduce=products, **args)
    check_law(run.trace.mean, np.eye(2) / 0.8, 0.02)


def test_unadjusted_leapfrog():
    steps, grad = STEPS, Minibatch(FunctionModel(lambda x: -0.5 * CURVATURE * x**2), Full())
    make = lambda h: metropolis(
        repeat(Splitting("BAB", {"A": GeodesicFlow(), "B": GradientKick()}, grad, h), 3),
        lambda state: jnp.zeros(()),
        partial(_redraw, space=Euclidean()),
    )
    expected = 1 / (CURVATURE * (1 - steps**2 * CURVATURE / 4))
    check_law(second_moments(make, None, num_steps=3_000), expected, 0.01)


def test_nose_hoover_thermostat():
    """lambda Var x is .989 and .952 at h = .2 and .4, d = 10, known to three digits."""
    grad = Minibatch(
        FunctionModel(
            lambda x: -0.5 * CURVATURE * x["a"] @ x["a"] - 0.5 * CURVATURE * jnp.sum(x["b"] ** 2)
        ),
        Full(),
    )
    kernels = eqx.filter_vmap(lambda h: sgnht(grad, h, friction=1.0))(jnp.array([0.2, 0.4]))
    start = {"a": jnp.zeros(6), "b": jnp.zeros((2, 2))}  # one thermostat, however they are nested
    size = lambda x: (jnp.sum(x["a"] ** 2) + jnp.sum(x["b"] ** 2)) / 10
    heat = lambda state: state.auxiliary["thermostat"]
    moments = lambda state, info: jnp.stack(
        [CURVATURE * size(state.position), heat(state), (heat(state) - 1) ** 2]
    )
    args = {"num_chains": 512, "num_steps": 8_000, "burn_in": 500, "kernel_axis": 0}
    run = run_law(KEY, kernels, start, None, reduce=moments, **args)
    means = np.asarray(run.trace.mean)
    check_law(means[0][:, 0], 0.989, 0.004)
    check_law(means[1][:, 0], 0.952, 0.004)
    check_law(means[0][:, 2], 0.1, 0.04)  # xi ~ N(A, 1/d), once and not once a leaf


@pytest.mark.full
def test_the_thermostat_takes_up_isotropic_noise():
    """The mean of xi moves from A to A + h v / 2 and the variance of x stays."""
    items = np.concatenate([np.eye(10), -np.eye(10)])
    kappa = 20**2 * (1 - 1 / 20) / 19
    items *= np.sqrt(10.0 / (2 * kappa))  # the covariance kappa 2 a^2 I is 10 I
    model = FunctionModel(lambda x: -0.5 * x @ x, lambda x, z: z @ x)
    kernel = sgnht(Minibatch(model, Uniform(1)), 0.05, friction=1.0)
    moments = lambda state, info: jnp.stack(
        [jnp.mean(state.position**2), state.auxiliary["thermostat"]]
    )
    args = {"num_chains": 512, "num_steps": 20_000, "burn_in": 2_000}
    run = run_law(KEY, kernel, jnp.zeros(10), items, reduce=moments, **args)
    check_law(run.trace.mean[:, 1], 1 + 0.05 * 10 / 2, 0.02)
    check_law(run.trace.mean[:, 0], 1.0, 0.02)


UNLIKE = np.repeat([20.0, 2.0], 5)  # noise of ten coordinates, of at most 2 A / h = 40


def unlike(wrap=lambda grad: grad, **known):
    """The kernel, and items of which two make that noise."""
    kappa = 20**2 * (1 - 2 / 20) / (2 * 19)
    items = np.concatenate([np.eye(10), -np.eye(10)]) * np.sqrt(UNLIKE / (2 * kappa))
    grad = Minibatch(FunctionModel(lambda x: -0.5 * x @ x, lambda x, z: z @ x), Uniform(2))
    return sgnht(wrap(grad), 0.05, friction=1.0, **known), items


def halves(x):
    return [jnp.mean(x[:5] ** 2), jnp.mean(x[5:] ** 2)]


LONG = {"num_chains": 512, "num_steps": 10_000, "burn_in": 2_000}


def check_unlike(wrap=lambda grad: grad, **known):
    """The variances of the coordinates of either noise are 1, and xi stays at A."""
    kernel, items = unlike(wrap, **known)
    heat = lambda state: state.auxiliary["thermostat"]
    moments = lambda state, info: jnp.stack([*halves(state.position), heat(state)])
    run = run_law(KEY, kernel, jnp.zeros(10), items, reduce=moments, **LONG)
    check_law(run.trace.mean, 1.0, 0.03)


COMPOSED = {
    "thin": lambda kernel: thin(kernel, 2),
    "repeat": lambda kernel: repeat(kernel, 2),
    "cycle": lambda kernel: cycle(kernel, kernel),
    "gibbs": lambda kernel: gibbs(x=lambda rest: kernel),
}


def check_composed(name, **known):
    kernel, items = unlike(**known) if known else unlike(EmpiricalFisher)
    own = lambda state: state.position["x"] if name == "gibbs" else state.position
    moments = lambda state, info: jnp.stack(halves(own(state)))
    start = {"x": jnp.zeros(10)} if name == "gibbs" else jnp.zeros(10)
    run = run_law(KEY, COMPOSED[name](kernel), start, items, reduce=moments, **LONG)
    check_law(run.trace.mean, 1.0, 0.03)


@pytest.mark.full
@pytest.mark.parametrize("name", COMPOSED)
def test_a_thermostat_less_estimated_noise_composes(name):
    check_composed(name)


@pytest.mark.full
@pytest.mark.at_length
@pytest.mark.parametrize("name", COMPOSED)
def test_the_mean_noise_alone_is_seen_in_combinators(name):
    fault_is_seen(check_composed, name, noise_covariance=11.0)


@pytest.mark.parametrize(
    "known",
    [UNLIKE, pytest.param(np.diag(UNLIKE), marks=pytest.mark.full)],
    ids=["diagonal", "matrix"],
)
def test_a_thermostat_less_noise_that_is_known(known):
    check_unlike(noise_covariance=known)


@pytest.mark.full
def test_a_thermostat_less_noise_that_is_estimated():
    check_unlike(EmpiricalFisher)


@pytest.mark.full
@pytest.mark.at_length
@pytest.mark.parametrize("known", [{}, {"noise_covariance": 11.0}], ids=["none", "mean"])
def test_noise_that_is_not_alike_is_seen(known):
    """The thermostat takes up its mean, which is not enough, as if it were told that."""
    fault_is_seen(check_unlike, **known)


# ------------------------------------------------------ real minibatches of a linear regression

ITEMS, BATCH, STEP = 12, 3, 0.03
_rng = np.random.default_rng(3)
X = _rng.normal(size=(ITEMS, 2)) * 0.8
TARGETS = X @ np.array([1.0, -0.5]) + 0.5 * _rng.normal(size=ITEMS)
HESSIANS = X[:, :, None] * X[:, None, :]
CURVATURES = HESSIANS.sum(0) + np.eye(2)
MODE = np.linalg.solve(CURVATURES, X.T @ TARGETS)
CENTRE = MODE + np.array([0.3, -0.2])  # not the mode, nor assumed to be


def exact_covariance(replace, centred):
    """P = (I - hL) P (I - hL)' + h^2 k sum (H_i - H)(P)(H_i - H)' + h^2 k sum r_i r_i' + 2h I."""
    kappa = ITEMS / BATCH
    if not replace:
        kappa = ITEMS**2 * (1 - BATCH / ITEMS) / (BATCH * (ITEMS - 1))
    spread = HESSIANS - HESSIANS.mean(0)
    if centred:
        residuals = spread @ (MODE - CENTRE)
    else:
        residuals = HESSIANS @ MODE - X * TARGETS[:, None]
        residuals = residuals - residuals.mean(0)
    shrink = np.eye(2) - STEP * CURVATURES
    linear = np.kron(shrink, shrink) + STEP**2 * kappa * sum(np.kron(s, s) for s in spread)
    constant = STEP**2 * kappa * residuals.T @ residuals + 2 * STEP * np.eye(2)
    return np.linalg.solve(np.eye(4) - linear, constant.ravel()).reshape(2, 2)


@pytest.mark.parametrize("hook", ["function", pytest.param("linear", marks=pytest.mark.full)])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("replace", [False, True])
def test_sgld_covariance_with_real_minibatches(replace, centred, hook):
    prior = lambda w: -0.5 * w @ w
    function = FunctionModel(prior, lambda w, z: -0.5 * (z[1] - z[0] @ w) ** 2)
    linear = LinearModel(prior, lambda eta, y: -0.5 * (y - eta) ** 2)
    model = function if hook == "function" else linear
    grad = Minibatch(model, Uniform(BATCH, replace=replace))
    if centred:
        grad = ControlVariate(grad, CENTRE.astype(np.float32))
    moments = lambda state, info: jnp.outer(state.position - MODE, state.position - MODE)
    args = {"num_chains": 2048, "num_steps": 4_000, "burn_in": 200}
    run = run_law(KEY, sgld(grad, STEP), jnp.asarray(MODE), (X, TARGETS), reduce=moments, **args)
    check_law(run.trace.mean, exact_covariance(replace, centred), 0.02)


@pytest.mark.full
@pytest.mark.at_length
def test_the_covariance_law_sees_a_centre_taken_for_the_mode(monkeypatch):
    honest = ControlVariate.items

    def without_the_sum_at_the_centre(self, batch, position):
        estimate = honest(self, batch, position)
        return jax.tree.map(jnp.subtract, estimate, batch.full)

    monkeypatch.setattr(ControlVariate, "items", without_the_sum_at_the_centre)
    fault_is_seen(test_sgld_covariance_with_real_minibatches, False, True, "function")
