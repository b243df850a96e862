"""Kernels on manifolds inside gibbs, cycle, thin and repeat: a sphere times a half line."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

from sgmc_jax import (
    Full,
    FunctionModel,
    Minibatch,
    Positive,
    Product,
    Sphere,
    Uniform,
    cycle,
    gibbs,
    gmc,
    gsgnht,
    repeat,
    sggmc,
    sgld,
    thin,
)
from sgmc_jax.runner.programs import programs
from tests.laws.moments import check_law, run_law

pytestmark = [pytest.mark.runs_long, pytest.mark.full]

KEY = jax.random.key(16)
SPACE = Product({"x": Sphere(), "y": Positive()})
START = {"x": jnp.array([0.0, 1.0, 0.0]), "y": jnp.array(1.0)}
# pairs that only add noise to the gradient in x, and sum to zero
ITEMS = np.concatenate([np.eye(3), -np.eye(3)]).astype(np.float32)


def log_density(position):
    """y^4 exp(-3 y + y x_0), with respect to the volume dx dy / y."""
    return 4 * jnp.log(position["y"]) + position["y"] * (position["x"][0] - 3)


def exact():
    """E y, E x_0 and E y x_0: given y, x is von Mises-Fisher of mean coth(y) - 1/y."""
    mass = lambda y: y**3 * np.exp(-3 * y) * np.sinh(y) / y
    mean = lambda y: 1 / np.tanh(y) - 1 / y
    integral = lambda f: scipy.integrate.quad(lambda y: f(y) * mass(y), 0, 60)[0]
    parts = (lambda y: y, mean, lambda y: y * mean(y))
    return np.array([integral(part) for part in parts]) / integral(lambda y: 1.0)


def with_items(density):
    return FunctionModel(density, lambda x, z: 0.2 * z @ (x["x"] if isinstance(x, dict) else x))


def x_given(rest, batcher=Full()):
    return Minibatch(with_items(lambda x: rest["y"] * x[0]), batcher)


def y_given(rest):
    density = lambda y: log_density({"x": rest["x"], "y": y})
    return Minibatch(FunctionModel(density, lambda y, z: 0.0 * y), Full())


JOINT = Minibatch(with_items(log_density), Full())
BATCHES = Minibatch(with_items(log_density), Uniform(2))
NOISE = {"noise_covariance": 6**2 / 2 * (1 - 2 / 6) * 0.04 * 2 / 5}  # N^2/n (1 - n/N) S of ITEMS
KERNELS = {
    "gibbs gmc": gibbs(
        x=lambda rest: gmc(x_given(rest), Sphere(), 0.5, 3),
        y=lambda rest: gmc(y_given(rest), Positive(), 0.3, 3),
    ),
    "gibbs gsgnht": gibbs(
        x=lambda rest: repeat(gsgnht(x_given(rest, Uniform(2)), Sphere(), 0.1, 2.0), 3),
        y=lambda rest: gmc(y_given(rest), Positive(), 0.3, 3),
    ),
    "gibbs sggmc": gibbs(
        x=lambda rest: sggmc(x_given(rest, Uniform(2)), Sphere(), 0.1, 2.0, **NOISE),
        y=lambda rest: gmc(y_given(rest), Positive(), 0.3, 3),
    ),
    "gibbs langevin": gibbs(
        x=lambda rest: sgld(x_given(rest), 0.005, space=Sphere()),
        y=lambda rest: gmc(y_given(rest), Positive(), 0.3, 3),
    ),
    "cycle": cycle(gmc(JOINT, SPACE, 0.3, 3), sggmc(JOINT, SPACE, 0.1, 2.0)),
    "cycle gsgnht": cycle(gsgnht(BATCHES, SPACE, 0.05, 2.0), gmc(JOINT, SPACE, 0.3, 3)),
    "thin": thin(gsgnht(BATCHES, SPACE, 0.05, 2.0), 3),
    "repeat": repeat(sgld(JOINT, 0.005, space=SPACE), 3),
    "repeat of gmc": repeat(gmc(JOINT, SPACE, 0.3, 3), 2),
}


def check(kernel, tolerance):
    moments = lambda s, i: jnp.stack(
        [s.position["y"], s.position["x"][0], s.position["y"] * s.position["x"][0]]
    )
    args = {"num_chains": 512, "num_steps": 4_000, "burn_in": 400}
    run = run_law(KEY, kernel, START, ITEMS, reduce=moments, **args)
    check_law(run.trace.mean, exact(), tolerance)


@pytest.mark.parametrize("name", KERNELS)
def test_the_joint_law(name):
    check(KERNELS[name], 0.05)


@pytest.mark.at_length
def test_a_momentum_that_is_carried_to_another_point_is_seen(monkeypatch):
    """The law of a tangent velocity knows where it is: `refresh` draws it anew. One that is no
    tangent leaves the sphere, and in the end what is finite."""
    monkeypatch.setattr(Sphere, "flat", True)
    monkeypatch.setattr(Product, "flat", True)
    monkeypatch.setattr(Positive, "flat", True)
    programs.cache_clear()
    with pytest.raises(AssertionError, match="standard errors|not finite"):
        check(KERNELS["cycle"], 0.05)
    programs.cache_clear()


@pytest.mark.at_length
def test_a_gradient_at_the_old_block_is_seen(monkeypatch):
    """`gibbs` retargets a block before it steps: what it carries was for another y."""
    from sgmc_jax.combinators.metropolis import Metropolis

    monkeypatch.setattr(Metropolis, "retarget", lambda self, key, state, data: state)
    programs.cache_clear()
    with pytest.raises(AssertionError, match="standard errors"):
        check(KERNELS["gibbs gmc"], 0.05)
    programs.cache_clear()
