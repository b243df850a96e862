"""Counts so large that float32 does not hold log probabilities to a tenth."""

import warnings

import jax
import jax.numpy as jnp
import jax.test_util
import numpy as np
import pytest
from scipy.special import betaln, gammaln
from scipy.stats import multinomial, norm, poisson

from sgmc_jax import sample, scan_kernel
from sgmc_jax.bnp import (
    DirichletProcess,
    collapsed_mixture,
    hybrid_mixture,
    predictive,
    slice_mixture,
    split_merge,
)
from sgmc_jax.collective import Shard
from sgmc_jax.families import (
    DirichletMultinomial,
    NormalGamma,
    NormalKnownCovariance,
    PoissonGamma,
    _counts,
)
from sgmc_jax.families.dirichlet_multinomial import Multinomials
from sgmc_jax.families.normal_known_covariance import Location
from sgmc_jax.families.poisson_gamma import Poissons
from sgmc_jax.processes import BetaBernoulli
from tests.laws.moments import check_mean

KEY = jax.random.key(0)


@pytest.mark.parametrize("total", [0, 1, 100, 1_000, 10**6, 10**7])
def test_rows_of_any_total_have_their_predictive_density(total):
    """Sums of log factorials had errors of a nat at 10^6, and of 200 at 10^8."""
    rng, family = np.random.default_rng(0), DirichletMultinomial(0.5, size=50)
    *rows, x = rng.multinomial(total, rng.dirichlet(np.ones(50)), size=4)
    stats = family.statistics(jnp.asarray(np.stack(rows)), jnp.ones((1, 3)))
    for given, alpha in ((stats, 0.5 + np.sum(rows, 0)), (family.zero_statistics(1, x), 0.5)):
        alpha = np.broadcast_to(alpha, 50).astype(float)
        wanted = (
            gammaln(total + 1) - gammaln(x + 1).sum() + (gammaln(alpha + x) - gammaln(alpha)).sum()
        )
        wanted -= gammaln(alpha.sum() + total) - gammaln(alpha.sum())
        got = float(family.log_predictive(given, jnp.asarray(x))[0])
        assert got == pytest.approx(wanted, rel=1e-6, abs=1e-4)


COUNTS = [DirichletMultinomial(0.5, 4), PoissonGamma(1.0, 1e-6, 4)]


@pytest.mark.parametrize("family", COUNTS, ids=["multinomial", "poisson"])
@pytest.mark.parametrize("total", [0, 30, 10**6, 10**8])
def test_likelihoods_and_scores_keep_their_digits(family, total):
    """Under parameters that fit; of differences of sums of 1e9 in float32 nothing was left."""
    rng = np.random.default_rng(total)
    share = rng.dirichlet(np.ones(4), 3) if total < 100 else np.full((3, 4), 0.25)
    x = np.stack([rng.multinomial(total, p) for p in share]).astype(np.float32)
    means = np.float32(total * share + rng.normal(size=(3, 4)) * np.sqrt(total * share) + 1)
    means = np.maximum(means, 0.1)
    if isinstance(family, DirichletMultinomial):
        params = Multinomials(jnp.log(means / means.sum(1, keepdims=True)))
        p = np.asarray(jnp.exp(params.log_probability), float)  # as they are rounded
        wide = x.astype(float)
        of = lambda p: multinomial.logpmf(wide, wide.sum(1), p / p.sum())
        wanted = np.stack([of(each) for each in p])
    else:
        params = Poissons(jnp.log(means))
        mean = np.asarray(jnp.exp(params.log_mean), float)
        wanted = poisson.logpmf(x[None], mean[:, None]).sum(-1)
    np.testing.assert_allclose(family.loglik(params, x), wanted, rtol=1e-4, atol=0.01)
    scores = np.asarray(family.scores(params, x))
    np.testing.assert_allclose(scores - scores[:1], wanted - wanted[:1], rtol=1e-4, atol=0.01)


@pytest.mark.parametrize("log", [-20.0, -88.0, -300.0])
def test_counts_that_a_cluster_hardly_has_are_scored(log):
    """Of more than 10^4 in all; at a mean that underflows, the score was NaN."""
    x, logs = np.array([[9_000, 2_000], [11_000, 0], [0, 7]]), np.float32([[0, log], [log, 0]])
    wanted = logs.astype(float) @ x.T
    got = np.asarray(DirichletMultinomial(0.03, 2).scores(Multinomials(jnp.asarray(logs)), x))
    np.testing.assert_allclose(got[0] - got[1], wanted[0] - wanted[1], rtol=1e-5)
    wanted = wanted - np.exp(logs.astype(float)).sum(1)[:, None]
    got = np.asarray(PoissonGamma(0.03, 1.0, 2).scores(Poissons(jnp.asarray(logs)), x))
    np.testing.assert_allclose(got[0] - got[1], wanted[0] - wanted[1], rtol=1e-5)


