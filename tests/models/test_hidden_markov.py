"""Hidden Markov models against sums over all paths of states."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import softmax

from sgmc_jax import ControlVariate, Full, Minibatch, Window, hmc, sample, sghmc
from sgmc_jax import models as m
from sgmc_jax.collective import as_shard
from sgmc_jax.models.series import forward_backward
from sgmc_jax.tune import find_mode
from tests.laws.moments import Z
from tests.models.jacobians import check_prior

KEY = jax.random.key(21)
_rng = np.random.default_rng(3)
NORMAL = {"mean": [-1.0, 0.5, 2.0], "log_scale": [0.1, -0.3, 0.2]}
RATES = {"log_rate": [0.1, 1.0, 1.7]}
LOGITS = {"logits": _rng.normal(size=(3, 2)).tolist()}


def exponential():
    return m.FunctionEmission(lambda w: -0.5 * w**2, lambda w, y: w - jnp.exp(w) * y)


EMISSIONS = {
    "normal": (m.NormalEmission, NORMAL, _rng.normal(size=7)),
    "Poisson": (m.PoissonEmission, RATES, _rng.poisson(3.0, 7)),
    "categorical": (lambda: m.CategoricalEmission(3), LOGITS, _rng.integers(0, 3, 7)),
    "function": (exponential, [0.2, -0.5, 1.0], _rng.exponential(size=7)),
}
FIXED = {2: (0.9, 0.1), 3: (0.7, 0.2, 0.1)}


def problem(name="normal", size=2, initial=None):
    """A model, a position and seven rows."""
    make, parameters, series = EMISSIONS[name]
    model = m.HiddenMarkov(size, make(), initial=None if initial is None else FIXED[size])
    is_list = lambda x: isinstance(x, list)
    cut = lambda x: jnp.asarray(np.asarray(x)[:size], float)
    emission = jax.tree.map(cut, parameters, is_leaf=is_list)
    logits = np.random.default_rng(size).normal(size=(size, size - 1)) - 0.5
    return model, {"transition": jnp.asarray(logits), "emission": emission}, jnp.asarray(series)


def parts(model, position):
    """log P, the log of its stationary law, and the log law of the first state: by their words."""
    size = model.num_states
    rows = []
    for i, logits in enumerate(position["transition"]):
        row = jnp.concatenate([logits[:i], jnp.zeros(1), logits[i:]])
        rows.append(row - jnp.log(jnp.sum(jnp.exp(row))))
    transition = jnp.stack(rows)
    law = jnp.linalg.matrix_power(jnp.exp(transition), 512)[0]
    first = jnp.log(law) if model.initial is None else jnp.log(jnp.array(FIXED[size]))
    return transition, jnp.log(law), first


def at(tree, index):
    return jax.tree.map(lambda x: x[index], tree)


def paths(model, position, rows, begins):
    """Every path, from the state before the rows on, and the log terms of its rows, (path, t)."""
    transition, law, first = parts(model, position)
    size, num = model.num_states, len(rows)
    path = np.asarray(list(itertools.product(range(size), repeat=num + 1)))
    if begins:  # the state before is nowhere
        path = path[path[:, 0] == 0]
        moves = jnp.concatenate(
            [first[path[:, 1:2]], transition[path[:, 1:-1], path[:, 2:]]], axis=1
        )
        before = 0.0
    else:
        moves = transition[path[:, :-1], path[:, 1:]]
        before = law[path[:, 0]]
    states = [at(position["emission"], k) for k in range(size)]
    emits = jnp.stack([jnp.stack([model.emission.loglik(w, row) for w in states]) for row in rows])
    terms = moves + emits[jnp.arange(num), path[:, 1:]]
    return path[:, 1:], terms, before


def enumerated(model, position, rows, begins, share):
    """The gradient of E sum_t share_t log p(x_t, y_t | x_{t-1}), and log p(rows)."""

    def complete(position):
        _, terms, before = paths(model, position, rows, begins)
        joint = jnp.sum(terms, axis=1) + before
        weight = jax.lax.stop_gradient(jax.nn.softmax(joint))
        return weight @ (terms @ share), jax.nn.logsumexp(joint)

    (_, evidence), gradient = jax.value_and_grad(complete, has_aux=True)(position)
    return gradient, evidence


def check_close(got, wanted, words=""):
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9, err_msg=words)


def check_likelihood(name, size, initial=None):
    """log p(y), its gradient by the recursion and by Fisher's identity, and the smoothed law."""
    model, position, series = problem(name, size, initial)
    exact = Minibatch(model, Window(None))

    def by_paths(x, rows):
        of_paths = lambda x: enumerated(model, x, rows, True, jnp.ones(5))[1]
        path, terms, _ = paths(model, x, rows, True)
        weight = jax.nn.softmax(jnp.sum(terms, axis=1))
        marginal = jnp.einsum("p,ptk->tk", weight, jax.nn.one_hot(path, size))
        return *jax.value_and_grad(of_paths)(x), marginal, jnp.asarray(path)[jnp.argmax(weight)]

    def by_recursions(x, rows):
        estimate = exact.items(exact.draw(KEY, (), rows)[0], x)
        states = model.smoothed(x, rows), model.most_likely(x, rows)
        return jax.value_and_grad(model.log_likelihood)(x, rows), estimate, states

    value, gradient, marginal, path = jax.jit(by_paths)(position, series[:5])
    plain, estimate, states = jax.jit(by_recursions)(position, series[:5])
    check_close(plain, (value, gradient), "gradient of the likelihood")
    check_close(estimate.logdensity, value, "likelihood")
    check_close(estimate.value, gradient, "gradient")
    check_close(states[0], marginal, "smoothed")
    assert jnp.array_equal(states[1], path)


