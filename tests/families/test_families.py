"""Every family against naive sums, scipy's densities, chains of predictives and closed forms."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

from sgmc_jax import families as fam
from sgmc_jax.arrays import chunks
from tests.laws import moments

D = 3
MEAN = np.array([0.5, -1.0, 2.0])
S = np.array([[1.0, 0.3, 0.0], [0.3, 0.8, -0.2], [0.0, -0.2, 1.5]])
V = np.array([[4.0, 1.0, 0.5], [1.0, 2.0, 0.0], [0.5, 0.0, 3.0]])
ALPHA = np.array([0.5, 1.3, 2.0])
A, B = np.array([0.7, 2.0, 5.0]), np.array([0.5, 1.0, 2.0])
KAPPA, NU = 0.6, 5.5


def known():
    return fam.NormalKnownCovariance(MEAN, S, V)


def wishart():
    return fam.NormalInverseWishart(D, MEAN, KAPPA, NU, V)


def diagonal():
    return fam.NormalGamma(D, MEAN, KAPPA, A, B)


def multinomial():
    return fam.DirichletMultinomial(ALPHA)


def poisson():
    return fam.PoissonGamma(A, B)


def categorical():
    return fam.DirichletCategorical(ALPHA)


NORMAL, COUNTS = [known, wishart, diagonal], [multinomial, poisson]
VECTORS = NORMAL + COUNTS
ALL = [*VECTORS, categorical]


def items_of(make, n=40, seed=0):
    rng = np.random.default_rng(seed)
    if make is categorical:
        return rng.choice(D, n, p=[0.2, 0.3, 0.5])
    if make in COUNTS:
        return rng.poisson([1.0, 3.0, 6.0], (n, D))
    return rng.normal(size=(n, D)) * [1.0, 2.0, 0.5] + MEAN + 0.7


def one_hot(n, k, seed=1, empty=1):
    """Random labels in the first k - empty of k clusters."""
    labels = np.random.default_rng(seed).integers(0, k - empty, n)
    return labels, jnp.asarray(np.eye(k)[labels].T)


def close(a, b, rtol=1e-9, atol=1e-9):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol, atol), a, b)


@pytest.mark.parametrize("make", ALL)
def test_statistics_are_sums_over_items(make, x64, monkeypatch):
    family, x = make(), items_of(make, 200)
    labels, weights = one_hot(200, 4)
    stats = family.statistics(x, weights)
    naive = family.zero_statistics(4, x[0])
    for item, k in zip(x, labels):
        one = family.item_statistics(item)
        naive = jax.tree.map(lambda s, a, k=k: s.at[k].add(a), naive, one)
    close(stats, naive)
    np.testing.assert_array_equal(stats.count, np.bincount(labels, minlength=4))
    monkeypatch.setattr(chunks, "_CHUNK", 64)  # of outer products: three chunks and a rest
    close(family.statistics(x, weights), stats)
    removed = jax.tree.map(lambda s, a: s[labels[0]] - a, stats, family.item_statistics(x[0]))
    close(jax.tree.map(lambda s: s[labels[0]], family.statistics(x[1:], weights[:, 1:])), removed)


def predictive_oracle(make, x, item):
    """The log posterior predictive of one item, from scipy and the textbook's formulas."""
    if make is categorical:  # of single draws
        return predictive_oracle(multinomial, np.eye(D)[x], np.eye(D)[item])
    n, centred = len(x), x - MEAN
    if make is known:
        precision = np.linalg.inv(V) + n * np.linalg.inv(S)
        post = np.linalg.inv(precision)
        mean = post @ (np.linalg.solve(V, MEAN) + np.linalg.solve(S, x.sum(0)))
        return st.multivariate_normal(mean, post + S).logpdf(item)
    if make is wishart:
        kappa, nu = KAPPA + n, NU + n
        bar = x.mean(0) if n else MEAN
        mean = (KAPPA * MEAN + n * bar) / kappa
        scatter = (x - bar).T @ (x - bar)
        psi = V + scatter + KAPPA * n / kappa * np.outer(bar - MEAN, bar - MEAN)
        df = nu - D + 1
        return st.multivariate_t(mean, psi * (kappa + 1) / (kappa * df), df).logpdf(item)
    if make is diagonal:
        kappa, a = KAPPA + n, A + n / 2
        mean = MEAN + centred.sum(0) / kappa
        b = B + 0.5 * ((centred**2).sum(0) - kappa * (mean - MEAN) ** 2)
        scale = np.sqrt(b * (kappa + 1) / (a * kappa))
        return st.t(2 * a, mean, scale).logpdf(item).sum()
    if make is multinomial:
        return st.dirichlet_multinomial(ALPHA + x.sum(0), item.sum()).logpmf(item)
    rate = B + n
    return st.nbinom(A + x.sum(0), rate / (rate + 1)).logpmf(item).sum()


