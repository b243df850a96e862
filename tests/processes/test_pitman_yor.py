"""What sizes of clusters say of the concentration and the discount, in float32 of many items."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import gamma, kstest

from sgmc_jax.bnp import DirichletProcess, NormalKnownCovariance, PitmanYor, collapsed_mixture
from sgmc_jax.collective import Dist
from sgmc_jax.processes.gamma_prior import at_least_tiny, redraw_concentration
from sgmc_jax.processes.pitman_yor import Sticks
from tests.laws.moments import check_law, fault_is_seen, fewer

KEY = jax.random.key(0)
PROCESS = PitmanYor(1.0, 0.3, prior=(1.0, 1.0))
HYPER = [(-0.05, 0.1), (0.5, 0.1), (1.0, 0.3), (1.1, 0.3), (5.0, 0.55)]
COUNTS = np.array([2_000_000, 700_001, 90_000, 12_345, 800, 77, 16, 3, 1, 1, 0, 0])
FEW = np.array([4, 2, 1, 1, 0])


def exact(a, d, counts):
    m = counts[counts > 0].astype(float)
    births = np.sum(np.log(a + d * np.arange(1, len(m))))
    joins = np.sum(gammaln(m - d) - gammaln(1 - d))
    return births + joins - gammaln(a + m.sum()) + gammaln(a + 1)


def check_differences(logdensity, counts=COUNTS):
    args = [{"concentration": jnp.float32(a), "discount": jnp.float32(d)} for a, d in HYPER]
    value = np.array([logdensity(hyper, jnp.asarray(counts)) for hyper in args])
    truth = np.array([exact(a, d, counts) for a, d in HYPER])
    np.testing.assert_allclose(np.diff(value), np.diff(truth), rtol=1e-4, atol=1e-3)


def test_of_three_million_items():
    check_differences(PROCESS._log_hyper)
    check_differences(PROCESS._log_hyper, FEW)
    check_differences(PROCESS.logdensity, FEW)


def test_factorials_that_swamp_the_rest_are_seen():
    """With them sums of thirty million leave steps of two in float32."""
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_differences(PROCESS.logdensity)


def test_it_is_the_probability_of_a_partition(x64):
    hyper = {"concentration": jnp.float64(1.0), "discount": jnp.float64(0.3)}
    # two together, one alone, one with the two: (1 - d) / 2, (a + d) / 3 and (2 - d) / 4
    value = PROCESS.logdensity(hyper, jnp.array([3, 1, 0]))
    np.testing.assert_allclose(value, np.log(0.7 * 1.3 * 1.7 / 24), rtol=1e-12)
    assert float(PROCESS.logdensity(hyper, jnp.zeros(3, int))) == 0.0


# ---------------------------------------------------- a discount that the data hold near zero

EVEN = jnp.full(40, 20_000)


def share_below(limit):
    """P(d < limit) given forty clusters of one size, on a grid of log a and logit d."""
    a, logit = np.linspace(-4, 4, 161), np.linspace(-16, 1, 341)
    a, d = np.meshgrid(np.exp(a), 1 / (1 + np.exp(-logit)), indexing="ij")
    density = jax.vmap(lambda a, d: WALKED._log_hyper({"concentration": a, "discount": d}, EVEN))
    log = np.asarray(density(a.ravel(), d.ravel()), np.float64).reshape(a.shape)
    log = log + 2 * np.log(a) - a + np.log(d) + np.log1p(-d)
    weight = np.exp(log - log.max())
    return weight[d < limit].sum() / weight.sum()


WALKED = PitmanYor(2.0, 0.05, prior=(2.0, 1.0))


def check_walk(limit=1e-3):
    def chain(key):
        def move(hyper, key):
            hyper = WALKED.redraw(key, hyper, EVEN)
            return hyper, hyper["discount"]

        keys = jax.random.split(key, fewer(3_200) + 200)
        return jax.lax.scan(move, WALKED.start(), keys)[1][200:]

    draws = jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(1), 200))
    check_law(np.mean(draws < limit, axis=1), share_below(limit), 0.15)


def test_a_discount_comes_near_zero_as_often_as_it_should(x64):
    check_walk()


@pytest.mark.full
@pytest.mark.at_length
def test_a_proposal_that_is_held_above_is_seen(x64, monkeypatch):
    """From less than a thousandth it would come from there, and never go back as often."""
    honest = PitmanYor._walk

    def held(self, key, hyper, logdensity):
        least = jnp.maximum(hyper["discount"], 1e-3)
        return honest(self, key, hyper | {"discount": least}, logdensity)

    monkeypatch.setattr(PitmanYor, "_walk", held)
    fault_is_seen(check_walk)


def check_sticks(process, num_moves=10):
    """(a, d, sticks) from their joint law keep it where (a, d) are drawn anew given the sticks.

    What is looked at has the same mean before and after, so that the differences have none.
    """
    used, index = jnp.arange(6) < 4, jnp.arange(1.0, 7.0)

    def one(key):
        keys = jax.random.split(key, 3 + num_moves)
        a = jax.random.gamma(keys[0], 2.0)
        d = jax.random.uniform(keys[1]) if type(process) is PitmanYor else jnp.zeros(())
        parts = jax.random.loggamma(keys[2], jnp.stack([jnp.full(6, 1 - d), a + index * d], 1))
        series = Sticks(*jax.nn.log_softmax(parts).T)

        def looked_at(hyper):
            a, d = hyper["concentration"], hyper["discount"]
            left = jnp.where(used, series.log_left, 0)
            sums = jnp.array([jnp.sum(left), jnp.sum(left * index)])
            weights = jnp.where(used, jnp.exp(series.log_stick), 0)
            own = jnp.array([a, jnp.log(a), d, a * d, d * jnp.sum(weights)])
            return jnp.concatenate([own, jnp.log(a) * sums, d * sums])

        before = {"concentration": a, "discount": d}
        move = lambda hyper, key: (process.redraw_from_series(key, hyper, series, used), None)
        after, _ = jax.lax.scan(move, before, keys[3:])
        return looked_at(after) - looked_at(before)

    keys = jax.random.split(KEY, fewer(160_000))
    gained = np.asarray(jax.jit(jax.vmap(one))(keys), float)
    standard = gained.std(0, ddof=1) / np.sqrt(len(gained))
    moved = standard > 0  # of a Dirichlet process the discount stays
    assert moved.sum() == (9 if type(process) is PitmanYor else 4)
    assert np.all(np.abs(gained.mean(0)[moved]) < 5.5 * standard[moved]), gained.mean(0) / standard


@pytest.mark.parametrize(
    "process", [PitmanYor(1.0, 0.5, (2.0, 1.0)), DirichletProcess(1.0, (2.0, 1.0))]
)
def test_hyper_parameters_given_sticks(process, x64):
    check_sticks(process)


def test_sticks_that_are_counted_from_zero_are_seen(monkeypatch, x64):
    honest = PitmanYor._walk

    def shifted(self, key, hyper, logdensity):
        less = lambda h: h | {"concentration": h["concentration"] - h["discount"]}
        return honest(self, key, hyper, lambda h: logdensity(less(h)))

    monkeypatch.setattr(PitmanYor, "_walk", shifted)
    with pytest.raises(AssertionError):
        check_sticks(PitmanYor(1.0, 0.5, (2.0, 1.0)))


def test_the_discount_of_a_dirichlet_process_is_its_own():
    """A start may come from a Pitman-Yor run: with a prior, too, its discount is left behind."""
    family = NormalKnownCovariance(0.0, 1.0, 4.0)
    for prior in (None, (1.0, 1.0)):
        kernel = collapsed_mixture(DirichletProcess(1.0, prior), family)
        shared = {"concentration": jnp.array(2.0), "discount": jnp.array(0.5)}
        start = Dist(shared, {"assignment": jnp.array([0, 1, 0])})
        state = kernel.init(KEY, start, jnp.zeros((3, 1)))
        assert state.position.shared["discount"] == 0


def test_the_concentration_of_no_points_has_its_prior():
    keys = jax.random.split(KEY, 4_096)
    none = jnp.zeros((), jnp.int32)
    draw = lambda key: redraw_concentration(key, jnp.ones(()), (2.0, 0.5), none, none)
    assert kstest(jax.vmap(draw)(keys), gamma(2.0, scale=2.0).cdf).pvalue > 1e-6


@pytest.mark.parametrize("a", [1e-3, 1.0, 1e4, 1e6])
def test_concentrations_that_are_larger_than_the_data(a):
    """In float32; log Gamma(a + 1), of which little is left, is 1e7."""
    hyper = {"concentration": jnp.float32(a), "discount": jnp.float32(0.0)}
    sizes = np.array([50, 30, 20])
    expected = np.sum(gammaln(sizes)) + 2 * np.log(a) - np.sum(np.log(a + np.arange(1, 100)))
    np.testing.assert_allclose(PROCESS.logdensity(hyper, jnp.asarray(sizes)), expected, rtol=1e-5)


def test_weights_of_some_clusters_and_the_rest():
    """Shares of A are Dirichlet, m - d each and a + J d + n_0 of the rest."""
    process, counts = PitmanYor(0.8, 0.6), jnp.array([4, 1, 2])
    among, shapes = jnp.array([True, False, True]), np.array([3.4, 1.4, 0.8 + 2 * 0.6 + 1])

    def shares(key):
        log_weight, log_rest = process.draw_weights(key, process.start(), counts, among)
        return jax.nn.softmax(jnp.stack([log_weight[0], log_weight[2], log_rest]))

    drawn = np.asarray(jax.jit(jax.vmap(shares))(jax.random.split(KEY, 20_000)), float)
    mean = shapes / shapes.sum()
    standard = np.sqrt(mean * (1 - mean) / (shapes.sum() + 1) / 20_000)
    assert np.all(np.abs(drawn.mean(0) - mean) < 5.5 * standard)


def test_a_gamma_draw_that_underflows_is_the_smallest_number():
    assert at_least_tiny(jnp.zeros(()), jnp.float32) == jnp.finfo(jnp.float32).tiny
