"""Laws of the gamma draws and of the random words and buffer below them."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from sgmc_jax.random import gamma, log_gamma
from sgmc_jax.random._rejection import first_accepted, flagged
from sgmc_jax.random.words import normal, symmetric, threefry, uniform, word_keys, word_pair

FALSE_ALARM = 1e-6  # of each test of a law, all its cases together; the seeds are fixed
SHAPES = (1e-4, 1e-3, 0.03, 0.3, 0.999, 1.0, 1.01, 2.5, 30.0, 1e3, 1e5, 1e6)

DRAWS = 100_000


def deviation(draws, cdf, cases):
    """Kolmogorov's distance over the bound of Dvoretzky, Kiefer and Massart: alarm above 1."""
    x = np.sort(np.asarray(draws, np.float64))
    rank, c = np.arange(x.size + 1) / x.size, cdf(x)
    distance = max(np.max(c - rank[:-1]), np.max(rank[1:] - c))
    return distance / np.sqrt(np.log(2 * cases / FALSE_ALARM) / (2 * x.size))


def log_gamma_cdf(k, y):
    far = np.exp(np.minimum(k * y - special.gammaln(k + 1), 0))
    return np.where(y < -40, far, special.gammainc(k, np.exp(np.maximum(y, -40))))


def check_log_gamma(dtype):
    for seed, k in enumerate(SHAPES):
        shape = jnp.full(DRAWS, k, dtype)
        y = log_gamma(jax.random.key(seed), shape)
        assert y.dtype == dtype and bool(jnp.isfinite(y).all())
        k = float(shape[0])
        assert deviation(y, partial(log_gamma_cdf, k), 2 * len(SHAPES)) < 1, k


def test_log_gamma_law_float32():
    check_log_gamma(jnp.float32)


def test_log_gamma_law_float64(x64):
    check_log_gamma(jnp.float64)


@pytest.mark.parametrize("k", [0.3, 1.0, 7.0, 1e6])
def test_gamma_law(k):
    x = gamma(jax.random.key(1), jnp.full(DRAWS, k, jnp.float32))
    assert deviation(x, lambda v: special.gammainc(np.float32(k), v), 4) < 1


@pytest.mark.parametrize("k", [0.3, 2.5, 1e3])
def test_the_law_test_sees_a_shape_wrong_by_two_per_cent(k):
    shape = jnp.full(DRAWS, k, jnp.float32)
    y = np.concatenate([log_gamma(jax.random.key(seed), shape) for seed in range(10)])
    assert deviation(y, partial(log_gamma_cdf, 1.02 * k), 1) > 1
    assert deviation(y, partial(log_gamma_cdf, float(shape[0])), 3) < 1


def test_gamma_is_the_exponential_of_log_gamma():
    k = jnp.geomspace(0.5, 1e5, DRAWS)
    x, y = gamma(jax.random.key(3), k), log_gamma(jax.random.key(3), k)
    np.testing.assert_allclose(jnp.log(x), y, rtol=1e-5, atol=1e-5)


def test_no_zeros_at_tiny_shapes():
    y = log_gamma(jax.random.key(4), jnp.full(DRAWS, 1e-4))
    assert bool(jnp.isfinite(y).all()) and np.unique(y).size > 0.95 * DRAWS
    assert bool(jnp.isfinite(log_gamma(jax.random.key(4), jnp.full(DRAWS, 1e-30))).all())


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_any_kind_of_key(impl):
    k = jnp.full(DRAWS, 0.4, jnp.float32)
    with jax.default_prng_impl(impl):  # which is what a raw key is taken for
        for key in (jax.random.key(5), jax.random.PRNGKey(5)):
            assert deviation(log_gamma(key, k), partial(log_gamma_cdf, float(k[0])), 6) < 1


def test_raw_and_typed_keys_agree():
    k = jnp.ones(DRAWS)
    typed = gamma(jax.random.key(6), k)
    np.testing.assert_array_equal(typed, gamma(jax.random.PRNGKey(6), k))
    assert np.mean(np.asarray(typed) == np.asarray(gamma(jax.random.key(7), k))) < 1e-3