@pytest.mark.parametrize("make", ALL)
def test_predictive_is_the_textbook_law(make, x64):
    family, x = make(), items_of(make)
    labels, weights = one_hot(len(x), 4)
    stats = family.statistics(x, weights)
    for item in items_of(make, 3, seed=5):
        expected = [predictive_oracle(make, x[labels == k], item) for k in range(4)]
        close(family.log_predictive(stats, item), np.array(expected))


@pytest.mark.parametrize("make", ALL)
def test_marginal_is_the_chain_of_predictives(make, x64):
    family, x = make(), items_of(make, 12)
    stats, total = family.zero_statistics(2, x[0]), 0.0
    log_predictive = jax.jit(lambda stats, item: family.log_predictive(stats, item))
    for item in x:
        total += log_predictive(stats, item)[0]
        one = family.item_statistics(item)
        stats = jax.tree.map(lambda s, a: s.at[0].add(a), stats, one)
    marginal = family.log_marginal(stats)
    close(marginal[0] + family.log_base(x).sum(), total)
    assert marginal[1] == 0


@pytest.mark.parametrize("make", [wishart, categorical])
def test_an_item_that_joins_or_leaves_a_cluster(make, x64):
    family, x = make(), items_of(make)
    labels, weights = one_hot(len(x), 4)

    @jax.jit
    def both(family, weights):
        stats = family.statistics(x, weights)
        return stats, family.predictive(stats)

    k = labels[0]
    count, whole = np.sum(labels == k), both(family, weights)
    without = both(family, weights.at[k, 0].set(0))
    move = jax.jit(lambda f, before, count, sign: f.move(*before, k, count, x[0], sign))
    close(move(family, without, count, 1), whole)
    close(move(family, whole, count - 1, -1), without)


@pytest.mark.parametrize("make", NORMAL)
def test_base_measure_of_the_normal_families(make, x64):
    family, x = make(), items_of(make)
    expected = st.multivariate_normal(MEAN, S).logpdf(x) if make is known else np.zeros(len(x))
    close(family.log_base(x), expected)


def loglik_oracle(make, params, x):
    def one(k):
        row = jax.tree.map(lambda p: np.asarray(p[k]), params)
        if make is known:
            return st.multivariate_normal(row.mean, S).logpdf(x)
        if make is wishart:
            return st.multivariate_normal(row.mean, params.covariance[k]).logpdf(x)
        if make is diagonal:
            return st.norm(row.mean, np.exp(-0.5 * row.log_precision)).logpdf(x).sum(1)
        if make is categorical:
            return row.log_probability[x]
        if make is multinomial:
            p = np.exp(row.log_probability)
            return st.multinomial(x.sum(1), p / p.sum()).logpmf(x)
        return st.poisson(np.exp(row.log_mean)).logpmf(x).sum(1)

    return np.stack([one(k) for k in range(len(params[0]))])


@pytest.mark.parametrize("make", ALL)
def test_loglik_is_the_textbook_density(make, x64, monkeypatch):
    family, x = make(), items_of(make, 200)
    params = family.draw(jax.random.key(0), family.statistics(x, one_hot(200, 4)[1]))
    close(family.loglik(params, x), loglik_oracle(make, params, x))
    monkeypatch.setattr(chunks, "_CHUNK", 64)
    close(family.loglik(params, x), loglik_oracle(make, params, x))


@pytest.mark.parametrize("make", ALL)
def test_float32_stays_close_to_float64(make, x64):
    family, x = make(), items_of(make, 2000)
    single = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), family)
    x, weights = x if make is categorical else x.astype(np.float64), one_hot(2000, 4)[1]
    x32 = x if make is categorical else x.astype(np.float32)
    w32 = weights.astype(jnp.float32)
    stats, stats32 = family.statistics(x, weights), single.statistics(x32, w32)
    params = family.draw(jax.random.key(0), stats)
    params32 = jax.tree.map(lambda p: p.astype(jnp.float32), params)

    @jax.jit
    def computed(family, params, stats, x):
        marginals = family.log_predictive(stats, x[0]), family.log_marginal(stats)
        return stats, family.loglik(params, x), *marginals

    ours, exact = computed(single, params32, stats32, x32), computed(family, params, stats, x)
    for a, b in zip(ours, exact):
        assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(a))
        close(a, b, 2e-5, 2e-3)
    drawn = single.draw(jax.random.key(1), stats32)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(drawn))


