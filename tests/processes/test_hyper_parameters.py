"""A process knows its hyper-parameters from the position; its own are the first values alone."""

import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln, digamma, gammaln, polygamma

from sgmc_jax.bnp.hybrid.grouped import ratios
from sgmc_jax.processes import (
    BetaBernoulli,
    DirichletProcess,
    GammaPoisson,
    HierarchicalDirichletProcess,
    PitmanYor,
)
from sgmc_jax.processes.gamma_prior import redraw_concentration
from sgmc_jax.processes.pitman_yor import Sticks

PRIORS = (2.0, 1.5), (3.0, 2.0)
CASES = [
    (PitmanYor(1.0, 0.5, PRIORS[0]), {"concentration": 2.5, "discount": 0.2}),
    (DirichletProcess(1.0, PRIORS[0]), {"concentration": 2.5, "discount": 0.0}),
    (BetaBernoulli(1.0, 3.0, *PRIORS), {"mass": 2.5, "concentration": 0.4}),
    (GammaPoisson(1.0, 3.0, *PRIORS), {"mass": 2.5, "concentration": 0.4}),
    (
        HierarchicalDirichletProcess(1.0, 3.0, *PRIORS),
        {"concentration": 2.5, "group_concentration": 0.4},
    ),
]
GIVEN = {
    "counts": jnp.array([3, 1, 0, 2]),
    "among": jnp.array([True, False, False, True]),
    "end": 5.0,
    "series": Sticks(*jnp.log(jnp.array([[0.4, 0.7, 0.2, 0.5], [0.6, 0.3, 0.8, 0.5]]))),
    "used": jnp.array([True, True, False, False]),
    "num_items": 4,
    "others": jnp.array([1, 2, 3]),
    "lower": jnp.array([0, 0, 1]),
    "u": jnp.linspace(0.01, 0.99, 50),
    "v": jnp.linspace(0.97, 0.02, 50),
    "tables": jnp.array([2, 1, 0, 1]),
    "log_ratio": jnp.array(-0.7),
    "ones": jnp.array(1),
}
KEYS = jax.random.split(jax.random.key(0), 50)  # one Metropolis step tells little of its target


def told_by(method, hyper):
    """What a method says of these hyper-parameters, `None` if it is given none."""
    names = inspect.signature(method).parameters
    if "hyper" not in names:
        return None
    given = {name: GIVEN[name] for name in names if name in GIVEN} | {"hyper": hyper}
    if "key" not in names:
        return method(**given)
    return jax.vmap(lambda key: method(key=key, **given))(KEYS)


@eqx.filter_jit
def all_told(process, hyper):
    names = (name for name in dir(process) if not name.startswith("_"))
    methods = {name: getattr(process, name) for name in names}
    return {name: told_by(x, hyper) for name, x in methods.items() if callable(x)}


@pytest.mark.parametrize("process,hyper", CASES, ids=[type(x).__name__ for x, _ in CASES])
def test_it_is_the_process_of_these_constants(process, hyper):
    hyper = {name: jnp.float32(x) for name, x in hyper.items()}
    constant = eqx.tree_at(lambda p: [getattr(p, x) for x in hyper], process, list(hyper.values()))
    told = all_told(process, hyper)
    assert told["redraw"] is not None
    jax.tree.map(np.testing.assert_array_equal, told, all_told(constant, hyper))


def test_a_concentration_of_no_item_has_its_prior():
    draw = lambda key: redraw_concentration(
        key, jnp.float32(1.0), (2.0, 3.0), jnp.zeros((), int), jnp.zeros((), int)
    )
    drawn = jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(1), 4_000))
    assert stats.kstest(np.asarray(drawn, float), stats.gamma(2.0, scale=1 / 3).cdf).pvalue > 1e-6


# ------------------------------------------------------- the laws that they are drawn from

COUNTS = np.array([5, 1, 2, 0])  # of columns of six items


def keeps(law, draw, num=10_000):
    """Whether draws of a law that is known by its density on a grid keep it, as they are drawn.

    By the test of Kolmogorov and Smirnov of each coordinate.

    Args:
        law: the grids of some coordinates, and the log density on their product.
        draw: `(key, *coordinates) -> coordinates`, a kernel that should keep the law.
    """
    grids, log = law
    rng = np.random.default_rng(0)
    weight = np.exp(log - np.max(log))
    cells = rng.choice(log.size, num, p=np.ravel(weight / weight.sum()))
    index = np.unravel_index(cells, log.shape)
    steps = [np.diff(grid).mean() for grid in grids]
    start = [x[i] + h * (rng.random(num) - 0.5) for x, i, h in zip(grids, index, steps)]
    start = [jnp.asarray(x, jnp.float32) for x in start]
    ends = jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(2), num), *start)
    for axis, (grid, step, drawn) in enumerate(zip(grids, steps, ends)):
        others = tuple(i for i in range(log.ndim) if i != axis)
        edges = np.append(grid - step / 2, grid[-1] + step / 2)
        below = np.append(0.0, np.cumsum(weight.sum(axis=others)) / weight.sum())
        cdf = lambda x, edges=edges, below=below: np.interp(x, edges, below)
        assert stats.kstest(np.asarray(drawn, float), cdf).pvalue > 1e-6 / len(grids)


def repeated(move, num):
    """Several moves of a dictionary of hyper-parameters."""

    def moved(key, hyper):
        step = lambda hyper, key: (move(key, hyper), None)
        return jax.lax.scan(step, hyper, jax.random.split(key, num))[0]

    return moved


