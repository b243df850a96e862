"""Weighted and stratified batches, and the switch of a control variate: all batches one by one.

Of five items and two draws there are so few batches that means and covariances are sums. The
batches and their weights are those that were drawn; how often each was, a chi-square test judges.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from sgmc_jax import (
    AllReduce,
    Batch,
    ControlVariate,
    LinearModel,
    Minibatch,
    Stratified,
    Summand,
    Uniform,
    Weighted,
    neyman_sizes,
    optimal_probabilities,
    sample,
    sgld,
)

KEY = jax.random.key(8)
FALSE_ALARM = 1e-6
N = 5
_rng = np.random.default_rng(4)
X, Y = _rng.normal(size=(N, 2)), _rng.normal(size=N)
DATA = (jnp.asarray(X), jnp.asarray(Y))
LINEAR = LinearModel(lambda w: -0.5 * w @ w, lambda eta, y: -0.5 * (y - eta) ** 2)
POINT, CENTRE = np.array([0.7, -0.4]), np.array([0.2, 0.1])
TERMS = X * (Y - X @ POINT)[:, None]
GAPS = TERMS - X * (Y - X @ CENTRE)[:, None]
FULL = -POINT + TERMS.sum(0)
P = np.array([0.1, 0.3, 0.15, 0.25, 0.2])
LABELS = np.array([4, 1, 4, 1, 4])  # of strata {1, 3} and {0, 2, 4}
WEIGHTED = Weighted(2, 7 * P)
SIZES = (2, 2)


def weighted_covariance(g, n=2):
    total = g.sum(0)
    return (np.einsum("i,ij,ik->jk", 1 / P, g, g) - np.outer(total, total)) / n


def stratified_covariance(g, sizes=SIZES):
    parts = [g[LABELS == label] for label in (1, 4)]
    factors = [len(part) ** 2 / n * (1 - n / len(part)) for part, n in zip(parts, sizes)]
    return sum(factor * np.cov(part.T) for factor, part in zip(factors, parts))


def drawn(grad, draws=8_000):
    """One each of the batches of `grad`, and their numbers among many draws, by their indices."""
    estate = grad.init(KEY, POINT, DATA)
    draw = jax.jit(jax.vmap(lambda key: grad.draw(key, estate, DATA)[0]))
    batches = draw(jax.random.split(KEY, draws))
    inner = batches if isinstance(batches, Batch) else batches.inner
    index, first, counts = np.unique(inner.index, axis=0, return_index=True, return_counts=True)
    return jax.tree.map(lambda x: x[first], batches), index, counts


def check_all_batches(grad, probability, covariance, tells=True):
    """Batches are drawn with their probabilities, and over these the estimates have their law."""
    batches, index, counts = drawn(grad)
    p = probability(index)
    np.testing.assert_allclose(p.sum(), 1, rtol=1e-5, err_msg="some batches never come")
    chance = stats.chisquare(counts, p / p.sum() * counts.sum()).pvalue
    assert chance > FALSE_ALARM, f"wrong frequencies: {counts}"

    def estimate(batch):
        terms = grad.per_item(batch, jnp.asarray(POINT))
        return grad.on(batch, jnp.asarray(POINT)).value, grad.covariance(batch, terms, full=True)

    values, covariances = map(np.asarray, jax.jit(jax.vmap(estimate))(batches))
    np.testing.assert_allclose(p @ values, FULL, rtol=1e-4, err_msg="biased")
    gaps = values - FULL
    spread = np.einsum("b,bj,bk->jk", p, gaps, gaps)
    np.testing.assert_allclose(spread, covariance, rtol=1e-3, atol=1e-9, err_msg="wrong covariance")
    if tells:
        told = np.einsum("b,bjk->jk", p, covariances)
        np.testing.assert_allclose(
            told, covariance, rtol=1e-3, atol=1e-9, err_msg="noise told wrongly"
        )


def independent(index):
    return P[index].prod(1)


def check_weighted():
    check_all_batches(Minibatch(LINEAR, WEIGHTED), independent, weighted_covariance(TERMS))


def check_stratified(sizes=SIZES, number=2 * 6, wrap=lambda grad: grad, terms=TERMS, tells=True):
    """All batches are equally probable; that there are so many is checked too."""
    grad = wrap(Minibatch(LINEAR, Stratified(sizes, LABELS)))
    probability = lambda index: np.full(len(index), 1 / number)
    check_all_batches(grad, probability, stratified_covariance(terms, sizes), tells)


def test_weighted_batches():
    check_weighted()


@pytest.mark.full
def test_weighted_batches_of_a_control_variate_and_of_one_shard():
    grad = ControlVariate(AllReduce(Minibatch(LINEAR, WEIGHTED)), CENTRE)
    check_all_batches(grad, independent, weighted_covariance(GAPS))


@pytest.mark.parametrize("fault", ["without 1/n", pytest.param("uniform", marks=pytest.mark.full)])
def test_wrong_weights_are_seen(fault, monkeypatch):
    honest = Weighted.draw

    def draw(self, key, bstate, data):
        batch, bstate = honest(self, key, bstate, data)
        weight = 2 * batch.weight if fault == "without 1/n" else jnp.full(2, N / 2)
        return type(batch)(batch.items, weight, batch.index), bstate

    monkeypatch.setattr(Weighted, "draw", draw)
    with pytest.raises(AssertionError, match="biased"):
        check_weighted()


def test_wrong_frequencies_are_seen():
    with pytest.raises(AssertionError, match="wrong frequencies"):
        check_all_batches(Minibatch(LINEAR, Weighted(2, P + 0.1)), independent, 0)


@pytest.mark.full
def test_noise_told_as_of_equal_weights_is_seen(monkeypatch):
    from sgmc_jax import Batcher

    monkeypatch.setattr(Weighted, "deviations", Batcher.deviations)
    with pytest.raises(AssertionError, match="noise told wrongly"):
        check_weighted()


def test_probabilities_are_those_of_the_words():
    """Multiples of 2^-32 that add up to one, however small; draws are those of the words."""
    p = np.array([1e-12, 1.0, 3.0, 1e-3])
    batcher = Weighted(3, p)
    shares = np.diff(np.concatenate([[0], np.asarray(batcher.edges, np.int64), [2**32]]))
    assert shares.min() == 1 and shares.sum() == 2**32
    np.testing.assert_allclose(batcher.probabilities, shares / 2**32, rtol=1e-6)
    np.testing.assert_allclose(batcher.probabilities, p / p.sum(), rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(Weighted(2, [1e308, 1e308]).probabilities, [0.5, 0.5])
    alone = Weighted(2, [3.0]).draw(KEY, (), jnp.ones(1))[0]
    assert alone.index.tolist() == [0, 0] and alone.weight.tolist() == [0.5, 0.5]


def test_optimal_probabilities_make_the_least_variance():
    """By Cauchy and Schwarz the trace is at least ((sum |g|)^2 - |G|^2) / n."""
    p = optimal_probabilities(LINEAR, jnp.asarray(POINT), DATA, share=0.0)
    norms = np.linalg.norm(TERMS, axis=1)
    np.testing.assert_allclose(p, norms / norms.sum(), rtol=1e-5)
    mixed = optimal_probabilities(LINEAR, jnp.asarray(POINT), DATA, share=0.5)
    np.testing.assert_allclose(mixed, 0.5 * p + 0.5 / N, rtol=1e-5)
    none = optimal_probabilities(Summand(0.0, lambda x, z: 0 * z[1]), 0.0, DATA)
    np.testing.assert_allclose(none, 1 / N, rtol=1e-6)


# ------------------------------------------------------------------------------- strata


def test_stratified_batches():
    check_stratified()


@pytest.mark.full
def test_stratified_batches_of_whole_strata_and_of_a_control_variate():
    check_stratified(wrap=lambda grad: ControlVariate(grad, CENTRE), terms=GAPS)
    check_stratified((2, 3), 2 * 6)
    # of one item from a stratum nobody tells its noise
    check_stratified((1, 2), 2 * 6, tells=False)
    check_stratified((2, 1), 2 * 3, tells=False)


@pytest.mark.full
def test_weights_of_no_stratum_are_seen(monkeypatch):
    honest = Stratified.draw

    def draw(self, key, bstate, data):
        batch, bstate = honest(self, key, bstate, data)
        return type(batch)(batch.items, jnp.full(4, N / 4), batch.index), bstate

    monkeypatch.setattr(Stratified, "draw", draw)
    with pytest.raises(AssertionError, match="biased"):
        check_stratified()


def least(counts, spread, num):
    """The allocation of the least `sum spread^2 / n` among all."""
    grids = np.meshgrid(*[np.arange(1, count + 1) for count in counts])
    every = np.stack([grid.ravel() for grid in grids], 1)
    every = every[every.sum(1) == num]
    return every[np.argmin((np.square(spread) / every).sum(1))]


def test_allocations_are_the_best_of_all():
    counts, labels = [9, 4, 6], np.repeat([0, 1, 2], [9, 4, 6])
    values = _rng.normal(size=19) * np.array([1.0, 6.0, 2.0])[labels]
    model = Summand(0.0, lambda x, z: z)
    deviation = [values[labels == s].std(ddof=1) for s in range(3)]
    for num in (3, 7, 12, 19):
        sizes = neyman_sizes(model, 0.0, jnp.asarray(values), labels, num)
        assert sizes == tuple(least(counts, counts * np.array(deviation), num))
        np.testing.assert_array_equal(Stratified(num, labels).sizes, least(counts, counts, num))


def test_allocations_go_by_the_deviations_of_samples():
    """Of strata with two items and with nine: 2 sqrt 2 to 9 sqrt 9/8, and not 2 to 9."""
    values = np.concatenate([[1.0, -1.0], np.tile([1.0, -1.0], 5)[:9] - 1 / 9])
    values[2:] /= values[2:].std()
    model, labels = Summand(0.0, lambda x, z: z), np.repeat([0, 1], [2, 9])
    sizes = neyman_sizes(model, 0.0, jnp.asarray(values), labels, 7)
    assert sizes == (2, 5) == tuple(least([2, 9], [2 * 2**0.5, 9 * (9 / 8) ** 0.5], 7))
    assert tuple(least([2, 9], [2.0, 9.0], 7)) == (1, 6)


# ------------------------------------------------------------------- the switch by distance


@pytest.mark.parametrize("far", [False, True])
def test_a_control_variate_within_its_radius(far):
    distance = np.linalg.norm(POINT - CENTRE)
    grad = ControlVariate(Minibatch(LINEAR, WEIGHTED), CENTRE, distance * (0.99 if far else 1.01))
    check_all_batches(grad, independent, weighted_covariance(TERMS if far else GAPS))


@pytest.mark.parametrize("far", [False, True])
def test_a_switch_the_wrong_way_round_is_seen(far, monkeypatch):
    honest = ControlVariate._switch
    swapped = lambda self, batch, x, near, far: honest(self, batch, x, far, near)
    monkeypatch.setattr(ControlVariate, "_switch", swapped)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        test_a_control_variate_within_its_radius(far)


@pytest.mark.full
def test_a_switch_between_two_points():
    """Of a near and a far one, from one batch: the difference of the estimates there."""
    grad = ControlVariate(Minibatch(LINEAR, WEIGHTED), CENTRE, 0.5)
    batch, _ = grad.draw(KEY, grad.init(KEY, POINT, DATA), DATA)
    here, there = jnp.asarray(POINT), jnp.asarray(CENTRE + 0.1)
    items = jax.jit(lambda x: grad.items(batch, x).value)
    gap = jax.jit(lambda x, y: grad.difference(batch, x, y).value)(here, there)
    np.testing.assert_allclose(gap, items(here) - items(there), rtol=1e-5)
    both = jax.jit(jax.vmap(items))(jnp.stack([here, there]))
    np.testing.assert_allclose(both, [items(here), items(there)], rtol=1e-5)


BAD = {
    "zero": (lambda: Weighted(2, [0.5, 0.0, 0.5]), "probabilities must be.*positive, got 0.0 for"),
    "negative": (lambda: Weighted(2, [0.5, -1.0]), "probabilities must be.*got -1.0 for item 1"),
    "NaN": (lambda: Weighted(2, [np.nan]), "probabilities must be finite.*nan for item 0"),
    "matrix": (lambda: Weighted(2, np.eye(2)), r"probabilities must be of shape \(N,\).*\(2, 2\)"),
    "batch size": (lambda: Weighted(0, P), "batch_size must be a whole number.*0"),
    "too few": (
        lambda: sample(
            KEY, sgld(Minibatch(LINEAR, Weighted(2, P[1:])), 0.1), POINT, DATA, num_steps=1
        ),
        "probabilities must be one an item, got 4 for 5",
    ),
    "share": (lambda: optimal_probabilities(LINEAR, POINT, DATA, 2.0), "share must be at most 1"),
    "labels": (lambda: Stratified(2, [0.5, 1.0]), "labels must be whole numbers.*float64"),
    "few strata": (lambda: Stratified(1, LABELS), "sizes must be from.*2 to 5, got 1"),
    "sizes": (lambda: Stratified([1], LABELS), "sizes must be one a stratum, got 1 for 2"),
    "large": (lambda: Stratified([3, 2], LABELS), r"sizes must be at most.*\[3, 2\] for \[2, 3\]"),
    "empty": (lambda: Stratified([0, 2], LABELS), "sizes must be a whole number.*0"),
    "few labels": (
        lambda: sample(
            KEY, sgld(Minibatch(LINEAR, Stratified(2, [0, 1])), 0.1), POINT, DATA, num_steps=1
        ),
        "labels must be one an item, got 2 for 5",
    ),
    "radius": (
        lambda: ControlVariate(Minibatch(LINEAR, Uniform(2)), CENTRE, -1.0),
        "radius must be finite and positive.*-1",
    ),
}


@pytest.mark.parametrize("name", list(BAD))
def test_what_does_not_fit_is_refused(name):
    make, message = BAD[name]
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_traced_probabilities_are_refused():
    with pytest.raises(TypeError, match="probabilities must be numbers known when"):
        jax.jit(lambda p: Weighted(2, p).probabilities)(P)