def test_documents_of_words_of_their_own_are_divided():
    """Each cluster lacks half of the words; no move was accepted."""
    half, rng = 200, np.random.default_rng(0)
    p = np.kron(np.eye(2), np.full(half, 1 / half))
    x = np.stack([rng.multinomial(20_000, p[i % 2]) for i in range(20)])
    parts = DirichletProcess(1.0), DirichletMultinomial(0.02, 2 * half)
    truth = np.arange(20) % 2
    run = sample(KEY, slice_mixture(*parts), truth, x, num_steps=3)
    assert np.all(run.stopped < 0)
    run = sample(KEY, split_merge(*parts), np.zeros(20, int), x, num_steps=20)
    z = run.trace.local["assignment"][-1]
    np.testing.assert_array_equal(z == z[0], truth == 0)


def of_counts(family, rows):
    logs = jnp.log(jax.random.dirichlet(KEY, jnp.ones(family.size), (3,)))
    kind = Multinomials if isinstance(family, DirichletMultinomial) else Poissons
    return family, kind(logs), jnp.asarray(rows)


NEAR, LARGE = [[3, 1, 0, 2], [0, 9, 4, 1]], [6_000, 3, 5_000, 1]
NORMAL, MEANS = NormalKnownCovariance(jnp.zeros(2), 1.0, 4.0), jnp.array([[1.0, 2.0], [-3.0, 0.4]])
BESIDE = {
    "multinomial": lambda last: of_counts(COUNTS[0], [*NEAR, last or [1, 1, 1, 1]]),
    "poisson": lambda last: of_counts(COUNTS[1], [*NEAR, last or [1, 1, 1, 1]]),
    "normal": lambda last: (
        NORMAL,
        Location(MEANS),
        jnp.array([[0.3, 7.0], [60.0, -40.0], [0.0, 300.0 if last else 1.0]]),
    ),
}


@pytest.mark.parametrize("name", BESIDE)
@pytest.mark.parametrize("what", ["scores", "loglik"])
def test_a_rows_numbers_are_its_own(name, what):
    """Or chains would be others on other shards."""
    alone, beside = (
        jax.jit(lambda params, x, family=family: getattr(family, what)(params, x))(params, x)
        for family, params, x in (BESIDE[name](None), BESIDE[name](LARGE))
    )
    np.testing.assert_array_equal(alone[:, :-1], beside[:, :-1])
    assert np.all(np.isfinite(beside))


@pytest.mark.parametrize("name", BESIDE)
@pytest.mark.parametrize("what", ["scores", "loglik"])
def test_small_rows_cost_a_batch_of_calls_no_deviances(name, what):
    """A `cond` by each call's own rows would compute both ways for all."""
    family, params, x = BESIDE[name](LARGE)
    of = jax.vmap(lambda x: getattr(family, what)(params, x))
    both = jnp.stack([x, x[::-1]])
    assert " cond[" in str(jax.make_jaxpr(of)(both))
    one = np.asarray(getattr(family, what)(params, x))
    np.testing.assert_allclose(of(both), [one, one[:, ::-1]], rtol=1e-5)


@pytest.mark.parametrize("name", BESIDE)
@pytest.mark.parametrize("last", [None, LARGE], ids=["small", "large"])
def test_likelihoods_have_gradients(name, last, x64):
    family, params, x = BESIDE[name](last)
    params = jax.tree.map(lambda p: p.astype(float), params)
    of = lambda params: jnp.sum(family.loglik(params, x.astype(float)))
    jax.test_util.check_grads(of, (params,), 1, modes=["fwd", "rev"], rtol=1e-5)


def test_words_that_a_document_lacks_add_nothing():
    """log 0! is 0, and in float32 that of `gammaln` another number."""
    size, rng = 200_000, np.random.default_rng(0)
    x = np.zeros(size)
    x[:80] = rng.integers(1, 3, 80)
    exact = -gammaln(x[:80] + 1).sum()
    base = float(PoissonGamma(1.0, 1.0, size).log_base(x[None])[0])
    assert base == pytest.approx(exact, abs=1e-4)
    base = float(DirichletMultinomial(1.0, size).log_base(x[None])[0])
    assert base == pytest.approx(exact + gammaln(x.sum() + 1), abs=1e-3)


def test_shards_of_large_counts_are_checked_as_a_whole():
    kernel, x = split_merge(DirichletProcess(1.0), COUNTS[0]), jnp.ones((8, 4))
    shard = Shard(x, 6, 0, 6)
    state = kernel.init(KEY, None, shard)
    scan_kernel(KEY, kernel, state, shard, 1)