# Moments of the posterior in closed form, with functions of the parameters whose means they are.
def posterior_moments(make, x):
    if make is categorical:
        return posterior_moments(multinomial, np.eye(D)[x])
    n, centred = len(x), x - MEAN
    if make is known:
        post = np.linalg.inv(np.linalg.inv(V) + n * np.linalg.inv(S))
        mean = post @ (np.linalg.solve(V, MEAN) + np.linalg.solve(S, x.sum(0)))
        products = lambda p: jnp.einsum("ki,kj->kij", p.mean - mean, p.mean - mean)
        return [(lambda p: p.mean, mean), (products, post)]
    if make is wishart:
        kappa, nu = KAPPA + n, NU + n
        mean = MEAN + centred.sum(0) / kappa
        psi = V + centred.T @ centred - kappa * np.outer(mean - MEAN, mean - MEAN)
        precision = lambda p: jnp.einsum("kij,kil->kjl", p.whitener, p.whitener)
        products = lambda p: jnp.einsum("ki,kj->kij", p.mean - mean, p.mean - mean)
        inverse = np.linalg.inv(psi)
        # E W_ij^2 = nu ((nu + 1) P_ij^2 + P_ii P_jj)
        square = (nu + 1) * inverse**2 + np.outer(np.diag(inverse), np.diag(inverse))
        return [
            (lambda p: p.mean, mean),
            (precision, nu * inverse),
            (lambda p: precision(p) ** 2, nu * square),
            (lambda p: p.covariance, psi / (nu - D - 1)),
            (products, psi / (nu - D - 1) / kappa),
        ]
    if make is diagonal:
        kappa, a = KAPPA + n, A + n / 2
        mean = MEAN + centred.sum(0) / kappa
        b = B + 0.5 * ((centred**2).sum(0) - kappa * (mean - MEAN) ** 2)
        scaled = lambda p: (p.mean - mean) ** 2 * jnp.exp(p.log_precision)
        return [
            (lambda p: p.mean, mean),
            (lambda p: jnp.exp(p.log_precision), a / b),
            (lambda p: jnp.exp(2 * p.log_precision), a * (a + 1) / b**2),
            (scaled, np.full(D, 1 / kappa)),
        ]
    if make is multinomial:
        alpha = ALPHA + x.sum(0)
        p, total = alpha / alpha.sum(), alpha.sum()
        return [
            (lambda q: jnp.exp(q.log_probability), p),
            (lambda q: jnp.exp(2 * q.log_probability), p * (alpha + 1) / (total + 1)),
        ]
    a, b = A + x.sum(0), B + n
    return [
        (lambda p: jnp.exp(p.log_mean), a / b),
        (lambda p: jnp.exp(2 * p.log_mean), a * (a + 1) / b**2),
    ]


def drawn_and_moments(make, n, draws=40_000):
    family, x = make(), items_of(make, n, seed=2)
    stats = family.statistics(x, jnp.ones((1, n)))
    many = jax.tree.map(lambda s: jnp.broadcast_to(s, (draws, *s.shape[1:])), stats)
    params = jax.jit(lambda family, stats: family.draw(jax.random.key(3), stats))(family, many)
    return params, posterior_moments(make, x)


@pytest.mark.parametrize("make", ALL)
def test_draws_have_the_posterior_moments(make, x64):
    """False alarm below 1e-6 a number. Posteriors of 6 items, where all the moments exist."""
    params, expected = drawn_and_moments(make, 6)
    for function, value in expected:
        moments.check_mean(function(params), value, 0.1)


@pytest.mark.parametrize("make", ALL)
def test_a_planted_fault_is_seen(make, x64):
    """Draws from the posterior that counts one item twice."""
    params, _ = drawn_and_moments(make, 6)
    x = items_of(make, 6, seed=2)
    with pytest.raises(AssertionError, match="standard errors"):
        for function, value in posterior_moments(make, np.concatenate([x, x[:1]])):
            moments.check_mean(function(params), value, 0.1)