def test_rows_that_a_state_cannot_emit(x64):
    """Exponential above a bound of each state, so that some log densities are -inf."""
    bound, position = np.array([0.0, 1.0]), problem("function", 2)[1]
    parameters = {"rate": position["emission"], "bound": jnp.asarray(bound)}
    emission = m.FunctionEmission(
        lambda w: -0.5 * w["rate"] ** 2,
        lambda w, y: jnp.where(y > w["bound"], w["rate"] - jnp.exp(w["rate"]) * y, -jnp.inf),
    )
    model, position = m.HiddenMarkov(2, emission), position | {"emission": parameters}
    series, grad = jnp.array([0.5, 1.5, 0.3, 2.0, 1.2]), Minibatch(model, Window(None))
    wanted = jax.jit(jax.grad(model.log_likelihood))(position, series)
    check_close(jax.jit(lambda x: grad.full(x, series).value)(position), wanted)
    path, terms, _ = paths(model, position, series, True)
    weight = jax.nn.softmax(jnp.sum(terms, axis=1))
    marginal = jnp.einsum("p,ptk->tk", weight, jax.nn.one_hot(path, 2))
    smoothed = jax.jit(lambda x: model.smoothed(x, series))
    check_close(smoothed(position), marginal)


@pytest.mark.full
@pytest.mark.parametrize("name", [n for n in EMISSIONS if n != "normal"])
def test_two_states(name, x64):
    check_likelihood(name, 2)


FULL = pytest.mark.full


@pytest.mark.parametrize("initial", [None, pytest.param("given", marks=FULL)])
def test_three_states(initial, x64):
    check_likelihood("normal", 3, initial)


def check_windows(initial="given", buffers=(0, 1)):
    """The terms of each window given its rows and its buffer's, over all paths through them."""
    model, position, series = problem("normal", 2, initial)
    for buffer in buffers:
        every = Window(3, buffer).population(as_shard(series)).items
        terms = jax.jit(lambda x, w: model.per_item(x, w))(position, every)
        for i in range(3):
            window = at(jax.tree.map(np.asarray, every), i)
            rows, share = window.rows[window.real], window.share[window.real]
            begins = bool(window.first)
            of_paths = jax.jit(lambda x, r, s, b=begins: enumerated(model, x, r, b, s)[0])
            wanted = of_paths(position, rows, share)
            check_close(at(terms, i), wanted, f"window {i}")


