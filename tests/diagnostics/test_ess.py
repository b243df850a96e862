"""ESS against arviz-stats, and its edge cases."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy import stats

from sgmc_jax.diagnostics import ess, rhat
from sgmc_jax.diagnostics._ranks import rank_normalise, rank_normalise_folded

try:
    from jax import enable_x64
except ImportError:  # before jax 0.8
    from jax.experimental import enable_x64


def ar1(phi, shape, seed=0):
    """AR(1) chains along axis 1, started in stationarity, unit innovations."""
    noise = np.random.default_rng(seed).normal(size=shape)
    x = noise.copy()
    x[:, 0] /= np.sqrt(1 - phi**2)
    for t in range(1, shape[1]):
        x[:, t] += phi * x[:, t - 1]
    return x


def stuck():
    x = ar1(0.5, (4, 500), seed=5)
    x[1] = 0.3
    return x


DRAWS = {
    "iid": ar1(0.0, (4, 500)),
    "ar .5": ar1(0.5, (4, 500)),
    "ar .9": ar1(0.9, (4, 500)),
    "ar .99": ar1(0.99, (4, 500)),
    "antithetic -.5": ar1(-0.5, (4, 500)),
    "antithetic -.95": ar1(-0.95, (4, 500)),
    "odd draws": ar1(0.7, (3, 501)),
    "one chain": ar1(0.5, (1, 600)),
    "poisson": np.random.default_rng(1).poisson(2.0, (4, 500)).astype(float),
    "two-valued": np.random.default_rng(2).integers(0, 2, (4, 500)).astype(float),
    "constant": np.full((4, 500), 0.1),
    "stuck chain": stuck(),
    "all chains stuck": np.repeat(np.arange(4.0)[:, None], 500, axis=1),
    "offset": 100 + ar1(0.5, (4, 500)),
    "tiny scale": 1e-9 * ar1(0.5, (4, 500)),
    "heavy tails": np.random.default_rng(3).standard_cauchy((4, 500)),
    "random walk": ar1(0.0, (4, 500)).cumsum(axis=1),
} | {f"{n} draws": ar1(0.3, (3, n), seed=n) for n in range(4, 10)}


@pytest.mark.parametrize("kind", ["bulk", "mean"])
@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("x64", [False, pytest.param(True, marks=pytest.mark.full)])
def test_ess_is_that_of_arviz(name, kind, x64):
    with enable_x64(x64):
        x = jnp.asarray(DRAWS[name])
        got = float(ess(x, kind=kind))
        want = array_stats.ess(np.asarray(x), method=kind)
        np.testing.assert_allclose(got, want, rtol=1e-8 if x64 else 1e-4)


def test_many_parameters_are_handled_alike_in_every_layout():
    x = np.stack([ar1(phi, (4, 250), seed=7) for phi in (0.0, 0.3, 0.6, -0.3, 0.8, 0.9)], -1)
    want = array_stats.ess(x.astype(np.float32), chain_axis=0, draw_axis=1)
    x = jnp.asarray(x, jnp.float32)
    np.testing.assert_allclose(ess(x), want, rtol=1e-4)
    tree = ess({"a": x[..., 0], "b": x[..., 2:].reshape(4, 250, 2, 2)})
    np.testing.assert_allclose(tree["a"], want[0], rtol=1e-4)
    np.testing.assert_allclose(tree["b"], want[2:].reshape(2, 2), rtol=1e-4)
    mapped = jax.jit(jax.vmap(ess, in_axes=2))(x)
    np.testing.assert_allclose(mapped, want, rtol=1e-4)


def test_a_parameter_that_is_not_finite_is_nan_and_alone():
    x = np.repeat(ar1(0.2, (2, 60))[..., None], 3, axis=-1)
    x[1, 5, 1], x[0, 3, 2] = np.nan, np.inf
    for kind in ("bulk", "mean", "batch_means"):
        assert np.isnan(ess(x, kind=kind)).tolist() == [False, True, True]


def test_an_empty_parameter_axis_stays_empty():
    assert ess(jnp.zeros((2, 10, 0))).shape == (0,)


@pytest.mark.parametrize("phi", [0.0, 0.8, -0.5])
def test_batch_means_agree_with_the_closed_form(phi):
    x = ar1(phi, (50, 10_000), seed=11)
    want = x.size * (1 - phi) / (1 + phi)
    # 5000 batches: relative sd 2 %, batch bias below 1 / 100 * (1 + phi) / (1 - phi) = 9 %.
    np.testing.assert_allclose(ess(x, kind="batch_means"), want, rtol=0.12)


def test_batch_means_by_hand():
    x = ar1(0.4, (3, 29), seed=2)
    used = x[:, 4:]
    means = used.reshape(3, 5, 5).mean(axis=-1)
    want = x.size * used.var(ddof=1) / (5 * means.var(ddof=1))
    np.testing.assert_allclose(ess(x, kind="batch_means"), want, rtol=1e-5)
    assert ess(jnp.ones((3, 29)), kind="batch_means") == 87
    alternating = jnp.tile(jnp.array([-1.0, 1.0]), (2, 18))
    np.testing.assert_allclose(ess(alternating, kind="batch_means"), 72 * np.log10(72), rtol=1e-6)


@pytest.mark.parametrize("x64", [False, True])
def test_ranks_are_average_ranks(x64):
    x = np.random.default_rng(4).integers(-5, 6, 1000) / 4.0
    x = np.concatenate([x, [-0.0, 0.0, 1e-30, -1e30], x[:96] * 1e-3])
    with enable_x64(x64):
        x = np.asarray(jnp.asarray(x))
        bulk, tail = rank_normalise_folded(jnp.asarray(x))
        folded = abs(x - np.median(x))
        for got, values in [(rank_normalise(jnp.asarray(x)), x), (bulk, x), (tail, folded)]:
            ranks = stats.rankdata(values)
            want = stats.norm.ppf((ranks - 0.375) / (ranks.size + 0.25))
            np.testing.assert_allclose(got, want, atol=1e-12 if x64 else 2e-6)


def test_scores_of_a_large_array_keep_both_tails():
    x = np.random.default_rng(9).normal(size=150_002).astype(np.float32)
    ranks = stats.rankdata(x)
    want = stats.norm.ppf((ranks - 0.375) / (ranks.size + 0.25))
    np.testing.assert_allclose(rank_normalise(jnp.asarray(x)), want, rtol=2e-6, atol=1e-6)


def test_dtypes():
    x = np.random.default_rng(0).integers(0, 9, (2, 100))
    want = ess(x.astype(np.float32))
    assert ess(x) == want and ess(x.astype(np.float16)) == want
    assert ess(jnp.asarray(x, jnp.bfloat16)).dtype == jnp.float32
    assert np.isfinite(ess(x > 4))


@pytest.mark.parametrize(
    ("x", "kind", "error", "message"),
    [
        (np.zeros(10), "bulk", ValueError, r"x must have leading axes \(chain, draw\).*\(10,\)"),
        (np.zeros((2, 3)), "bulk", ValueError, r"x needs at least.*4 draws.*\(2, 3\)"),
        (np.zeros((0, 9)), "bulk", ValueError, r"at least 1 chain"),
        ({"w": np.zeros(4)}, "mean", ValueError, r"x\['w'\] must have leading axes"),
        (np.zeros((2, 9)), "tail", ValueError, r"kind must be one of .*'tail'"),
        (np.zeros((2, 9), complex), "bulk", TypeError, r"x must be real"),
        ("draws", "bulk", TypeError, r"x must be an array of draws, got str"),
    ],
)
def test_bad_input_is_named(x, kind, error, message):
    with pytest.raises(error, match=message):
        ess(x, kind=kind)


@pytest.mark.parametrize("diagnostic", [ess, rhat])
def test_draws_of_one_chain_are_not_many_chains(diagnostic):
    x = ar1(0.9, (1, 500))[0]
    several = {"w": np.stack([x] * 5, -1)}  # (draw, 5)
    with pytest.warns(UserWarning, match=r"more chains than draws, shape \(500, 5\)"):
        diagnostic(several)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        diagnostic({"w": several["w"][None], "b": np.zeros((4, 4))})


def test_what_has_stood_still_in_all_batches_has_no_draws_by_batch_means():
    """Of 150 draws the first six fill no batch: what moved there alone is not constant."""
    x = np.zeros((1, 150, 2), np.float32)
    x[0, 0, 1] = 1.0
    np.testing.assert_array_equal(ess(x, kind="batch_means"), [150, 0])
