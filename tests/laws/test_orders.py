"""The order of the bias in the step size: h halved, a word of order two is off by a fourth."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gamma, iv

from sgmc_jax import Euclidean, Full, FunctionModel, Minibatch, Sphere, gsgnht, sggmc
from sgmc_jax.transitions import Noise
from tests.laws.moments import Z, run_law

pytestmark = [pytest.mark.full, pytest.mark.at_length, pytest.mark.runs_long]

KEY = jax.random.key(44)
LAWS = {  # of which no word is exact, unlike normal ones: a space, a density, a start, a moment
    "quartic": (
        Euclidean(),
        lambda x: -(x**4) / 4,
        jnp.zeros(()),
        lambda x: x**2,
        2 * gamma(3 / 4) / gamma(1 / 4),
    ),
    "circle": (
        Sphere(),
        lambda x: 4 * x[0],
        jnp.array([1.0, 0.0]),
        lambda x: x[0],
        iv(1, 4) / iv(0, 4),
    ),
}
KERNELS = {
    "ABOBA": sggmc,
    "AFBNFA": lambda *args: sggmc(*args, word="AFBNFA"),
    "ATFBNFTA": gsgnht,
    "EAT": lambda *args: gsgnht(*args, word="EAT"),
}


def bias(law, name, h, time, num_chains):
    """The error of the moment, and its standard error."""
    space, density, start, moment, exact = LAWS[law]
    kernel = KERNELS[name](Minibatch(FunctionModel(density), Full()), space, h)
    reduce = lambda state, info: moment(state.position)
    args = {"num_steps": round(time / h), "burn_in": round(30 / h), "num_chains": num_chains}
    means = np.asarray(run_law(KEY, kernel, start, None, reduce=reduce, **args).trace.mean, float)
    return means.mean() - exact, means.std(ddof=1) / np.sqrt(num_chains)


@pytest.mark.parametrize(
    "law, name, order, h, time, num_chains",
    [
        ("quartic", "ABOBA", 2, 0.4, 500, 2_048),
        ("quartic", "AFBNFA", 2, 0.4, 500, 2_048),
        ("quartic", "ATFBNFTA", 2, 0.4, 500, 2_048),
        ("quartic", "EAT", 1, 0.1, 300, 4_096),
        ("circle", "ABOBA", 2, 0.4, 2_000, 4_096),
        ("circle", "ATFBNFTA", 2, 0.4, 300, 1_024),
        ("circle", "EAT", 1, 0.1, 300, 4_096),
    ],
)
def test_the_order_of_the_bias(law, name, order, h, time, num_chains):
    """It is the one, up to a quarter of the bias for higher orders, and not the other one."""
    (coarse, error), (fine, small) = (bias(law, name, h, time, num_chains) for h in (h, h / 2))
    this, other = 2**order, 2 ** (3 - order)
    spread = lambda ratio: Z * np.hypot(error, ratio * small)
    assert abs(coarse - this * fine) < abs(coarse) / 4 + spread(this), (coarse, fine)
    assert abs(coarse - other * fine) > spread(other), (coarse, fine)


def test_noise_of_another_temperature_by_the_step_size_is_seen(monkeypatch):
    """N(0, 2 C T h) with h + h^2 / 2 in place of h: first order, which no fixed h tells."""
    honest = Noise.variance
    monkeypatch.setattr(Noise, "variance", lambda self, h, v: (1 + h / 2) * honest(self, h, v))
    with pytest.raises(AssertionError):
        test_the_order_of_the_bias("quartic", "AFBNFA", 2, 0.4, 500, 2_048)
