"""Every kernel, on a problem small enough for every law."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sgmc_jax import (
    SVRG,
    AllReduce,
    AnchoredCounts,
    ControlVariate,
    Epoch,
    Euclidean,
    Full,
    FunctionModel,
    Kernel,
    LinearModel,
    Minibatch,
    Product,
    Sphere,
    Summand,
    TableCounts,
    Uniform,
    cycle,
    draw,
    geometric_ornstein_uhlenbeck,
    gibbs,
    hmc,
    mala,
    repeat,
    scir,
    sggmc,
    sghmc,
    sgld,
    sgnht,
    sgrld_simplex,
    thin,
)

DIM, ITEMS = 3, 40
_rng = np.random.default_rng(0)
X = _rng.normal(size=(ITEMS, DIM)).astype(np.float32)
Y = (X @ np.ones(DIM) + _rng.normal(size=ITEMS)).astype(np.float32)
ONE_HOT = np.eye(DIM, dtype=np.float32)[_rng.integers(0, DIM, ITEMS)]
SPHERE_DATA = 0.1 * X


class Case(NamedTuple):
    """A row: how to make the kernel at a step size, and what to run it on."""

    name: str
    make: Callable[[Any], Kernel]
    position: Any
    data: Any
    step_size: float = 0.01
    sized: bool = True  # whether `make` uses its step size
    breakable: bool = True  # whether the NaN of the model below stops it
    noisy_batches: bool = True  # whether it draws minibatches


def logprior(w):
    # past 1e6 the density is undefined: a chain put there must be flagged, and no other touched
    return -0.5 * w @ w * jnp.where(w[0] > 1e6, jnp.nan, 1.0)


MODEL = FunctionModel(logprior, lambda w, z: -0.5 * (z[1] - z[0] @ w) ** 2)
LINEAR = LinearModel(logprior, lambda eta, y: -0.5 * (y - eta) ** 2)
PLAIN = Minibatch(MODEL, Uniform(5))
EXACT = Minibatch(MODEL, Full())
ON_SPHERE = Minibatch(FunctionModel(lambda x: 5.0 * x[0], lambda x, z: z @ x), Uniform(5))
ON_PRODUCT = Minibatch(
    FunctionModel(lambda x: -0.5 * x["y"] @ x["y"], lambda x, z: z @ (x["x"] + x["y"])), Uniform(5)
)
COUNTS = Minibatch(Summand(jnp.full(DIM, 0.5), lambda position, z: z), Uniform(5))


def allocate(key, position, z):
    return jax.nn.one_hot(jax.random.categorical(key, position + z), DIM)


LATENT = (allocate, 0.5, Uniform(5))
ANCHOR = (np.zeros(DIM, np.float32), lambda position, z: jax.nn.softmax(position + z))
LOCATION = Minibatch(Summand(jnp.zeros(DIM), lambda position, z: 0.1 * z), Uniform(5))
ZERO = np.zeros(DIM, np.float32)
POLE = np.array([1.0, 0.0, 0.0], np.float32)


class AutoState(NamedTuple):
    position: Any


def autoregression(mean=0.0):
    def step(key, state, data):
        noise = jax.random.normal(key, state.position.shape, state.position.dtype)
        return AutoState(mean + 0.5 * (state.position - mean) + noise), None

    return Kernel.from_functions(lambda key, position, data: AutoState(position), step)


def normal(mean):
    return draw(lambda key, data: mean + jax.random.normal(key, (DIM,)))


def _on(name, make, **kwargs):
    return Case(name, make, ZERO, (X, Y), **kwargs)


def _counts(name, make, **kwargs):
    return Case(name, make, ZERO, ONE_HOT, **{"step_size": 0.5, "breakable": False} | kwargs)


def _weights(h, rest):
    model = FunctionModel(lambda w: -0.5 * w @ w * jnp.exp(rest["t"]), MODEL.loglik_function)
    return sgld(Minibatch(model, Uniform(5)), h)


def _log_precision(rest):
    return draw(lambda key, data: 0.1 * jax.random.normal(key))


def _of_blocks(h):
    return gibbs(w=partial(_weights, jnp.asarray(h)), t=_log_precision)


_quiet = {"breakable": False}
_exact = {"noisy_batches": False}
CASES = [
    _on("sgld", lambda h: sgld(PLAIN, h)),
    _on("sgld replace", lambda h: sgld(Minibatch(MODEL, Uniform(5, replace=True)), h)),
    _on("sgld epoch", lambda h: sgld(Minibatch(MODEL, Epoch(7)), h)),
    _on("sgld linear", lambda h: sgld(Minibatch(LINEAR, Uniform(5)), h)),
    _on("sgld corrected", lambda h: sgld(PLAIN, h, noise_covariance=jnp.full(DIM, 10.0))),
    _on("sgld schedule", lambda h: sgld(PLAIN, lambda k: 0.01 / (1 + k)), sized=False),
    _on("sgld control variate", lambda h: sgld(ControlVariate(PLAIN, ZERO + 0.9), h)),
    _on("sgld linear cv", lambda h: sgld(ControlVariate(Minibatch(LINEAR, Uniform(5)), ZERO), h)),
    _on("sgld svrg", lambda h: sgld(SVRG(PLAIN, 3), h)),
    _on("sgld all reduce", lambda h: sgld(AllReduce(PLAIN), h)),
    _on("sghmc", lambda h: sghmc(PLAIN, h)),
    _on("sghmc BAOAB", lambda h: sghmc(PLAIN, h, word="BAOAB")),
    _on("sghmc OBABO", lambda h: sghmc(SVRG(PLAIN, 3), h, word="OBABO")),
    _on("sghmc AFBNFA", lambda h: sghmc(PLAIN, h, word="AFBNFA")),
    _on("sghmc EA", lambda h: sghmc(PLAIN, h, word="EA")),
    _on("sgnht", lambda h: sgnht(PLAIN, h)),
    _on("sgnht EAT", lambda h: sgnht(PLAIN, h, word="EAT")),
    _on("hmc", lambda h: hmc(EXACT, h, 3), **_quiet, **_exact),
    _on("mala", lambda h: mala(EXACT, h), **_quiet, **_exact),
    _on("cycle", lambda h: cycle(mala(EXACT, h), sgld(PLAIN, h))),
    _on("repeat", lambda h: repeat(sgld(SVRG(PLAIN, 3), h), 2)),
    _on("thin", lambda h: thin(sghmc(PLAIN, h), 2)),
    Case("sggmc sphere", lambda h: sggmc(ON_SPHERE, Sphere(), h), POLE, SPHERE_DATA, **_quiet),
    Case(
        "gsgnht sphere", lambda h: sgnht(ON_SPHERE, h, space=Sphere()), POLE, SPHERE_DATA, **_quiet
    ),
    Case(
        "sggmc product",
        lambda h: sggmc(ON_PRODUCT, Product({"x": Sphere(), "y": Euclidean()}), h),
        {"x": POLE, "y": ZERO},
        SPHERE_DATA,
        **_quiet,
    ),
    _counts("scir", lambda h: scir(COUNTS, h)),
    _counts("scir schedule", lambda h: scir(COUNTS, lambda k: 0.5 / (1 + k), "none"), sized=False),
    _counts("scir table", lambda h: scir(TableCounts(*LATENT), h)),
    _counts("scir anchored", lambda h: scir(AnchoredCounts(*LATENT, *ANCHOR), h)),
    _counts("sgrld simplex", lambda h: sgrld_simplex(COUNTS, h), step_size=0.01),
    _counts("geometric OU", lambda h: geometric_ornstein_uhlenbeck(LOCATION, 0.5, h)),
    Case("gibbs", _of_blocks, {"w": ZERO, "t": np.float32(0)}, (X, Y), **_quiet),
    Case("draw", lambda h: normal(0.0), ZERO, None, sized=False, **_quiet, **_exact),
    Case("functions", lambda h: autoregression(), ZERO, None, sized=False, **_quiet, **_exact),
]