def test_vmap_is_a_loop_and_few_are_the_first_of_many():
    keys = jax.random.split(jax.random.key(8), 3)
    k = jnp.linspace(0.1, 4.0, 3000).reshape(1000, 3).T
    batched = jax.jit(jax.vmap(log_gamma))(keys, k)
    loop = [log_gamma(key, row) for key, row in zip(keys, k)]
    np.testing.assert_allclose(batched, np.stack(loop), rtol=1e-5, atol=1e-6)
    few = log_gamma(keys[0], k[0, :512])
    np.testing.assert_allclose(few, loop[0][:512], rtol=1e-5, atol=1e-6)


def test_shapes_types_and_bad_values():
    key = jax.random.key(10)
    assert gamma(key, 2.0).shape == () and gamma(key, jnp.ones((2, 0))).shape == (2, 0)
    assert gamma(key, jnp.ones((2, 3), jnp.int32)).dtype == jnp.float32
    assert gamma(key, jnp.ones(3, jnp.bfloat16)).dtype == jnp.float32
    bad = jnp.array([-1.0, 0.0, jnp.nan, jnp.inf, 1.0])
    np.testing.assert_array_equal(jnp.isnan(log_gamma(key, bad)), [1, 1, 1, 1, 0])
    with pytest.raises(TypeError, match="must be real, got complex64"):
        gamma(key, jnp.ones(2, jnp.complex64))


def test_threefry_known_answers():
    """The published vectors of Random123 for Threefry 2x32 with 20 rounds."""
    cases = [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ]
    for key, counter, answer in cases:
        words = threefry(*(tuple(map(jnp.uint32, key)),), *map(jnp.uint32, counter))
        assert tuple(map(int, words)) == answer


def check_words(dtype, width):
    (key,) = word_keys(jax.random.key(11), 1)
    lane = jnp.arange(100_000, dtype=jnp.uint32)
    pairs = [word_pair(key, lane, i, dtype) for i in range(2)]
    words = np.stack([w for pair in pairs for w in pair])
    assert words.itemsize == width and np.unique(words).size > words.size - 50
    normals = np.stack([normal(jnp.asarray(w), dtype) for w in words])
    assert all(deviation(z, special.ndtr, 8) < 1 for z in normals)
    off_diagonal = np.corrcoef(normals)[np.triu_indices(4, 1)]
    assert np.all(np.abs(off_diagonal) < 6 / np.sqrt(lane.size))
    extremes = jnp.array([0, ~words.dtype.type(0)], words.dtype)
    u, s = uniform(extremes, dtype), symmetric(extremes, dtype)
    assert 0 < u[0] < 1e-9 and 0.999 < u[1] <= 1 and float(jnp.max(jnp.abs(s))) < 1
    assert s.dtype == u.dtype == dtype and bool(jnp.all(s != 0))


def test_words_float32():
    check_words(jnp.float32, 4)


def test_words_float64(x64):
    check_words(jnp.float64, 8)


@pytest.mark.parametrize("n", [1, 31, 33, 1000])
@pytest.mark.parametrize("share", [0.0, 0.05, 1.0])
def test_flagged(n, share):
    mask = np.random.default_rng(n).random(n) < share
    size = n // 2 + 1
    places = np.asarray(flagged(jnp.asarray(mask), size))
    found = places[places < n]
    assert found.size == min(mask.sum(), size) == np.unique(found).size and mask[found].all()


@pytest.mark.parametrize("n", [5, 512, 513, 5000])
def test_rejections_beyond_the_buffer(n):
    """Nine of ten attempts fail; each lane still gets its own first success."""
    accept = jnp.asarray(np.random.default_rng(0).random((400, n)) < 0.1)
    expected = np.argmax(accept, axis=0) + 1000 * np.arange(n)

    def attempt(lane, count, offset):
        return jnp.where(accept[count, lane], offset + count.astype(jnp.float32), jnp.nan)

    offset = 1000.0 * jnp.arange(n)
    nothing = jnp.full(n, jnp.nan)
    np.testing.assert_array_equal(first_accepted(nothing, attempt, offset), expected)
    twice = jax.vmap(lambda first: first_accepted(first, attempt, offset))
    both = twice(jnp.stack([nothing, jnp.asarray(expected, jnp.float32)]))
    np.testing.assert_array_equal(both, [expected, expected])