@pytest.mark.parametrize("far", [1.0, 1e4])
def test_likelihoods_far_from_the_centre_keep_their_digits(far):
    """Products of 1e8 in float32 were off by 5."""
    family = NormalKnownCovariance(jnp.zeros(2), 1.0, 4.0)
    means = np.float32([[far, 0.3], [-far, far], [far + 1, 0.5]])
    x = means + np.float32([[0.5, -0.25], [1.0, 0.125], [0.0, 0.5]])
    wanted = norm.logpdf(x[None].astype(float), means[:, None].astype(float)).sum(-1)
    got = family.loglik(Location(jnp.asarray(means)), x)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-3)
    scores = np.asarray(family.scores(Location(jnp.asarray(means)), x))
    first = scores[0] - scores[2], wanted[0] - wanted[2]  # of two clusters that are near
    np.testing.assert_allclose(first[0][[0, 2]], first[1][[0, 2]], rtol=1e-5, atol=1e-3)


def test_marginals_of_large_counts_are_warned_of():
    with pytest.warns(UserWarning, match="counts so large that log marginals"):
        split_merge(DirichletProcess(1.0), COUNTS[1]).check(None, np.full((3, 4), 10**6))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        COUNTS[0].check_marginals(np.full((3, 4), 10**3))
        COUNTS[0].check_marginals(np.zeros((0, 4), int))


def test_marginals_in_double_precision_are_not(x64):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        COUNTS[1].check_marginals(np.full((3, 4), 10**6))


@pytest.mark.full
@pytest.mark.parametrize("make", [slice_mixture, hybrid_mixture])
def test_all_partitions_of_three_large_counts(make):
    """Against their probabilities."""
    check_partitions(make)


@pytest.mark.full
def test_products_of_logarithms_are_seen(monkeypatch):
    """They have another law: of three counts near 1e7 a fifth is misplaced."""
    monkeypatch.setattr(_counts, "_LARGE", np.inf)
    with pytest.raises(AssertionError, match="standard errors"):
        check_partitions(slice_mixture)


def check_partitions(make):
    x, family = np.array([[9_990_000], [10_000_000], [10_006_000]]), PoissonGamma(1e4, 1e-3, 1)
    ways = [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (0, 1, 2)]
    log = np.array([log_partition(x[:, 0], np.array(way)) for way in ways])
    exact = np.exp(log - log.max())
    kernel = make(DirichletProcess(1.0), family, capacity=16)
    args = {"num_chains": 256, "num_steps": 600, "burn_in": 50}
    z = sample(KEY, kernel, None, x, **args).trace.local["assignment"]
    same = np.stack([z[..., 0] == z[..., 1], z[..., 0] == z[..., 2], z[..., 1] == z[..., 2]], -1)
    of = np.array([[w[0] == w[1], w[0] == w[2], w[1] == w[2]] for w in ways])
    shares = (same[:, :, None] == of).all(-1).mean(1)
    check_mean(shares, exact / exact.sum(), 0.2)


def log_partition(x, way):
    """Up to a constant, by the textbook in double precision."""
    total = 0.0
    for k in set(way):
        own = x[way == k].astype(float)
        n, s = len(own), own.sum()
        total += gammaln(n) + gammaln(1e4 + s) - (1e4 + s) * np.log(1e-3 + n)
        total += 1e4 * np.log(1e-3) - gammaln(1e4)
    return total


@pytest.mark.parametrize("name", ["data", "items"])
def test_predictions_from_whole_numbers_of_64_bits_are_refused(name):
    """They wrapped around."""
    data = {"data": np.array([[1], [2]]), "items": np.array([[1]])}
    family, process = NormalGamma(1), DirichletProcess(1.0)
    run = sample(
        KEY, collapsed_mixture(process, family, capacity=8), None, data["data"], num_steps=2
    )
    data[name] = data[name] + 3 * 10**9
    with pytest.raises(ValueError, match=f"{name} must fit into 32 bits"):
        predictive(process, family, run.trace, data["data"], data["items"])


@pytest.mark.parametrize("num_items", [1, 3, 1_000_000])
@pytest.mark.parametrize("concentration", [1e-30, 1e-8, 1e-5, 0.3, 0.999, 1.0, 7.0])
def test_a_column_that_all_items_have_under_any_concentration(num_items, concentration):
    """log B(n, c) / B(n, 1) was infinite at c = 1e-8, and a chain that came there stayed."""
    column = BetaBernoulli(1.0).log_column(
        jnp.float32(concentration), jnp.array([num_items]), num_items
    )
    wanted = betaln(num_items, concentration) - betaln(num_items, 1.0)
    assert float(column[0]) == pytest.approx(wanted, rel=1e-5, abs=1e-4)