def test_windows_against_all_paths(x64):
    check_windows(buffers=(0,))


@pytest.mark.full
@pytest.mark.parametrize("initial", [None, "given"])
def test_windows_with_buffers_against_all_paths(initial, x64):
    check_windows(initial)


def full(grad, position, series):
    return jax.jit(lambda x, y: grad.full(x, y).value)(position, series)


def check_unbiased(overlapping=False, lengths=(3,)):
    """With buffers that reach everywhere, blocks that do not divide have the exact gradient."""
    model, position, series = problem("normal", 2, "given")
    exact = jax.jit(lambda x, y: jax.grad(model.log_likelihood)(x, y))(position, series)
    for length in lengths:
        grad = Minibatch(model, Window(length, 7, overlapping=overlapping))
        check_close(full(grad, position, series), exact, "biased")


def test_long_buffers_are_unbiased(x64):
    check_unbiased()


@pytest.mark.full
def test_long_buffers_are_unbiased_for_other_windows(x64):
    check_unbiased(False, (2, 5))
    check_unbiased(True, (3, 5))


@pytest.mark.full
def test_estimates_from_batches_have_the_mean_of_all_windows(x64):
    """Over all pairs of the four blocks, with a control variate."""
    model, position, series = problem("normal", 2, "given")
    inner = Minibatch(model, Window(2, 7, num_windows=2))
    centre = jax.tree.map(lambda x: x + 0.1, position)
    exact = jax.grad(model.log_likelihood)(position, series)
    for grad in (inner, ControlVariate(inner, centre)):
        values, index = drawn(grad, position, series)
        _, first = np.unique(np.asarray(index), axis=0, return_index=True)
        assert len(first) == 12
        mean = jax.tree.map(lambda g: g.mean(0), at(values, first))
        check_close(mean, exact, "biased")


def drawn(grad, position, series):
    """Item sums of 200 batches, and their windows."""

    def one(key):
        batch = grad.draw(key, estate, series)[0]
        return grad.items(batch, position).value, getattr(batch, "inner", batch).index

    estate = grad.init(KEY, position, series)
    return jax.jit(jax.vmap(one))(jax.random.split(KEY, 200))


@pytest.mark.full
@pytest.mark.at_length
def test_the_initial_law_inside_of_the_series_is_seen(x64, monkeypatch):
    honest = m.HiddenMarkov._smoothed

    def smoothed(self, chain, window, logliks):
        return honest(self, chain._replace(stationary=chain.initial), window, logliks)

    monkeypatch.setattr(m.HiddenMarkov, "_smoothed", smoothed)
    with pytest.raises(AssertionError, match="window 1"):
        check_windows(buffers=(0,))


@pytest.mark.full
@pytest.mark.at_length
def test_a_wrong_backward_message_is_seen(x64, monkeypatch):
    honest = forward_backward.backward
    shifted = lambda transition, logliks: honest(transition.T, logliks)
    monkeypatch.setattr(forward_backward, "backward", shifted)
    with pytest.raises(AssertionError, match="gradient"):
        check_likelihood("normal", 3)


@pytest.mark.full
@pytest.mark.parametrize("fault", ["constant", "buffers count"])
@pytest.mark.at_length
def test_wrong_shares_are_seen(fault, x64, monkeypatch):
    honest = Window._windows

    def windows(self, items, index):
        window = honest(self, items, index)
        share = window.real if fault == "buffers count" else (window.share > 0) / self.length
        return window._replace(share=share.astype(float))

    monkeypatch.setattr(Window, "_windows", windows)
    with pytest.raises(AssertionError, match="biased"):
        check_unbiased(overlapping=fault == "constant")


@pytest.mark.full
def test_the_gradient_of_a_windows_likelihood_is_another():
    """Autodiff of log p(y_S*) counts the buffers of neighbours twice: it is not the estimate."""
    model, position, series = problem()
    total = jax.grad(lambda x: sum(model.log_likelihood(x, series[i : i + 4]) for i in (0, 3)))
    exact = jax.grad(model.log_likelihood)(position, series)
    assert not np.allclose(total(position)["transition"], exact["transition"], rtol=0.05)


