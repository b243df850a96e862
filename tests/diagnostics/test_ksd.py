"""KSD against a double loop in numpy, and what it must see."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax.diagnostics import ksd

try:
    from jax import enable_x64
except ImportError:  # before jax 0.8
    from jax.experimental import enable_x64


def naive(x, s, c=1.0, beta=-0.5, kind="joint", statistic="v", cross_sign=1.0):
    """The definition, pair by pair, in float64."""
    x, s = np.asarray(x, float), np.asarray(s, float)
    count, dim = x.shape
    total = np.zeros(dim)
    for k in range(count):
        for m in range(count):
            if statistic == "u" and k == m:
                continue
            delta = x[k] - x[m]
            square = delta @ delta
            r = c**2 + square
            total += s[k] * s[m] * r**beta
            total += cross_sign * 2 * beta * r ** (beta - 1) * delta * (s[m] - s[k])
            total -= 2 * beta * r ** (beta - 1)
            total -= 4 * beta * (beta - 1) * delta**2 * r ** (beta - 2)
    mean = total / (count**2 if statistic == "v" else count * (count - 1))
    mean = mean if kind == "coordinate" else mean.sum(keepdims=True)
    return np.sum(np.sign(mean) * np.sqrt(abs(mean)))


VARIANCES = np.array([2.0, 1.0])


def gaussian(count, seed=0, stretch=1.0):
    """Draws of a Gaussian with variances 2 and 1, stretched, and their scores."""
    x = stretch * np.random.default_rng(seed).normal(size=(count, 2)) * np.sqrt(VARIANCES)
    return x, -x / VARIANCES


@pytest.mark.parametrize("kind", ["joint", "coordinate"])
@pytest.mark.parametrize("statistic", ["v", "u"])
@pytest.mark.parametrize(("c", "beta"), [(1.0, -0.5), (0.7, -0.2), (2.0, -0.8)])
@pytest.mark.parametrize("x64", [False, pytest.param(True, marks=pytest.mark.full)])
def test_against_the_double_loop(kind, statistic, c, beta, x64):
    rng = np.random.default_rng(1)
    x, s = rng.normal(size=(37, 3)) + 2.0, rng.normal(size=(37, 3))
    x[5], s[5] = x[9], s[9]  # a repeated draw, as of a rejected proposal
    options = {"c": c, "beta": beta, "kind": kind, "statistic": statistic}
    with enable_x64(x64):
        x, s = jnp.asarray(x), jnp.asarray(s)
        for block in (None, 8, 36, 100):
            got = ksd(x, s, block_size=block, **options)
            np.testing.assert_allclose(got, naive(x, s, **options), rtol=1e-11 if x64 else 2e-5)


def test_values_of_the_gaussian_example():
    for seed in range(3):
        right = float(ksd(*gaussian(1600, seed)))
        wrong = float(ksd(*gaussian(1600, seed, stretch=1.3)))
        # About .045 and .167; the spread over seeds is about .01.
        assert 0.03 < right < 0.07 and 0.14 < wrong < 0.2
        # The cross terms with the other sign, as of gradients of U: about .66.
        x, s = gaussian(1600, seed)
        assert 0.6 < float(ksd(x, -s)) < 0.75


def test_a_wrong_sign_of_the_cross_terms_is_seen():
    x, s = gaussian(150)
    right, faulty = naive(x, s), naive(x, s, cross_sign=-1.0)
    assert faulty > 3 * right
    np.testing.assert_allclose(ksd(x, s), right, rtol=1e-4)
    # Gradients of U where scores are wanted do not vanish either.
    assert ksd(x, -s) > 3 * right


def test_joint_and_coordinate_bound_each_other():
    x, s = gaussian(300, seed=4)
    joint, coordinate = ksd(x, s), ksd(x, s, kind="coordinate")
    assert joint <= coordinate <= np.sqrt(2) * joint


@pytest.mark.parametrize("kind", ["joint", "coordinate"])
@pytest.mark.parametrize("count", [513, 1100])
def test_blocked_is_unblocked(kind, count):
    x, s = gaussian(count, seed=2)
    with enable_x64(True):
        whole = ksd(x, s, kind=kind, block_size=count)
        for block in (None, 100, 512):
            np.testing.assert_allclose(ksd(x, s, kind=kind, block_size=block), whole, rtol=1e-11)


@pytest.mark.parametrize("kind", ["joint", "coordinate"])
def test_float32_is_accurate_at_4000_draws(kind):
    x, s = gaussian(4000, seed=3)
    x, s = (x + 5.0).astype(np.float32), s.astype(np.float32)
    with enable_x64(True):
        want = ksd(x.astype(float), s.astype(float), kind=kind)
    np.testing.assert_allclose(ksd(x, s, kind=kind), want, rtol=1e-4)


def test_u_statistic_is_unbiased_under_score_noise_and_v_is_not():
    x, s = gaussian(60, seed=5)
    noise = 2.0 * np.random.default_rng(6).normal(size=(4000, 60, 2))

    def squares(statistic):
        value = jax.vmap(lambda e: ksd(x, s + e, statistic=statistic))(jnp.asarray(noise))
        return np.asarray(value * jnp.abs(value), float)

    exact = float(ksd(x, s, statistic="u"))
    u, v = squares("u"), squares("v")
    # A 5-sigma band: false alarm below 1e-6.
    band = 5 * u.std() / np.sqrt(u.size)
    assert (u < 0).any()
    assert abs(u.mean() - exact * abs(exact)) < band
    inflated = float(ksd(x, s)) ** 2 + 2 * 4.0 / 60
    assert abs(v.mean() - inflated) < band and inflated - exact * abs(exact) > 3 * band


def test_pytrees_are_ravelled_draw_by_draw():
    rng = np.random.default_rng(7)
    x = {"a": rng.normal(size=(20,)), "b": rng.normal(size=(20, 2, 2))}
    s = {"a": rng.normal(size=(20,)), "b": rng.normal(size=(20, 2, 2))}
    flat = [np.concatenate([t["a"][:, None], t["b"].reshape(20, 4)], axis=1) for t in (x, s)]
    np.testing.assert_allclose(ksd(x, s), ksd(*flat), rtol=1e-6)


def test_vmap_over_chains_and_traced_options():
    x = np.random.default_rng(8).normal(size=(3, 50, 2)).astype(np.float32)
    got = jax.jit(jax.vmap(ksd))(x, -x)
    np.testing.assert_allclose(got, [ksd(one, -one) for one in x], rtol=1e-5)
    swept = jax.vmap(lambda c: ksd(x[0], -x[0], c=c))(jnp.array([0.5, 2.0]))
    np.testing.assert_allclose(swept, [ksd(x[0], -x[0], c=c) for c in (0.5, 2.0)], rtol=1e-5)


def test_a_draw_that_is_not_finite_gives_nan():
    x, s = gaussian(30)
    s[3, 1] = np.nan
    assert np.isnan(ksd(x, s)) and np.isnan(ksd(x, s, kind="coordinate", statistic="u"))


def test_one_draw_is_its_diagonal_term():
    np.testing.assert_allclose(ksd(np.zeros((1, 3)), np.ones((1, 3))), np.sqrt(6), rtol=1e-6)


X = np.zeros((5, 2))


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((X, np.zeros((5, 3))), {}, ValueError, r"scores must have the shapes.*\(5, 3\)"),
        ((X, {"a": X}), {}, ValueError, r"scores must have the structure"),
        (({"a": X, "b": X[:4]},) * 2, {}, ValueError, r"positions needs one leading draw axis"),
        ((np.zeros(()), np.zeros(())), {}, ValueError, r"positions needs one leading draw axis"),
        ((X, X.astype(complex)), {}, TypeError, r"scores must be real"),
        (("x", "y"), {}, TypeError, r"positions must be a pytree of arrays"),
        ((X, X), {"kind": "both"}, ValueError, r"kind must be .*'both'"),
        ((X, X), {"statistic": "w"}, ValueError, r"statistic must be .*'w'"),
        ((X[:1], X[:1]), {"statistic": "u"}, ValueError, r"at least 2 draws, got 1"),
        ((X[:0], X[:0]), {}, ValueError, r"at least 1 draws, got 0"),
        ((X, X), {"block_size": 0}, ValueError, r"block_size must be .*got 0"),
        ((X, X), {"c": -1.0}, ValueError, r"c must be positive and finite, got -1.0"),
        ((X, X), {"beta": 0.5}, ValueError, r"beta must be in \(-1, 0\), got 0.5"),
        ((X, X), {"beta": jnp.zeros(2)}, ValueError, r"beta must be a scalar, got shape \(2,\)"),
    ],
)
def test_bad_input_is_named(arguments, options, error, message):
    with pytest.raises(error, match=message):
        ksd(*arguments, **options)


def test_chains_are_no_draws():
    z = np.random.default_rng(0).normal(size=(4, 500, 3))
    with pytest.warns(UserWarning, match="positions have 4 draws"):
        ksd({"a": z}, {"a": -z})
    for chains in (z, np.ones((20, 50, 2)), np.ones((64, 20, 1))):
        said = f"taken for {len(chains)} draws of {chains[0].size} numbers"
        with pytest.warns(UserWarning, match=said):
            ksd(chains, -chains)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ksd(z.reshape(-1, 3), -z.reshape(-1, 3))
        ksd({"matrix": np.ones((20, 3, 2))}, {"matrix": np.ones((20, 3, 2))})
        ksd(X, -X)


def test_digits_that_all_positions_share_are_not_rounded():
    """Double precision of numpy, which JAX takes in single; of scores every digit counts."""
    x = np.random.default_rng(0).normal(size=(50, 2))
    np.testing.assert_allclose(ksd(x + 1e9, -x), ksd(x, -x), rtol=1e-5)
    assert not np.allclose(ksd(x, 1 - x), ksd(x, -x), rtol=0.1)