def test_bartlett_degrees_of_freedom_are_seen(x64, monkeypatch):
    """The common slip, chi variates in the wrong order, fails."""
    module = importlib.import_module("sgmc_jax.families.normal_inverse_wishart")
    right = module.slot_log_gamma
    monkeypatch.setattr(module, "slot_log_gamma", lambda key, a: right(key, a[:, ::-1]))
    params, expected = drawn_and_moments(wishart, 6)
    with pytest.raises(AssertionError, match="standard errors"):
        for function, value in expected:
            moments.check_mean(function(params), value, 0.1)


@pytest.mark.parametrize("make", ALL)
def test_empty_clusters_draw_from_the_prior(make, x64):
    params, expected = drawn_and_moments(make, 0)
    function, value = expected[1 if make in (wishart, diagonal) else 0]  # has a variance too
    moments.check_mean(function(params), value, 0.1)
    assert all(jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(params))


@pytest.mark.parametrize("partitionable", [True, pytest.param(False, marks=pytest.mark.full)])
@pytest.mark.parametrize("make", ALL)
def test_draws_do_not_depend_on_the_capacity(make, partitionable):
    before = jax.config.jax_threefry_partitionable
    jax.config.update("jax_threefry_partitionable", partitionable)
    try:
        family, x = make(), items_of(make)
        few = family.statistics(x, one_hot(len(x), 4)[1])
        pad = lambda s: jnp.concatenate([s, jnp.zeros((9, *s.shape[1:]), s.dtype)])
        draw = jax.jit(lambda family, key, stats: family.draw(key, stats))
        for key in (jax.random.key(7), jax.random.key(7, impl="rbg")):
            a, b = draw(family, key, few), draw(family, key, jax.tree.map(pad, few))
            close(a, jax.tree.map(lambda leaf: leaf[:4], b), 1e-5, 1e-6)
            rows = np.asarray(b[0])
            assert len(np.unique(rows[:, 0])) == len(rows)
    finally:
        jax.config.update("jax_threefry_partitionable", before)


@pytest.mark.parametrize("make", ALL)
def test_jit_and_vmap_agree_with_loops(make, x64):
    family, x = make(), items_of(make)
    weights = jnp.stack([one_hot(len(x), 4, seed)[1] for seed in (1, 2)])
    keys = jax.random.split(jax.random.key(0), 2)

    def everything(family, key, weights):
        stats = family.statistics(x, weights)
        params = family.draw(key, stats)
        predictive = family.log_predictive(stats, x[0])
        return params, family.loglik(params, x), predictive, family.log_marginal(stats)

    mapped = jax.jit(jax.vmap(everything, (None, 0, 0)))(family, keys, weights)
    for i in range(2):
        one = jax.tree.map(lambda leaf, i=i: leaf[i], mapped)
        close(one, everything(family, keys[i], weights[i]))


def test_no_items_at_all():
    for make in ALL:
        family, some = make(), items_of(make, 1)
        stats = family.statistics(some[:0], jnp.zeros((2, 0)))
        close(stats, family.zero_statistics(2, some[0]))
        drawn = jax.jit(lambda f, stats: f.draw(jax.random.key(0), stats))(family, stats)
        assert family.loglik(drawn, some[:0]).shape == (2, 0)


@pytest.mark.parametrize("make", VECTORS)
def test_unfit_data_are_refused(make):
    family, x = make(), items_of(make)
    family.check(x)
    jax.jit(lambda x: family.check(x))(x)
    with pytest.raises(ValueError, match=r"data must be of shape \(n, 3\), got shape \(40, 2\)"):
        family.check(x[:, :2])
    with pytest.raises(ValueError, match="data must be finite, got NaN"):
        family.check(np.where(x == x[3, 1], np.nan, x))
    with pytest.raises(TypeError, match="data must be real"):
        family.check(x * 1j)
    with pytest.raises(ValueError, match=r"items must be of shape \(n, 3\)"):
        family.statistics(x[:, :2], jnp.ones((1, 40)))
    if make in COUNTS:
        with pytest.raises(ValueError, match="data must be counts, got a negative number, -1"):
            family.check(x - x.min() - 1)
        with pytest.raises(ValueError, match="data must be counts, got a fraction, "):
            family.check(x + 0.5)