@pytest.mark.full
def test_the_buffers_error_falls_geometrically(x64):
    """At a rate that is not slower than Birkhoff's, which needs no likelihood."""
    model, position, _ = problem()
    position = model.position(jnp.array([[0.8, 0.2], [0.3, 0.7]]), position["emission"])
    _, series = model.simulate(KEY, position, 400)
    exact = jax.grad(model.log_likelihood)(position, series)["transition"]
    p = np.array([[0.8, 0.2], [0.3, 0.7]])
    rho = np.tanh(np.log(p[0, 0] * p[1, 1] / (p[0, 1] * p[1, 0])) / 4)
    error = {}
    for buffer in (0, 2, 6, 10):
        sums = full(Minibatch(model, Window(20, buffer)), position, series)["transition"]
        error[buffer] = float(jnp.max(jnp.abs(sums - exact)))
    assert error[0] > 0.1
    for buffer in (2, 6, 10):
        assert error[buffer] <= 4 * error[0] * rho**buffer, error
    # and not at once: a buffer of two is not enough
    assert error[2] > 10 * error[10], error


BETA = np.array([0.6, 1.7, 2.4])
PRIORS = {  # an emission, its parameters, what its prior is of, and the density of that
    "normal": (
        lambda: m.NormalEmission([0.5, -1.0], [2.0, 0.6], (3.0, 1.5)),
        ("mean", "log_scale"),
        lambda w: jnp.append(w["mean"], jnp.exp(-2 * w["log_scale"])),
        lambda v: [
            *stats.norm.logpdf(v[:2], [0.5, -1.0], [2.0, 0.6]),
            *stats.gamma.logpdf(v[2:], 3.0, scale=1 / 1.5),
        ],
    ),
    "Poisson": (
        lambda: m.PoissonEmission((3.0, 1.5)),
        ("log_rate",),
        lambda w: jnp.exp(w["log_rate"]),
        lambda v: stats.gamma.logpdf(v, 3.0, scale=1 / 1.5),
    ),
    "categorical": (
        lambda: m.CategoricalEmission(3, BETA),
        ("logits",),
        lambda w: jax.nn.softmax(jnp.append(0.0, w["logits"]))[1:],
        lambda v: stats.dirichlet.logpdf([1 - v.sum(), *v], BETA),
    ),
}


@pytest.mark.parametrize("name", PRIORS)
def test_priors_of_emissions_have_their_jacobians(name, x64):
    make, parameters, natural, log_density = PRIORS[name]
    like = dict.fromkeys(parameters, jnp.zeros(2))
    check_prior(make().logprior, natural, log_density, like)


def test_the_prior_of_the_transitions_has_its_jacobian(x64):
    """Of rows with priors of their own, and with it the emissions' priors in all states."""
    alpha = np.array([[1.2, 2.5, 0.7], [3.0, 0.9, 1.6], [0.8, 2.1, 1.4]])
    model = m.HiddenMarkov(3, exponential(), alpha)
    off = ~np.eye(3, dtype=bool)

    def natural(x):
        return jnp.append(jnp.exp(parts(model, x)[0])[off], x["emission"])

    def log_density(v):
        p = np.zeros((3, 3))
        p[off] = v[:6]
        p += np.diag(1 - p.sum(1))
        rows = [stats.dirichlet.logpdf(row, own) for row, own in zip(p, alpha)]
        return [*rows, *stats.norm.logpdf(v[6:])]

    like = {"transition": jnp.zeros((3, 2)), "emission": jnp.zeros(3)}
    check_prior(model.logprior, natural, log_density, like)


LAWS = {
    "normal": lambda w: stats.norm(w["mean"], np.exp(w["log_scale"])),
    "Poisson": lambda w: stats.poisson(np.exp(w["log_rate"])),
    "categorical": lambda w: stats.rv_discrete(values=(range(3), softmax([0, *w["logits"]]))),
}


