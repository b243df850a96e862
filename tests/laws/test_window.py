"""Windows of a series: what they hold, and with which probability, window by window."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from sgmc_jax import (
    SAGA,
    SVRG,
    AllReduce,
    ControlVariate,
    Minibatch,
    Summand,
    Window,
    sample,
    sgld,
)
from sgmc_jax.collective import Shard, as_shard

KEY = jax.random.key(11)
FALSE_ALARM = 1e-6
SIZES = [(8, 3, 2), (7, 7, 0), (7, 2, 7), (10, 6, 1), (9, 1, 0), (9, 4, 9), (5, 2, 1)]
SUM = Summand(0.0, lambda x, w: jnp.sum(w.share * w.rows * (1 + x)))


def windows(num_rows, batcher):
    make = jax.jit(lambda x: batcher.population(as_shard(x)).items)
    return make(np.arange(num_rows, dtype=np.float32))


def check_shares(num_rows, batcher):
    """Over all windows the shares of a row add up to one."""
    every, totals = windows(num_rows, batcher), np.zeros(num_rows)
    np.add.at(totals, np.asarray(every.rows, int).ravel(), np.asarray(every.share).ravel())
    np.testing.assert_allclose(totals, 1, rtol=1e-6, err_msg="shares")


@pytest.mark.parametrize("overlapping", [False, True])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_windows_are_those_of_the_definition(size, overlapping):
    num_rows, length, buffer = size
    batcher = Window(length, buffer, overlapping=overlapping)
    every = windows(num_rows, batcher)
    starts = range(0, num_rows - length + 1) if overlapping else range(0, num_rows, length)
    assert len(every.first) == len(starts)
    for i, start in enumerate(starts):
        low, high = max(0, start - buffer), min(num_rows, start + length + buffer)
        real = np.asarray(every.real[i])
        assert np.array_equal(np.asarray(every.rows[i])[real], np.arange(low, high))
        assert np.array_equal(real, np.arange(len(real)) < high - low)
        inside = (np.arange(low, high) >= start) & (np.arange(low, high) < start + length)
        assert np.array_equal(np.asarray(every.share[i])[real] > 0, inside)
        assert not np.any(np.asarray(every.share[i])[~real])
        assert (bool(every.first[i]), bool(every.last[i])) == (low == 0, high == num_rows)
    check_shares(num_rows, batcher)


def test_one_probability_for_all_rows_is_seen(monkeypatch):
    monkeypatch.setattr(Window, "_holding", lambda self, place, num_rows, length: length)
    with pytest.raises(AssertionError, match="shares"):
        check_shares(8, Window(3, 2, overlapping=True))


def test_buffers_that_count_are_seen(monkeypatch):
    honest = Window._windows

    def counted(self, items, index):
        window = honest(self, items, index)
        return window._replace(share=window.real.astype(window.share.dtype))

    monkeypatch.setattr(Window, "_windows", counted)
    with pytest.raises(AssertionError, match="shares"):
        check_shares(8, Window(3, 2))


def check_frequencies(num_rows, batcher, number):
    """Pairs of distinct windows with equal frequency, as the population has them."""
    data = jnp.arange(float(num_rows))
    draw = jax.jit(jax.vmap(lambda key: batcher.draw(key, (), data)[0]))
    batch = draw(jax.random.split(KEY, 8_000))
    every = windows(num_rows, batcher)
    taken = jax.tree.map(lambda x: np.asarray(x)[batch.index], every)
    for got, wanted in zip(batch.items, taken):
        np.testing.assert_array_equal(got, wanted)
    index, counts = np.unique(np.asarray(batch.index), axis=0, return_counts=True)
    assert len(index) == number * (number - 1) and np.all(index[:, 0] != index[:, 1])
    assert stats.chisquare(counts).pvalue > FALSE_ALARM
    np.testing.assert_allclose(batch.weight, number / 2, rtol=1e-6)


@pytest.mark.parametrize("overlapping", [False, True])
def test_windows_are_drawn_alike(overlapping):
    number = 6 if overlapping else 3
    check_frequencies(8, Window(3, 2, num_windows=2, overlapping=overlapping), number)


@pytest.mark.full
@pytest.mark.parametrize("overlapping", [False, True])
def test_estimates_are_unbiased(overlapping):
    """Over all draws of one window, at a size that does not divide."""
    data, batcher = jnp.arange(8.0) ** 2, Window(3, 1, overlapping=overlapping)
    grad = Minibatch(SUM, batcher)
    draw = jax.jit(jax.vmap(lambda key: grad.draw(key, (), data)[0]))
    batches = draw(jax.random.split(KEY, 100))
    index, first = np.unique(np.asarray(batches.index)[:, 0], return_index=True)
    assert np.array_equal(index, np.arange(6 if overlapping else 3))
    batches, x = jax.tree.map(lambda a: np.asarray(a)[first], batches), jnp.float32(0.5)
    exact = 1.5 * float(jnp.sum(data))
    anchored = ControlVariate(grad, jnp.float32(0.1))
    at_centre = anchored.draw(KEY, anchored.init(KEY, x, data), data)[0]
    plain = jax.jit(jax.vmap(lambda batch: grad.on(batch, x).value))
    reduced = jax.jit(jax.vmap(lambda batch: anchored.on(at_centre._replace(inner=batch), x).value))
    for values in (plain(batches), reduced(batches)):
        np.testing.assert_allclose(np.mean(values), exact, rtol=1e-5)
    np.testing.assert_allclose(grad.full(x, data).value, exact, rtol=1e-5)
    whole = Minibatch(SUM, Window(None))
    assert whole.exact and not grad.exact
    np.testing.assert_allclose(whole.estimate(KEY, (), x, data)[0].value, exact, rtol=1e-5)


@pytest.mark.full
@pytest.mark.parametrize("wrap", [SAGA, lambda grad: SVRG(grad, 3), AllReduce])
def test_tables_and_anchors_of_windows(wrap):
    """Of terms that do not depend on the position the estimate of the former two has no noise."""
    constant = Summand(0.0, lambda x, w: jnp.sum(w.share * w.rows))
    data, x = jnp.arange(10.0), jnp.float32(0.0)
    grad = wrap(Minibatch(constant, Window(3, 1, num_windows=2)))
    estate = grad.init(KEY, x, data)
    if isinstance(grad, SAGA):
        assert estate.kept.table.value.shape == (4,)
    one = jax.jit(jax.vmap(lambda key: grad.estimate(key, estate, x, data)[0].value))
    values = one(jax.random.split(KEY, 8)).tolist()
    if isinstance(grad, AllReduce):
        assert len(set(values)) > 1
    else:
        np.testing.assert_allclose(values, 45.0, rtol=1e-6)


def _sampled(batcher, data):
    return sample(KEY, sgld(Minibatch(SUM, batcher), 0.1), jnp.zeros(()), data, num_steps=1)


ROWS = jnp.arange(5.0)
BAD = {
    "length": (lambda: Window(0), "length must be a whole number of at least 1, got 0"),
    "buffer": (lambda: Window(2, -1), "buffer must be a whole number of at least 0, got -1"),
    "windows": (lambda: Window(2, 1, 0), "num_windows must be a whole number"),
    "whole": (lambda: Window(None, 2), "length must be a number for a buffer"),
    "long": (lambda: _sampled(Window(6), ROWS), "length must be at most.*6 for 5"),
    "long buffer": (lambda: _sampled(Window(2, 6), ROWS), "buffer must be at most.*6 for 5"),
    "many": (lambda: _sampled(Window(2, 0, 4), ROWS), "num_windows must be at most.*4 for 3"),
    "none": (lambda: _sampled(Window(2), jnp.zeros(0)), "data must have at least one item"),
    "shards": (
        lambda: Window(2).population(Shard(ROWS, jnp.int32(5), 0, 10)),
        "data must not be in shards for Window",
    ),
}


@pytest.mark.parametrize("name", list(BAD))
def test_what_does_not_fit_is_refused(name):
    make, message = BAD[name]
    with pytest.raises((TypeError, ValueError), match=message):
        make()
