"""What a row is told of features that are integrated out, kept up as rows leave and join."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax.families import linear_tail
from sgmc_jax.families.linear_tail import LinearSums, LinearTail

ROWS, SLOTS, DIM, VISITS = 60, 6, 3, 600
TAIL = np.array([False, False, True, True, True, True])
SETTINGS = [(alike, ratio) for alike in (False, True) for ratio in (0.1, 1e-2, 1e-4)]


def visited(alike, ratio):
    """Rows in a random order, taken out and put in again with other entries, some of them new.

    Returns:
        errors in what is predicted of the row that is out, of what is kept up and of what is made
        anew from the same sums.
    """
    rng = np.random.default_rng(0)
    entries = (rng.random((ROWS, SLOTS)) < 0.4).astype(int)
    entries[:, 5] = 0
    if alike:  # two columns that are equal, or nearly so
        entries[:, 3] = entries[:, 2]
    params = np.where(TAIL[:, None], 0, rng.normal(size=(SLOTS, DIM)))
    noise = ratio**0.5 * rng.normal(size=(ROWS, DIM))
    items = np.float32(entries @ rng.normal(size=(SLOTS, DIM)) + noise).astype(float)
    single = lambda x: jnp.asarray(x, jnp.float32)
    theta, residual = single(params), items - entries @ params
    sums = LinearSums(single(entries.T @ entries), single(entries.T @ residual), single(0))
    now = LinearTail.of(sums, jnp.asarray(TAIL), single(ratio))
    moved = lambda tail, z, x, sign: tail.moved(z, x - z @ theta, x, sign)
    out = jax.jit(lambda *args: moved(*args, -1).restored(theta))
    back, anew = jax.jit(lambda *args: moved(*args, 1)), jax.jit(made_anew)
    kept, made = [], []
    for i in rng.integers(ROWS, size=VISITS):
        x = single(items[i])
        now = out(now, single(entries[i]), x)
        entries[i] = 0
        old = entries.any(axis=0)
        z = (rng.random(SLOTS) < np.where(old | ~TAIL, 0.4, 0.05)) * rng.integers(1, 3, SLOTS)
        if alike and rng.random() < 0.97:
            z[3] = z[2]
        expected = prediction(entries, items, params, ratio, z * (old | ~TAIL), items[i])
        for errors, tail in ((kept, now), (made, anew(now, theta))):
            told = told_of(tail, z * (old | ~TAIL), items[i])
            errors.append(max(np.max(abs(a - b)) for a, b in zip(told, expected)))
        now, entries[i] = back(now, single(z), x), z
    return np.array(kept), np.array(made)


def made_anew(tail, theta):
    return tail._replace(wear=jnp.full_like(tail.wear, jnp.inf)).restored(theta)


def told_of(tail, z, x):
    """log(1 + z M z), the residual and the products of the means."""
    own, means = z * TAIL, np.asarray(tail.means, float)
    spread = own @ np.asarray(tail.variance, float) @ own
    return np.log(1 + spread), x - z @ means, np.asarray(tail.products, float)


def prediction(entries, items, params, ratio, z, x):
    """The same in double precision, by inverting a matrix."""
    own = np.flatnonzero(TAIL)
    rows = entries[:, own]
    inverse = np.linalg.inv(rows.T @ rows + ratio * np.eye(len(own)))
    means = params.copy()
    means[own] = inverse @ rows.T @ (items - entries @ params)
    # the row that is out has no entries
    return np.log(1 + z[own] @ inverse @ z[own]), x - z @ means, means @ means.T


def check_precision(alike, ratio):
    kept, made = visited(alike, ratio)
    assert made.max() < (0.5 if alike and ratio < 1e-3 else 0.02), made.max()
    assert kept.max() < 3 * made.max() + 1e-5, (kept.max(), made.max())


@pytest.mark.parametrize("alike,ratio", SETTINGS)
def test_what_is_kept_up_is_as_exact_as_what_is_made_anew(alike, ratio):
    check_precision(alike, ratio)


def test_rounding_that_adds_up_is_seen(monkeypatch):
    monkeypatch.setattr(linear_tail, "_WORN", 1e30)
    with pytest.raises(AssertionError):
        check_precision(True, 1e-4)


def test_what_no_row_has_is_as_at_first():
    """M and the mean of a slot that loses its last row, to the last digit."""
    tail = LinearTail.of(
        LinearSums(jnp.diag(jnp.array([3.0, 1.0])), jnp.ones((2, 1)), jnp.array(0.0)),
        jnp.ones(2, bool),
        jnp.array(0.01),
    ).restored(jnp.zeros((2, 1)))
    z, x = jnp.array([0.0, 1.0]), jnp.array([1.0])
    left = tail.moved(z, x, x, -1)
    assert left.variance[1].tolist() == [0, 1 / jnp.float32(0.01)]
    assert left.means[1] == 0 and not left.products[1].any()
    neither = tail.moved(0 * z, x, x, 0)
    assert all(np.array_equal(a, b) for a, b in zip(neither[1:4], tail[1:4]))


def test_of_a_batch_the_worn_alone_are_made_anew():
    """Under `vmap`, also twice over, as alone; and none is factored where none is worn."""
    grams = jnp.stack([jnp.eye(2), 2 * jnp.eye(2), 3 * jnp.eye(2), 4 * jnp.eye(2)])
    sums = LinearSums(grams, jnp.ones((4, 2, 1)), jnp.zeros(4))
    tails = jax.vmap(LinearTail.of)(sums, jnp.ones((4, 2), bool), jnp.full(4, 0.5))
    tails = tails._replace(wear=jnp.array([0.0, jnp.inf, 0.0, jnp.nan]))
    restored = lambda tail: tail.restored(jnp.zeros((2, 1)))
    made = jax.vmap(restored)(tails)
    np.testing.assert_allclose(made.variance[:, 0, 0], [0, 1 / 2.5, 0, 1 / 4.5], rtol=1e-6)
    pairs = jax.tree.map(lambda x: x.reshape(2, 2, *x.shape[1:]), tails)
    twice = jax.vmap(jax.vmap(restored))(pairs)
    for a, b in zip(jax.tree.leaves(twice), jax.tree.leaves(made)):
        np.testing.assert_array_equal(a.reshape(b.shape), b)
    program = jax.make_jaxpr(jax.vmap(jax.vmap(restored)))(pairs)
    branches = [eqn for eqn in program.eqns if eqn.primitive.name == "cond"]
    factored = [eqn for eqn in program.eqns if "cholesky" in str(eqn)]
    assert len(branches) == 1 and factored == branches