@pytest.mark.parametrize("name", LAWS)
def test_densities_of_rows_are_scipys(name, x64):
    model, position, series = problem(name, 3)
    state = at(position["emission"], 1)
    law = LAWS[name](state)
    wanted = law.logpdf(series) if name == "normal" else law.logpmf(series)
    loglik = jax.jit(lambda w, row: model.emission.loglik(w, row))
    found = jax.vmap(loglik, (None, 0))(state, series)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
    if name != "categorical":  # of vectors, whose entries are independent
        again = jax.tree.map(lambda w: jnp.full(len(series), w), state)
        np.testing.assert_allclose(loglik(again, series), wanted.sum(), rtol=1e-9)


def within(share, wanted, num):
    """5.5 standard errors of so many draws; one in a million of sure events is rounding."""
    assert np.all(np.abs(share - wanted) <= Z * np.sqrt(wanted * (1 - wanted) / num) + 1e-6)


@pytest.mark.parametrize("name", LAWS)
def test_simulated_series_have_the_law(name):
    """Frequencies of pairs of states, and of rows below deciles of their state's law."""
    model, position, _ = problem(name, 3)
    states, series = map(np.asarray, jax.jit(lambda k: model.simulate(k, position, 40_000))(KEY))
    pairs = np.zeros((3, 3))
    np.add.at(pairs, (states[:-1], states[1:]), 1)
    total = pairs.sum(1, keepdims=True)
    within(pairs / total, np.exp(parts(model, position)[0]), total)
    for k in range(3):
        law = LAWS[name](jax.tree.map(np.asarray, at(position["emission"], k)))
        rows, decile = series[states == k], law.ppf(np.arange(1, 10) / 10)
        within(np.mean(rows[:, None] <= decile, axis=0), law.cdf(decile), len(rows))


@pytest.mark.parametrize("name", LAWS)
def test_any_kind_of_key_simulates(name):
    """JAX's own Poisson draws take keys of one kind."""
    model, position, _ = problem(name, 3)
    _, series = model.simulate(jax.random.key(0, impl="rbg"), position, 50)
    assert np.all(np.isfinite(series)) and len(np.unique(series)) > 1


@pytest.mark.parametrize("initial", [None, "given"])
def test_simulated_series_begin_with_the_law(initial):
    model, position, _ = problem("normal", 3, initial)
    first = jax.jit(jax.vmap(lambda k: model.simulate(k, position, 1)[0][0]))
    states = np.asarray(first(jax.random.split(KEY, 4_000)))
    within(np.bincount(states) / 4_000, np.exp(parts(model, position)[2]), 4_000)


def two_states(length=600):
    model = m.HiddenMarkov(2, m.NormalEmission())
    emission = {"mean": jnp.array([-1.0, 1.0]), "log_scale": jnp.array([-0.3, 0.0])}
    truth = model.position(jnp.array([[0.9, 0.1], [0.2, 0.8]]), emission)
    return model, truth, model.simulate(jax.random.key(8), truth, length)[1]


def chain_means(key, kernel, start, series, **args):
    """The means and the deviations of all coordinates in each chain."""
    trace = sample(key, kernel, start, series, num_chains=64, **args).trace
    flat = jax.vmap(jax.vmap(lambda x: jax.flatten_util.ravel_pytree(x)[0]))(trace)
    flat = np.asarray(flat, np.float64)
    return flat.mean(1), flat.std(1)


@pytest.mark.full
@pytest.mark.at_length
@pytest.mark.runs_long
def test_windows_have_the_posterior_of_all_rows():
    """Means within .1 of a posterior deviation of full-data HMC's, deviations within 15 %."""
    model, truth, series = two_states()
    grad = Minibatch(model, Window(None))
    mode = find_mode(KEY, model, truth, series, batcher=Window(None))
    means, _ = exact = chain_means(
        KEY, hmc(grad, 0.025, 16), mode, series, num_steps=160, burn_in=20
    )
    scale = exact[1].mean(0)
    windows = Minibatch(model, Window(50, 10, num_windows=4))
    kernel = sghmc(ControlVariate(windows, mode), 0.03, 8.0)
    got = chain_means(KEY, kernel, mode, series, num_steps=7_000, burn_in=1_000, thin=10)
    gap = (got[0].mean(0) - means.mean(0)) / scale
    error = np.sqrt(got[0].var(0, ddof=1) + means.var(0, ddof=1)) / 8 / scale
    assert np.all(Z * error < 0.1), f"blind: {error}"
    assert np.all(np.abs(gap) < 0.1), f"{gap} deviations off"
    np.testing.assert_allclose(got[1].mean(0) / scale, 1, atol=0.15)


