"""Held-out errors against all entries, one after the other."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax.evaluation import held_out_error

KEY, RNG = jax.random.key(0), np.random.default_rng(0)
VALUES, ITEMS = RNG.normal(size=(4, 6)), 2 * RNG.normal(size=(9, 6))


def nearest(values, items, most=1):
    entries = np.array(list(itertools.product(range(most + 1), repeat=len(values))))
    return np.linalg.norm(items[:, None] - entries @ values, axis=2).min(1)


@pytest.mark.parametrize("most", [1, 3])
def test_the_error_is_that_of_the_best_entries(most):
    found = held_out_error(KEY, VALUES, ITEMS, most=most, starts=32)
    np.testing.assert_allclose(found, nearest(VALUES, ITEMS, most), atol=1e-5)


def test_one_start_is_not_enough():
    """From zeros alone some item ends in entries that no single change improves."""
    rng = np.random.default_rng(3)
    values, items = rng.normal(size=(8, 4)), 2 * rng.normal(size=(50, 4))
    best = nearest(values, items)
    once, often = (np.asarray(held_out_error(KEY, values, items, starts=n)) for n in (1, 64))
    assert np.all(once > best - 1e-5) and np.any(once > best + 0.1)
    np.testing.assert_allclose(often, best, atol=1e-5)


def test_free_slots_change_nothing_and_draws_are_mapped():
    free = np.concatenate([VALUES, np.zeros((3, 6))])
    error = lambda values: held_out_error(KEY, values, ITEMS, starts=32)
    np.testing.assert_allclose(error(free), error(VALUES), atol=1e-5)
    both = jnp.asarray(np.stack([VALUES, 2 * VALUES]), jnp.float32)
    np.testing.assert_allclose(jax.vmap(error)(both), [error(x) for x in both], atol=1e-5)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"parameters": VALUES[0]}, r"parameters must have the shape \(K, D\), got \(6,\)"),
        ({"items": ITEMS[:, :5]}, r"items must have the shape \(n, 6\), got \(9, 5\)"),
        ({"most": 0}, "most must be a whole number of at least 1, got 0"),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(ValueError, match=message):
        held_out_error(KEY, **({"parameters": VALUES, "items": ITEMS} | change))