def test_a_concentration_given_clusters():
    """a^(s - 1) e^(-r a) a^K Gamma(a) / Gamma(a + n), of one cluster of two."""
    log_a, prior = np.linspace(-25, 5, 6_001), (0.5, 1.5)
    a = np.exp(log_a)
    log = (prior[0] + 1) * log_a - prior[1] * a + gammaln(a) - gammaln(a + 2)
    one, two = jnp.ones((), int), jnp.full((), 2)
    draw = lambda key, log_a: [jnp.log(redraw_concentration(key, jnp.exp(log_a), prior, one, two))]
    keeps(([log_a], log), draw)


@pytest.mark.parametrize("make", [BetaBernoulli, GammaPoisson])
def test_a_mass_given_columns(make):
    """Gamma(s + K, r + e), e the expected number of columns for a mass of one."""
    process, c = make(1.0, 0.7, prior=(2.0, 1.5)), 0.7
    number = sum(c / (c + i) for i in range(6)) if make is BetaBernoulli else c * np.log1p(6 / c)
    draw = lambda key: process.redraw(key, process.start(), jnp.asarray(COUNTS), 6)["mass"]
    drawn = jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(1), 10_000))
    law = stats.gamma(2.0 + 3, scale=1 / (1.5 + number))
    assert stats.kstest(np.asarray(drawn, float), law.cdf).pvalue > 1e-6


def test_a_concentration_given_columns():
    """K log c - a e + sum log B(m, n - m + c) and a gamma prior, by a walk in log c."""
    log_c, mass = np.linspace(-8, 4, 3_001), 1.3
    c, m = np.exp(log_c), COUNTS[:3, None]
    number = sum(c / (c + i) for i in range(6))
    log = 3 * log_c - mass * number + betaln(m, 6 - m + c).sum(0) + 3.0 * log_c - 2.0 * c
    process = BetaBernoulli(mass, 1.0, concentration_prior=(3.0, 2.0))
    move = lambda key, hyper: process.redraw(key, hyper, jnp.asarray(COUNTS), 6)

    def draw(key, log_c):
        hyper = process.start() | {"concentration": jnp.exp(log_c)}
        return [jnp.log(repeated(move, 10)(key, hyper)["concentration"])]

    keeps(([log_c], log), draw)


SIZES = np.array([4, 2, 1, 1])


def of_sizes(a, d):
    """The log probability of a partition of eight items, up to a constant."""
    births = sum(np.log(a + j * d) for j in range(1, 4))
    joins = sum(gammaln(m - d) - gammaln(1 - d) for m in SIZES)
    return births + joins - gammaln(a + 8) + gammaln(a + 1)


def of_sticks(a, d):
    """The log density of two sticks."""
    log_stick, log_left = (np.asarray(x, float) for x in GIVEN["series"])
    b = [a + j * d for j in (1, 2)]
    each = [-d * log_stick[j] + (b[j] - 1) * log_left[j] - betaln(1 - d, b[j]) for j in (0, 1)]
    return sum(each)


@pytest.mark.parametrize("given", [of_sizes, of_sticks])
def test_a_concentration_and_a_discount(given):
    """Under a Gamma(2, 1.5) and a uniform law, by a walk in log a and logit d."""
    log_a, logit = np.linspace(-9, 3.5, 251), np.linspace(-14, 8, 441)
    a, d = np.meshgrid(np.exp(log_a), 1 / (1 + np.exp(-logit)), indexing="ij")
    log = given(a, d) + 2.0 * np.log(a) - 1.5 * a + np.log(d) + np.log1p(-d)
    process = PitmanYor(1.0, 0.5, prior=(2.0, 1.5))
    sizes = jnp.asarray(np.append(SIZES, 0))
    moves = {
        of_sizes: lambda key, hyper: process.redraw(key, hyper, sizes),
        of_sticks: lambda key, hyper: process.redraw_from_series(
            key, hyper, GIVEN["series"], GIVEN["used"]
        ),
    }

    def draw(key, log_a, logit):
        hyper = {"concentration": jnp.exp(log_a), "discount": jax.nn.sigmoid(logit)}
        hyper = repeated(moves[given], 10)(key, hyper)
        d = hyper["discount"]
        return [jnp.log(hyper["concentration"]), jnp.log(d) - jnp.log1p(-d)]

    keeps(([log_a, logit], log), draw)


def test_a_group_concentration_given_tables():
    """Gamma(s + m - sum_s e_s, r - sum_s log w_s) of m tables."""
    process = HierarchicalDirichletProcess(1.0, 1.0, group_prior=(2.0, 3.0))
    given = GIVEN["tables"], GIVEN["log_ratio"], GIVEN["ones"]
    draw = lambda key: process.redraw(key, process.start(), *given)["group_concentration"]
    drawn = jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(1), 10_000))
    law = stats.gamma(2.0 + 4 - 1, scale=1 / 3.7)
    assert stats.kstest(np.asarray(drawn, float), law.cdf).pvalue > 1e-6


def test_what_groups_say_of_their_concentration():
    """w_s ~ Beta(g + 1, n_s), e_s ~ Bernoulli(n_s / (n_s + g)), and nothing of an empty group."""
    g, size = 1.7, np.array([3, 0, 1, 10])
    draw = lambda key: ratios(key, jnp.float32(g), jnp.arange(4), jnp.asarray(size))
    logs, ones = jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(3), 10_000))
    some = size[size > 0]
    share = some / (some + g)
    mean = np.sum(digamma(g + 1) - digamma(g + 1 + some)), np.sum(share)
    slope = lambda x: polygamma(1, x)
    variance = np.sum(slope(g + 1) - slope(g + 1 + some)), np.sum(share * (1 - share))
    for drawn, m, v in zip((logs, ones), mean, variance):
        assert abs(np.mean(np.asarray(drawn, float)) - m) < 5.5 * np.sqrt(v / 10_000)