def fitted(emission, parameters, series):
    model = m.HiddenMarkov(2, emission)
    position = model.position(jnp.full((2, 2), 0.5), parameters)
    kernel = sghmc(Minibatch(model, Window(2)), 1e-3, friction=1.0)
    return sample(KEY, kernel, position, series, num_steps=1)


def normal(*shape, scale=None):
    return {"mean": jnp.zeros(shape), "log_scale": jnp.zeros(shape if scale is None else scale)}


BAD = {
    "rows of scalars": (
        lambda: fitted(m.NormalEmission(), normal(2), jnp.ones((5, 2))),
        r"shape of one state's.*NormalEmission, got rows of shape \(2,\).*'mean': \(\)",
    ),
    "rows of vectors": (
        lambda: fitted(m.NormalEmission(), normal(2, 3), jnp.ones(5)),
        r"got rows of shape \(\) and parameters of shapes \{'mean': \(3,\)",
    ),
    "one scale": (
        lambda: fitted(m.NormalEmission(), normal(2, 3, scale=2), jnp.ones((5, 3))),
        r"'mean': \(3,\), 'log_scale': \(\)",
    ),
    "rows in a dict": (
        lambda: fitted(m.NormalEmission(), normal(2), {"y": jnp.ones(5)}),
        "the series must be one array for NormalEmission, got .*y: float",
    ),
    "count of vectors": (
        lambda: fitted(m.PoissonEmission(), {"log_rate": jnp.zeros((2, 3))}, jnp.ones(5)),
        r"PoissonEmission, got rows of shape \(\)",
    ),
    "vector of counts": (
        lambda: fitted(m.PoissonEmission(), {"log_rate": jnp.zeros(2)}, jnp.ones((5, 2))),
        r"PoissonEmission, got rows of shape \(2,\)",
    ),
    "no counts": (
        lambda: fitted(m.PoissonEmission(), {"log_rate": jnp.zeros(2)}, -jnp.ones(5)),
        "the series must be of counts 0, 1, 2, ... for PoissonEmission, got",
    ),
    "halves": (
        lambda: problem("Poisson")[0].log_likelihood(problem("Poisson")[1], jnp.full(5, 0.5)),
        "the series must be of counts",
    ),
    "no symbols": (
        lambda: fitted(m.CategoricalEmission(3), {"logits": jnp.zeros((2, 2))}, jnp.ones(5)),
        "the series must be of whole numbers, got float",
    ),
    "symbol": (
        lambda: fitted(m.CategoricalEmission(3), {"logits": jnp.zeros((2, 2))}, jnp.arange(5)),
        "the series must be of symbols 0 to 2 for CategoricalEmission, got 0 to 4",
    ),
    "symbols of a row": (
        lambda: fitted(
            m.CategoricalEmission(3), {"logits": jnp.zeros((2, 2))}, jnp.ones((5, 2), int)
        ),
        r"CategoricalEmission, got rows of shape \(2,\)",
    ),
    "logits of a state": (
        lambda: fitted(m.CategoricalEmission(3), {"logits": jnp.zeros((2, 3))}, jnp.ones(5, int)),
        r"logits must be of shape \(2,\) in each state, num_symbols less one, got \(3,\)",
    ),
    "states": (lambda: m.HiddenMarkov(1, m.NormalEmission()), "num_states must be.*2, got 1"),
    "emission": (lambda: m.HiddenMarkov(2, None), "emission must be an Emission.*NoneType"),
    "alpha": (
        lambda: m.HiddenMarkov(2, m.NormalEmission(), jnp.ones(2)),
        r"concentration must be a number or of shape \(2, 2\), got shape \(2,\)",
    ),
    "initial": (
        lambda: m.HiddenMarkov(2, m.NormalEmission(), initial=(0.5, 0.6)),
        "initial must be probabilities, which sum to one",
    ),
    "initial shape": (
        lambda: m.HiddenMarkov(2, m.NormalEmission(), initial=np.ones(3) / 3),
        r"initial must be of shape \(2,\), got \(3,\)",
    ),
    "scale": (lambda: m.NormalEmission(scale=-1.0), "scale must be finite and positive"),
    "precision": (lambda: m.NormalEmission(precision_prior=1.0), "precision_prior must be"),
    "no rate": (lambda: m.PoissonEmission(None), "rate_prior must be a pair"),
    "symbols": (lambda: m.CategoricalEmission(1), "num_symbols must be.*2, got 1"),
    "rows": (
        lambda: problem()[0].log_likelihood({"transition": jnp.zeros((2, 2))}, jnp.ones(3)),
        'position of HiddenMarkov must be a dict of "transition" and "emission"',
    ),
    "logits": (
        lambda: problem()[0].logprior({**problem()[1], "transition": jnp.zeros((2, 2))}),
        r"position\['transition'\] must be of shape \(2, 1\), got \(2, 2\)",
    ),
    "axis": (
        lambda: problem()[0].logprior({**problem()[1], "emission": {"mean": jnp.zeros(3)}}),
        r"position\['emission'\]\['mean'\] must have a leading axis of 2 states",
    ),
    "vector": (
        lambda: m.HiddenMarkov(
            2, m.FunctionEmission(lambda w: -w, lambda w, y: w * jnp.ones(2))
        ).log_likelihood({"transition": jnp.zeros((2, 1)), "emission": jnp.zeros(2)}, jnp.ones(3)),
        "loglik of FunctionEmission must return one floating number",
    ),
    "no windows": (
        lambda: sample(
            KEY, hmc(Minibatch(problem()[0], Full()), 0.1, 2), *problem()[1:], num_steps=1
        ),
        r"items of HiddenMarkov must be windows of a series.*Window\(length, buffer\)",
    ),
    "matrix": (lambda: problem()[0].position(np.eye(3), {}), r"transition must be of shape \(2, 2"),
    "simulate": (
        lambda: m.HiddenMarkov(2, exponential()).simulate(
            KEY, {"transition": jnp.zeros((2, 1)), "emission": jnp.zeros(2)}, 3
        ),
        "FunctionEmission has no sample",
    ),
}


