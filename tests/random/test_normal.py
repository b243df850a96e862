"""Laws of the normals that every kernel draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from sgmc_jax.random import normal
from sgmc_jax.random.normal import normal_like
from sgmc_jax.random.slots import slot_normal
from sgmc_jax.random.words import (
    item_uniforms,
    slot_item_uniforms,
    symmetric,
    word_keys,
    word_pair,
)

FALSE_ALARM = 1e-6  # of each test; the seeds are fixed
DRAWS = 400_000


def kolmogorov(draws, cdf):
    """The distance over the bound of Dvoretzky, Kiefer and Massart: alarm above 1."""
    x = np.sort(np.asarray(draws, np.float64).ravel())
    rank, c = np.arange(x.size + 1) / x.size, cdf(x)
    distance = max(np.max(c - rank[:-1]), np.max(rank[1:] - c))
    return distance / np.sqrt(np.log(2 / FALSE_ALARM) / (2 * x.size))


def correlation(x, y):
    """Of equally many independent normals, over the bound of its false alarms."""
    x, y = np.asarray(x, np.float64).ravel(), np.asarray(y, np.float64).ravel()
    return abs(np.mean(x * y)) * np.sqrt(x.size) / stats.norm.isf(FALSE_ALARM / 2)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_uniforms_of_half_precision_are_rounded(dtype):
    """Within half a rounding of those of single precision, whose words they have; so in a law."""
    index, key = jnp.arange(DRAWS), jax.random.key(0)
    slots = lambda _, *args: slot_item_uniforms(word_keys(key, 1)[0], 1, *args)
    for draw in (item_uniforms, slots):
        coarse, fine = draw(key, index, dtype), draw(key, index, jnp.float32)
        assert coarse.dtype == dtype and 0 < coarse.min() and coarse.max() <= 1
        rounding = float(jnp.finfo(dtype).eps) / 2
        np.testing.assert_allclose(
            np.float32(coarse), fine, rtol=rounding, atol=float(jnp.finfo(dtype).tiny)
        )
    first, second = word_pair(word_keys(key, 1)[0], index.astype(jnp.uint32), 0, jnp.dtype(dtype))
    both = symmetric(jnp.stack([first, second]), jnp.dtype(dtype))
    assert both.dtype == dtype and 0.99 < float(jnp.max(jnp.abs(both))) < 1
    assert kolmogorov(np.float32(slot_normal(key, (DRAWS,), dtype)), stats.norm.cdf) < 2


def check_law(dtype):
    x = normal(jax.random.key(0), (DRAWS,), dtype)
    assert x.dtype == dtype and bool(jnp.isfinite(x).all()) and bool(jnp.all(x != 0))
    assert kolmogorov(x, stats.norm.cdf) < 1
    assert (
        kolmogorov(x[:-1] * x[1:] / jnp.hypot(x[:-1], x[1:]), lambda z: stats.norm.cdf(2 * z)) < 1
    )


def test_law_float32():
    check_law(jnp.float32)


def test_law_float64(x64):
    check_law(jnp.float64)
    assert normal(jax.random.key(0)).dtype == jnp.float64


def test_the_law_test_sees_a_scale_wrong_by_two_per_cent_and_a_correlation_of_a_hundredth():
    x = np.asarray(normal(jax.random.key(0), (DRAWS,)))
    assert kolmogorov(1.02 * x, stats.norm.cdf) > 1
    assert correlation(x[1:] + 0.01 * x[:-1], x[:-1]) > 1


@pytest.mark.parametrize("lag", [1, 2, 3, 64, 10_000])
def test_draws_at_a_distance_are_not_correlated(lag):
    x = np.asarray(normal(jax.random.key(1), (DRAWS,)))
    assert correlation(x[lag:], x[:-lag]) < 1
    squares = (x**2 - 1) / np.sqrt(2)
    assert correlation(squares[lag:], squares[:-lag]) < 1


def test_keys_of_one_key_draw_independently_of_it_and_of_each_other():
    parent = jax.random.key(2)
    keys = [parent, *jax.random.split(parent), jax.random.fold_in(parent, 9)]
    draws = [np.asarray(normal(key, (DRAWS,))) for key in keys]
    pairs = [(i, j) for i in range(len(keys)) for j in range(i)]
    assert max(correlation(draws[i], draws[j]) for i, j in pairs) < 1
    first = np.asarray(jax.vmap(normal)(jax.random.split(jax.random.key(3), DRAWS)))
    assert kolmogorov(first, stats.norm.cdf) < 1 and correlation(first[1:], first[:-1]) < 1


@pytest.mark.parametrize("make", [jax.random.key, jax.random.PRNGKey])
def test_a_number_depends_on_the_key_and_its_flat_index(make):
    few, many = normal(make(0), (3, 5)), normal(make(0), (7, 11))
    np.testing.assert_array_equal(few.ravel(), many.ravel()[:15])
    np.testing.assert_array_equal(few, jax.jit(normal, static_argnums=1)(make(0), (3, 5)))
    keys = jax.random.split(make(0), 4)
    together = jax.vmap(lambda key: normal(key, (5,)))(keys)
    np.testing.assert_array_equal(together[2], normal(keys[2], (5,)))


def test_typed_and_raw_keys_draw_the_same():
    raw, typed = jax.random.PRNGKey(7), jax.random.key(7)
    np.testing.assert_array_equal(normal(raw, (9,)), normal(typed, (9,)))


@pytest.mark.parametrize(
    "key, dtype",
    [
        (jax.random.key(0, impl="rbg"), jnp.float32),
        (jax.random.key(0, impl="unsafe_rbg"), jnp.float32),
    ],
)
def test_what_is_left_to_jax(key, dtype):
    x = normal(key, (4, 3), dtype)
    assert x.dtype == dtype
    np.testing.assert_array_equal(x, jax.random.normal(key, (4, 3), dtype))


@pytest.mark.parametrize("impl", ["threefry2x32", pytest.param("rbg", marks=pytest.mark.full)])
@pytest.mark.parametrize(
    "dtype, num, shift", [(jnp.bfloat16, 400_000, 0.011), (jnp.float16, 4_000_000, 0.003)]
)
def test_normals_of_half_precision_are_rounded(dtype, num, shift, impl):
    """Those of uniform numbers of half precision have a mean of -.011 and -.003."""
    key = jax.random.key(0, impl=impl)
    x = normal(key, (num,), dtype)
    assert x.dtype == dtype
    np.testing.assert_array_equal(x, normal(key, (num,), jnp.float32).astype(dtype))
    assert abs(np.asarray(x, np.float64).mean()) < 5.5 / np.sqrt(num) < shift


def test_leaves_of_a_tree_are_one_block():
    x = {"a": jnp.zeros(3), "b": jnp.zeros((2, 2), jnp.bfloat16)}
    z = normal_like(jax.random.key(0), x)
    assert jax.tree.map(lambda z: (z.shape, z.dtype), z) == jax.tree.map(
        lambda x: (x.shape, x.dtype), x
    )
    block = normal(jax.random.key(0), (7,))
    np.testing.assert_array_equal(z["a"], block[:3])
    np.testing.assert_array_equal(z["b"].ravel(), block[3:].astype(jnp.bfloat16))


def test_nothing_is_drawn_of_an_empty_shape():
    assert normal(jax.random.key(0), (0, 3)).shape == (0, 3)
    assert normal_like(jax.random.key(0), {}) == {}


def test_the_farthest_words_are_finite_and_symmetric():
    ends = symmetric(jnp.array([0x7FFFFFFF, 0x80000000], jnp.uint32), jnp.float32)
    assert float(ends[0]) == -float(ends[1]) < 1


@pytest.mark.parametrize("key", [None, 0, jnp.zeros(2), jax.random.split(jax.random.key(0), 2)])
def test_what_is_no_key_is_an_error(key):
    with pytest.raises(TypeError, match="key must be one JAX key"):
        normal(key)


@pytest.mark.parametrize(
    "shape, dtype, error",
    [(3, float, TypeError), ((2, -1), float, ValueError), ((2.5,), float, ValueError)]
    + [((2,), int, ValueError)],
)
def test_what_is_no_shape_or_type_is_an_error(shape, dtype, error):
    with pytest.raises(error):
        normal(jax.random.key(0), shape, dtype)


def test_slots_of_half_precision_are_rounded():
    wide, half = (
        slot_normal(jax.random.key(0), (5, 3), dtype) for dtype in (jnp.float32, jnp.bfloat16)
    )
    assert half.dtype == jnp.bfloat16 and np.array_equal(half, wide.astype(jnp.bfloat16))
