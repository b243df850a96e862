"""Modified Bessel functions against references of forty digits, and their derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import iv

import sgmc_jax
from sgmc_jax import bessel
from sgmc_jax.special import bessel_ratio, log_bessel_i, log_bessel_series

# By mpmath at 60 digits, at the float32 numbers next to these.
ORDERS = [-0.5, 0.0, 0.5, 1.0, 4.0, 31.5, 499.0, 4999.0, 5e4]
ARGUMENTS = np.array([1e-3, 0.1, 1, 5, 50, 1e3, 5e4, 1e6], np.float32)
LOG_I_ROWS = [
    [
        3.22808676309758,
        0.9304928753718783,
        0.20798947783829974,
        3.276387909477494,
        47.125049964081256,
        995.6271838273043,
        49993.67117232459,
        999992.1733061878,
    ],
    [
        2.50000008123725e-07,
        0.0024984393082890725,
        0.23591435850717865,
        3.3046817758225333,
        47.1275755018718,
        995.6273088898695,
        49993.671174824616,
        999992.1733063128,
    ],
    [
        -3.679668801720394,
        -1.375417780177952,
        -0.0643519910735318,
        3.2762971096179068,
        47.125049964081256,
        995.6271838273043,
        49993.67117232459,
        999992.1733061878,
    ],
    [
        -7.600902287044623,
        -2.9944825189238067,
        -0.5706479874908312,
        3.1919420305456754,
        47.11747361658713,
        995.62680863964,
        49993.67116482452,
        999992.1733058128,
    ],
    [
        -33.58166342852647,
        -15.160482885775714,
        -5.900848925501371,
        1.6308538971068958,
        46.96603024504323,
        995.6193048962278,
        49993.67101482301,
        999992.1732983128,
    ],
    [
        -319.24961138532797,
        -174.1866746381876,
        -101.64763017645606,
        -50.76626758018069,
        37.41492037346745,
        995.1309766926729,
        49993.66125222571,
        999992.1728101876,
    ],
    [
        -6397.966153971505,
        -4099.986242429496,
        -2950.9957934613963,
        -2147.8742753124634,
        -997.6483679805104,
        873.4805132760812,
        49991.18116059176,
        999992.0488057531,
    ],
    [
        -75579.53747349641,
        -52558.291876190844,
        -41047.669021304515,
        -33002.087697046605,
        -21491.34106873135,
        -6466.047111412694,
        49743.976223415404,
        999979.678325586,
    ],
    [
        -871040.3636520879,
        -640781.8559824477,
        -525652.6020728536,
        -445180.70633115096,
        -330051.43930669775,
        -180259.83847869132,
        26635.49665350167,
        998742.432903664,
    ],
]
RATIO_ROWS = [
    [
        0.0009999997141642038,
        0.09966799610026955,
        0.7615941559557649,
        0.9999092042625951,
        1.0,
        1.0,
        1.0,
        1.0,
    ],
    [
        0.0004999999612487272,
        0.049937604730210756,
        0.4463899658965345,
        0.8933831370440852,
        0.9899489673784978,
        0.9994998748748043,
        0.999989999949999,
        0.999999499999875,
    ],
    [
        0.00033333332694359384,
        0.03331113274970315,
        0.3130352854993313,
        0.8000908039820194,
        0.98,
        0.999,
        0.99998,
        0.999999,
    ],
    [
        0.00025000000145769535,
        0.024989590211476512,
        0.24019372387008975,
        0.7193405813643129,
        0.9701530815756276,
        0.9985003753754931,
        0.999970000150003,
        0.999998500000375,
    ],
    [
        0.00010000000391641169,
        0.009999166934669436,
        0.09917838239971256,
        0.4224501510153021,
        0.9132095998737405,
        0.9955078828557041,
        0.999910003150063,
        0.999995500007875,
    ],
    [
        1.5384616111812773e-05,
        0.0015384580287693024,
        0.015381084326372934,
        0.07648635460183552,
        0.544759900703343,
        0.968496373305196,
        0.9993601984039484,
        0.9999680004960005,
    ],
    [
        1.0000000474964532e-06,
        0.0001000000004921121,
        0.000999999001997996,
        0.0049998752557132865,
        0.04987586693376364,
        0.6181868129101049,
        0.9900597999059679,
        0.9995006245004917,
    ],
    [
        1.0000000474974413e-07,
        1.0000000148011812e-05,
        9.999999900019998e-05,
        0.0004999998750250575,
        0.004999875031240862,
        0.09901970211302723,
        0.9049956711586162,
        0.9950129949348082,
    ],
    [
        9.999800478964932e-09,
        9.999800152998552e-07,
        9.999800003e-06,
        4.99989998950096e-05,
        0.0004999898752100579,
        0.009998800283913551,
        0.41420856239961185,
        0.9512487209717991,
    ],
]
# order, argument, log I and the ratio, where log I is small beside its terms
CROSSINGS = [
    (31.5, 21.0, -2.513157429462587, 0.29556879762078403),
    (499.0, 330.0, -5.400282153262549, 0.30029180838434205),
    (4999.0, 3313.0, -5.36685212492791, 0.3012408462639897),
    (5e4, 33135.0, -10.349755743064932, 0.3012699606884287),
]
NU, X = np.array(ORDERS)[:, None], ARGUMENTS.astype(float)
LOG_I, RATIO = np.array(LOG_I_ROWS), np.array(RATIO_ROWS)
SLOPE = RATIO + NU / X
PHI = LOG_I - NU * np.log(X / 2) + np.array([[float(bessel.host_gammaln(n + 1))] for n in ORDERS])
BOUND = {"float32": (3e-7, 3e-7), "float64": (1e-9, 4e-14)}  # of logarithms, of ratios

both_types = pytest.mark.parametrize(
    "dtype", ["float32", pytest.param("float64", marks=pytest.mark.full)]
)


def arguments(dtype):
    return np.array(ORDERS, dtype)[:, None], ARGUMENTS.astype(dtype)


def slope(function, dtype, times=1):
    """The derivative in the argument, on the whole table."""
    for _ in range(times):
        function = jax.grad(function, argnums=1)
    nu, x = np.broadcast_arrays(*arguments(dtype))
    return np.asarray(jax.jit(jax.vmap(function))(nu.ravel(), x.ravel()), float).reshape(nu.shape)


def error(value, exact, dtype):
    """Relative to what is larger, the value or 1."""
    assert value.dtype == dtype
    return np.abs(np.asarray(value, float) - exact) / np.maximum(1, np.abs(exact))


@both_types
def test_logarithm(dtype, x64):
    nu, x = arguments(dtype)
    assert np.max(error(log_bessel_i(nu, x), LOG_I, dtype)) < BOUND[dtype][0]
    assert np.max(error(log_bessel_i(jnp.asarray(nu), x), LOG_I, dtype)) < BOUND[dtype][0]
    traced = jax.jit(log_bessel_i)(nu, x)
    assert np.max(error(traced, LOG_I, dtype)) < BOUND[dtype][0]


@both_types
def test_ratio_and_derivative(dtype, x64):
    ratio = bessel_ratio(*arguments(dtype))
    assert ratio.dtype == dtype
    np.testing.assert_allclose(ratio, RATIO, rtol=BOUND[dtype][1])
    np.testing.assert_allclose(slope(log_bessel_i, dtype), SLOPE, rtol=BOUND[dtype][1])
    np.testing.assert_allclose(slope(log_bessel_series, dtype), RATIO, rtol=BOUND[dtype][1])


@both_types
def test_series(dtype, x64):
    assert np.max(error(log_bessel_series(*arguments(dtype)), PHI, dtype)) < BOUND[dtype][0]
    scaled = log_bessel_series(*arguments(dtype), scaled=True)
    assert np.max(error(scaled[1:], (PHI - X)[1:], dtype)) < 2 * BOUND[dtype][0]


@both_types
def test_derivatives_of_the_scaled_series_and_the_ratio(dtype, x64):
    scaled = slope(lambda nu, x: log_bessel_series(nu, x, scaled=True), dtype)
    rtol = 1e-5 if dtype == "float32" else 2e-10  # that of 1 - RATIO itself is 1e-10
    np.testing.assert_allclose(scaled[1:], RATIO[1:] - 1, rtol=rtol)
    second = 1 - RATIO**2 - (2 * NU + 1) * RATIO / X
    atol = 3e-7 if dtype == "float32" else 1e-11
    np.testing.assert_allclose(slope(bessel_ratio, dtype), second, rtol=0, atol=atol)
    twice = slope(log_bessel_series, dtype, times=2)
    np.testing.assert_allclose(twice, slope(bessel_ratio, dtype), rtol=0, atol=1e-7)


@pytest.mark.parametrize("order, argument, log_i, ratio", CROSSINGS)
def test_where_the_logarithm_changes_sign(order, argument, log_i, ratio):
    """The error is that of one unit in the last place of x."""
    nu, x = np.float32(order), np.float32(argument)
    change = 2.0**-23 * (order + argument * ratio)
    assert abs(float(log_bessel_i(nu, x)) - log_i) < 3e-7 * max(1, abs(log_i)) + change
    assert abs(float(jax.jit(log_bessel_i)(nu, x)) - log_i) < 3e-7 * max(1, abs(log_i)) + change
    np.testing.assert_allclose(bessel_ratio(nu, x), ratio, rtol=3e-7)


def test_the_table_sees_a_shorter_recurrence(monkeypatch):
    monkeypatch.setitem(bessel._STEPS, "float32", 3)
    bessel._values.clear_cache()  # type: ignore
    found = np.max(error(log_bessel_series(*arguments("float32")), PHI, "float32"))
    monkeypatch.undo()
    bessel._values.clear_cache()  # type: ignore
    assert found > BOUND["float32"][0]


def test_whole_numbers_and_broadcasting():
    value = sgmc_jax.special.log_bessel_i(np.arange(3)[:, None], jnp.array([1, 2]))
    expected = np.log(iv(np.arange(3)[:, None], [1, 2]))
    assert value.dtype == jnp.float32
    np.testing.assert_allclose(value, expected, rtol=1e-6, atol=3e-7)
    assert bessel_ratio(0, jnp.bfloat16(1)).dtype == jnp.float32


def test_at_zero():
    orders = np.array([-0.5, 0.0, 1.0, 5e4])
    np.testing.assert_array_equal(log_bessel_i(orders, 0.0), [np.inf, 0, -np.inf, -np.inf])
    np.testing.assert_array_equal(bessel_ratio(orders, 0.0), np.zeros(4))
    np.testing.assert_array_equal(log_bessel_series(orders, 0.0), np.zeros(4))
    assert jax.grad(log_bessel_i, 1)(0.0, 0.0) == 0 and jax.grad(log_bessel_i, 1)(1.0, 0.0) > 1e30
    slopes = jax.vmap(jax.grad(bessel_ratio, 1), (0, None))(orders, 0.0)
    np.testing.assert_allclose(slopes, 1 / (2 * orders + 2), rtol=1e-6)


@pytest.mark.parametrize("function", [log_bessel_i, bessel_ratio, log_bessel_series])
def test_out_of_range(function):
    order = np.array([-0.6, 1.0, 1.0, np.nan, 1.0, 1.0])
    argument = np.array([1.0, -1.0, np.nan, 1.0, np.inf, 1e30])
    np.testing.assert_array_equal(jnp.isnan(function(order, argument)), [1, 1, 1, 1, 1, 0])
    with pytest.raises(TypeError, match="no derivative in their order"):
        jax.grad(function)(1.0, 1.0)


def test_transformations():
    dtype = "float32"
    nu, x = (jnp.asarray(v) for v in np.broadcast_arrays(*arguments(dtype)))
    mapped = jax.jit(jax.vmap(jax.vmap(bessel_ratio)))(nu, x)
    np.testing.assert_allclose(mapped, bessel_ratio(nu, x), rtol=BOUND[dtype][1])
    hessian = jax.jit(jax.hessian(lambda v: jnp.sum(log_bessel_series(nu[:3, 3], v))))(x[:3, 3])
    np.testing.assert_allclose(hessian, np.diag(slope(bessel_ratio, dtype)[:3, 3]), atol=1e-6)
    tied = jax.lax.scan(lambda c, v: (c + jax.grad(log_bessel_i, 1)(2.0, v), None), 0.0, x[0])[0]
    np.testing.assert_allclose(tied, np.sum(bessel_ratio(2.0, x[0]) + 2.0 / x[0]), rtol=1e-5)