@pytest.mark.parametrize("name", list(BAD))
def test_what_does_not_fit_is_refused(name):
    make, message = BAD[name]
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_a_rare_state_beside_quick_ones_in_float32():
    """Whose rate is lost in the sums of the others' rows."""
    transition = np.array([[0.5, 0.5, 1e-8], [0.5, 0.5, 0.0], [1e-8, 0.0, 1.0]], np.float32)
    law = forward_backward.stationary(jnp.asarray(transition))
    np.testing.assert_allclose(law, [1 / 3, 1 / 3, 1 / 3], rtol=1e-5)
    mixed = np.random.default_rng(0).dirichlet(np.ones(5), 5)
    law = np.asarray(forward_backward.stationary(jnp.asarray(mixed, jnp.float32)))
    np.testing.assert_allclose(law @ mixed, law, rtol=1e-5)
    assert law.sum() == pytest.approx(1)


@pytest.mark.parametrize("rates", [(1e-8, 1e-8), (1e-7, 3e-7), (1e-12, 0.5), (0.3, 0.6)])
def test_the_stationary_law_of_persistent_states_in_float32(rates):
    """1 - P_ii has no digits where rates are small."""
    up, down = rates
    transition = jnp.array([[1 - up, up], [down, 1 - down]], jnp.float32)
    law = forward_backward.stationary(transition)
    np.testing.assert_allclose(law, np.array([down, up]) / (up + down), rtol=1e-5)
