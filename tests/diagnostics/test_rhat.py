"""R-hat against arviz-stats, and its edge cases."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base import array_stats

from sgmc_jax.diagnostics import ess, rhat

try:
    from jax import enable_x64
except ImportError:  # before jax 0.8
    from jax.experimental import enable_x64


def normal(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def stuck(value):
    x = normal((4, 500), seed=5)
    x[1] = value
    return x


DRAWS = {
    "iid": normal((4, 500)),
    "shifted chain": normal((4, 500)) + np.array([0, 0, 0, 0.7])[:, None],
    "wide chain": normal((4, 500)) * np.array([1, 1, 1, 2.0])[:, None],
    "random walk": normal((4, 500)).cumsum(axis=1),
    "trend": normal((4, 500)) + np.linspace(0, 2, 500),
    "odd draws": normal((3, 501)),
    "one chain": normal((1, 600)),
    "poisson": np.random.default_rng(1).poisson(2.0, (4, 500)).astype(float),
    # The median is 0 or 1 and the folded draws are constant or two-valued.
    "two-valued": np.random.default_rng(2).integers(0, 2, (4, 500)).astype(float),
    "balanced two-valued": np.tile([0.0, 1.0], (4, 250)),
    "constant": np.full((4, 500), 0.1),
    "chain stuck near the median": stuck(0.0),
    "chain stuck in the tail": stuck(-4.0),
    "offset": 100 + normal((4, 500)),
    "tiny scale": 1e-9 * normal((4, 500)),
    "heavy tails": np.random.default_rng(3).standard_cauchy((4, 500)),
    "negative zeros": np.where(normal((4, 500)) > 0, -0.0, 0.0) + (normal((4, 500), 1) > 1),
} | {f"{n} draws": normal((3, n), seed=n) for n in range(4, 10)}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("x64", [False, pytest.param(True, marks=pytest.mark.full)])
def test_rhat_is_that_of_arviz(name, x64):
    with enable_x64(x64), np.errstate(all="ignore"):
        x = jnp.asarray(DRAWS[name])
        want = array_stats.rhat(np.asarray(x))
        np.testing.assert_allclose(float(rhat(x)), want, rtol=1e-8 if x64 else 1e-4)


def test_the_folded_half_sees_scales_that_differ():
    assert rhat(normal((4, 500))) < 1.01
    assert rhat(DRAWS["wide chain"]) > 1.05


def test_chains_stuck_apart_are_infinite():
    assert rhat(jnp.repeat(jnp.array([0.1, 0.2, 0.7])[:, None], 50, axis=1)) == jnp.inf


def test_many_parameters_trees_and_vmap():
    x = normal((4, 250, 6)).astype(np.float32) + np.linspace(0, 1, 4)[:, None, None] * np.arange(6)
    x = x.astype(np.float32)
    want = array_stats.rhat(x, chain_axis=0, draw_axis=1)
    np.testing.assert_allclose(rhat(x), want, rtol=1e-4)
    tree = rhat({"a": x[..., 0], "b": x[..., 2:].reshape(4, 250, 2, 2)})
    np.testing.assert_allclose(tree["a"], want[0], rtol=1e-4)
    np.testing.assert_allclose(tree["b"], want[2:].reshape(2, 2), rtol=1e-4)
    np.testing.assert_allclose(jax.jit(jax.vmap(rhat, in_axes=2))(x), want, rtol=1e-4)


def test_a_parameter_that_is_not_finite_is_nan_and_alone():
    x = np.repeat(normal((2, 60))[..., None], 3, axis=-1)
    x[1, 5, 1], x[0, 3, 2] = np.nan, -np.inf
    assert np.isnan(rhat(x)).tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (np.zeros(10), ValueError, r"x must have leading axes \(chain, draw\).*\(10,\)"),
        ([np.zeros((2, 3))], ValueError, r"x\[0\] needs at least.*4 draws.*\(2, 3\)"),
        (np.zeros((2, 9), complex), TypeError, r"x must be real"),
    ],
)
def test_bad_input_is_named(x, error, message):
    with pytest.raises(error, match=message):
        rhat(x)


@pytest.mark.parametrize("diagnostic", [rhat, ess, partial(ess, kind="mean")])
def test_digits_that_all_draws_share_are_not_rounded(diagnostic):
    """Double precision of numpy, which JAX takes in single."""
    x = normal((4, 500, 2)).cumsum(1)
    for far in (1e12, [0.0, -1e9]):
        np.testing.assert_allclose(diagnostic(x + far), diagnostic(x), rtol=1e-3)
    x[0, 0, 0] = np.inf
    assert np.isnan(diagnostic(x + 1e12)).tolist() == [True, False]


@pytest.mark.parametrize("where", [np.asarray, jnp.asarray])
@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
def test_whole_numbers_keep_their_digits(where, dtype, x64):
    """Also where JAX would hold them, and of what it computes with in single precision."""
    x = np.random.default_rng(0).integers(0, 9, (4, 100)).repeat(10, 1)
    for diagnostic in (rhat, ess):
        expected, far = diagnostic(x.astype(float)), where((x + 10**9).astype(dtype))
        np.testing.assert_allclose(diagnostic(far), expected, rtol=1e-6)
        np.testing.assert_allclose(jax.jit(diagnostic)(far), expected, rtol=1e-3)
