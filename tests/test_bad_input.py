"""Bad input raises when a thing is made, or at the door of `sample`, and says what it got."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import (
    SVRG,
    AllReduce,
    Ball,
    Box,
    ControlVariate,
    EmpiricalFisher,
    Epoch,
    Estimate,
    Estimator,
    Euclidean,
    Full,
    FunctionModel,
    Given,
    Kernel,
    Minibatch,
    MinibatchCounts,
    Pmap,
    PositiveMirror,
    Product,
    ShardMap,
    SimplexMirror,
    Sphere,
    Splitting,
    Summand,
    Uniform,
    Vmap,
    cycle,
    draw,
    find_mode,
    geometric_ornstein_uhlenbeck,
    gibbs,
    hmc,
    mala,
    mirrored_sgld,
    projected_sgld,
    psgld,
    recipe,
    reflected_sgld,
    repeat,
    sample,
    scir,
    sggmc,
    sghmc,
    sgld,
    sgnht,
    sgrld_simplex,
    thin,
)
from sgmc_jax.bnp import (
    BetaBernoulli,
    BetaProcess,
    LinearGaussian,
    NormalKnownCovariance,
    PitmanYor,
    bondesson,
    slice_bnb,
    slice_features,
)
from sgmc_jax.transitions import (
    EulerLangevin,
    FrictionMatrix,
    GeodesicFlow,
    MatrixEuler,
    OrnsteinUhlenbeck,
    PreconditionedLangevin,
)

KEY = jax.random.key(0)
ZERO = np.zeros(2, np.float32)
POLE = np.array([1.0, 0.0], np.float32)
DATA = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
HOLE = np.where(np.arange(40)[:, None] == 3, np.nan, DATA).astype(np.float32)
MODEL = FunctionModel(lambda x: -0.5 * x @ x, lambda x, z: -0.5 * (z - x) @ (z - x))
PAIRS = FunctionModel(lambda x: -0.5 * x @ x, lambda x, z: -0.5 * (z[1] - z[0] @ x) ** 2)
GRAD, EXACT = Minibatch(MODEL, Uniform(5)), Minibatch(MODEL, Full())
COUNTS = Minibatch(Summand(jnp.ones(2), lambda position, z: z), Uniform(5))
SGLD = sgld(GRAD, 1e-2)
ON_SPHERE = sggmc(GRAD, Sphere(), 1e-2)
STREAMED = sgld(Minibatch(MODEL, Given(40)), 1e-2)


class Case(NamedTuple):
    name: str
    make: Callable[[], Any]
    message: str  # a pattern
    error: type = ValueError


def go(kernel=SGLD, position=ZERO, data=DATA, key=KEY, **kwargs):
    return sample(key, kernel, position, data, **({"num_steps": 2} | kwargs))


class Stretched(Euclidean):
    """A metric of its own: twice that of the embedding."""

    @property
    def embedded(self):
        return False


class OnlyEstimates(Estimator):
    """What a sampler needs, and nothing that a wrapper does."""

    def estimate(self, key, estate, position, data):
        return Estimate(-position), estate


def to_mode(**kwargs):
    return find_mode(KEY, MODEL, ZERO, DATA, **kwargs)


def corrected_on(space):
    return lambda: sggmc(GRAD, space, 1e-2, noise_covariance=1.0)


def at(kernel, step_size, **kwargs):
    return lambda: kernel(step_size, **kwargs)


# ------------------------------------------------------------------------- hyperparameters

OF_STEP_SIZE = {
    "sgld": lambda h: sgld(GRAD, h),
    "psgld": lambda h: psgld(GRAD, h),
    "mirrored_sgld": lambda h: mirrored_sgld(GRAD, h, PositiveMirror()),
    "projected_sgld": lambda h: projected_sgld(GRAD, h, Box(0.0)),
    "reflected_sgld": lambda h: reflected_sgld(GRAD, h, Box(0.0)),
    "sghmc": lambda h: sghmc(GRAD, h),
    "sgnht": lambda h: sgnht(GRAD, h),
    "sggmc": lambda h: sggmc(GRAD, Sphere(), h),
    "scir": lambda h: scir(COUNTS, h),
    "sgrld_simplex": lambda h: sgrld_simplex(COUNTS, h),
    "geometric_ornstein_uhlenbeck": lambda h: geometric_ornstein_uhlenbeck(COUNTS, 1.0, h),
    "hmc": lambda h: hmc(EXACT, h),
    "mala": lambda h: mala(EXACT, h),
}
OF_FRICTION = {
    "sghmc": lambda c: sghmc(GRAD, 1e-2, c),
    "sgnht": lambda c: sgnht(GRAD, 1e-2, c),
    "sggmc": lambda c: sggmc(GRAD, Sphere(), 1e-2, c),
}
SKEW = np.array([[1.0, 0.5], [0.0, 1.0]])


def corrected(covariance, **kwargs):
    return lambda: sghmc(GRAD, 1e-2, noise_covariance=covariance, **kwargs)


def rubbed(friction):
    return lambda: sghmc(GRAD, 1e-2, friction)


FISHER = EmpiricalFisher(GRAD)
HYPERPARAMETERS = [
    *[
        Case(f"{name} step_size {h}", at(make, h), f"step_size must be finite and.*{h}")
        for name, make in OF_STEP_SIZE.items()
        for h in (-0.1, 0.0, float("nan"))
    ],
    *[
        Case(f"{name} friction {c}", at(make, c), f"friction must be finite and positive.*{c}")
        for name, make in OF_FRICTION.items()
        for c in (-0.1, 0.0, float("nan"))
    ],
    Case("temperature", lambda: sgld(GRAD, 1e-2, temperature=-1.0), "temperature must.*-1.0"),
    Case("psgld decay", lambda: psgld(GRAD, 1e-2, decay=1.0), "decay must be below 1, got 1.0"),
    Case("psgld epsilon", lambda: psgld(GRAD, 1e-2, epsilon=0.0), "epsilon must be finite and pos"),
    Case("freeze_after", lambda: psgld(GRAD, 1e-2, freeze_after=0), "freeze_after must be.*0"),
    Case("2.5", lambda: PreconditionedLangevin(0.9, 1.0, freeze_after=2.5), "freeze_.*whole.*2.5"),
    Case(
        "array 2.5",
        lambda: psgld(GRAD, 1e-2, freeze_after=jnp.array(2.5)),
        "freeze_after must be a whole number.*2.5",
    ),
    Case("V beside gamma", lambda: psgld(FISHER, 1e-2, gamma=True), "gamma must be False"),
    Case(
        "V for psgld twice",
        lambda: psgld(FISHER, 1e-2, noise_covariance=1.0),
        "noise_covariance must be None: EmpiricalFisher estimates it",
    ),
    Case("Box", lambda: Box(1.0, 1.0), "lower must be below upper, got 1.0 and 1.0"),
    Case("Ball", lambda: Ball(-1.0), "radius must be finite and positive, got -1.0"),
    Case(
        "no set",
        lambda: projected_sgld(GRAD, 1e-2, (0.0, 1.0)),
        "convex_set must be a ConvexSet such as Box.*got tuple",
        TypeError,
    ),
    Case(
        "off a set",
        lambda: go(reflected_sgld(GRAD, 1e-2, Ball(1.0)), np.full(2, 3.0, np.float32)),
        "position must be in the set Ball, got a distance of 3.24 from it",
    ),
    Case(
        "a wrong projection",
        lambda: go(reflected_sgld(GRAD, 1e-2, lambda x: x[0])),
        "FunctionSet.project must have the structure and the shapes of the position",
        TypeError,
    ),
    Case(
        "no mirror",
        lambda: mirrored_sgld(GRAD, 1e-2, Box(0.0)),
        "mirror must be a Mirror such as SimplexMirror.*got Box",
        TypeError,
    ),
    Case(
        "not positive",
        lambda: go(mirrored_sgld(GRAD, 1e-2, PositiveMirror())),
        "position must be positive, got 0",
    ),
    Case(
        "off the simplex",
        lambda: go(mirrored_sgld(GRAD, 1e-2, SimplexMirror()), np.ones(2, np.float32)),
        "position must be positive and sum to one.*a sum off by 1",
    ),
    Case("batch_size 0", lambda: Uniform(0), "batch_size must be a whole number.*0"),
    Case("batch_size float", lambda: Uniform(2.5), "batch_size must be a whole number.*2.5"),
    Case("batch_size Epoch", lambda: Epoch(-1), "batch_size must be a whole number.*-1"),
    Case("batch_size text", lambda: Uniform("5"), "batch_size must be a whole number.*'5'"),
    Case("total", lambda: Given(0), "total must be a whole number.*0"),
    Case("every", lambda: SVRG(GRAD, 0), "every must be a whole number.*0"),
    Case("covariance too large", lambda: sgld(GRAD, 1e-2, noise_covariance=201.0), "exceeds"),
    Case("covariance for sghmc", corrected(1e4), "noise_covariance exceeds.*(10000|1e.04)"),
    Case("covariance skew", corrected(SKEW), "noise_covariance must be symmetric"),
    Case("small covariance skew", corrected(1e-9 * SKEW), "noise_covariance must be symmetric"),
    Case(
        "covariance not square",
        lambda: go(corrected(np.ones((2, 3)))()),
        r"noise_covariance must have the shape .*got \(2, 3\)",
    ),
    Case("covariance negative", corrected(-1.0), "noise_covariance must be.*-1.0"),
    Case("covariance NaN", corrected(np.diag([1.0, np.nan])), "noise_covariance"),
    Case(
        "covariance and word",
        corrected(1.0, word="BAOAB"),
        "noise_covariance can be subtracted in.*BAOAB",
    ),
    Case("friction skew", rubbed(SKEW), "friction must be symmetric"),
    Case("friction of single precision", rubbed(1e39), "friction must be finite and positive"),
    Case("step of single precision", lambda: sgld(GRAD, 1e-46), "step_size must be finite and pos"),
    Case(
        "counts for scir", lambda: scir(np.ones(3), 0.1), "counts must be an estimator", TypeError
    ),
    Case(
        "straight lines on a sphere",
        lambda: Splitting("A", {"A": GeodesicFlow(keeps_rest=True)}, GRAD, 0.1, Sphere()),
        "keeps_rest is for straight lines, got the flow of Sphere",
    ),
    Case(
        "metric of infinity",
        lambda: go(recipe(GRAD, jnp.array([jnp.inf, 1.0]), None, 0.1)),
        "must be finite where the chain begins",
    ),
    Case("friction not square", rubbed(np.ones((2, 3))), r"friction must be square.*\(2, 3\)"),
    Case("friction singular", rubbed(np.ones((2, 2))), "friction must be positive def.*of 0"),
    Case("friction negative", rubbed(np.diag([1.0, -2.0])), "friction must be positive def.*-2"),
    Case("friction NaN", rubbed(np.diag([1.0, np.nan])), "friction must be"),
    *[
        Case(
            f"friction of a metric, {word}",
            lambda word=word: sggmc(GRAD, Stretched(), 1e-2, np.eye(2), word=word),
            "friction cannot be a matrix on Stretched, whose metric",
        )
        for word in ("ABOBA", "AFBNA", "ANBFA", "EA")
    ],
    *[
        Case(
            f"friction and covariance, {word}",
            lambda word=word: sghmc(GRAD, 1e-2, np.eye(2), noise_covariance=np.ones(3), word=word),
            r"noise_covariance must be as large as the matrix friction, got \(3, 3\) for \(2, 2\)",
        )
        for word in ("ABOBA", "AFBNFA")
    ],
    Case(
        "friction and its noise",
        lambda: MatrixEuler(FrictionMatrix(np.eye(2))),
        "noise_covariance must be relative to friction",
    ),
    Case(
        "covariance for a matrix",
        lambda: sghmc(GRAD, 0.1, np.eye(2), noise_covariance=np.diag([1.0, 90.0])),
        "noise_covariance exceeds.*0.1.*largest eigenvalue is 90",
    ),
    Case("decay -1", lambda: EmpiricalFisher(GRAD, -1.0), "decay must be finite and not neg.*-1"),
    Case("decay 2", lambda: EmpiricalFisher(GRAD, 2.0), "decay must be at most 1, got 2"),
    Case(
        "V told and given",
        lambda: sgld(FISHER, 1e-2, noise_covariance=1.0),
        "noise_covariance must be None: EmpiricalFisher estimates it",
    ),
    Case("V for BAOAB", lambda: sghmc(FISHER, 1e-2, word="BAOAB"), "can be subtracted in.*BAOAB"),
    Case(
        "V for a word with a thermostat",
        lambda: sgnht(FISHER, 1e-2, word="AFTBNTFA"),
        "noise_covariance can be subtracted in.*'ATFBNFTA', 'EAT'.*got word='AFTBNTFA'",
    ),
    Case(
        "too large a V for a thermostat",
        lambda: sgnht(GRAD, 0.1, noise_covariance=21.0),
        "noise_covariance exceeds the noise of the sampler at step_size 0.1",
    ),
    Case("V for scir", lambda: scir(FISHER, 1e-2), "no letter of the word 'SCS?' can subtract"),
    Case("V for hmc", lambda: hmc(EmpiricalFisher(EXACT), 0.1), "no letter of.*'BAB'"),
    Case(
        "V of a metric",
        lambda: sggmc(FISHER, Stretched(), 1e-2),
        "noise_covariance cannot be subtracted on Stretched",
    ),
    Case(
        "V and scales",
        lambda: geometric_ornstein_uhlenbeck(FISHER, np.ones(2), 0.1),
        r"scale must be one number.*estimated, got shape \(2,\)",
    ),
    Case(
        "a letter's temperature",
        lambda: Splitting(
            "AO", {"A": GeodesicFlow(), "O": OrnsteinUhlenbeck(1.0, temperature=4.0)}, GRAD, 0.1
        ),
        "temperature must be that of the letters, got 1.0 for the word and 4.0 for 'O'",
    ),
    Case("letters", lambda: sghmc(GRAD, 1e-2, word="AXB"), "word must be made of.*'AXB'"),
    Case("no letters", lambda: sghmc(GRAD, 1e-2, word=""), "word must be made of.*''"),
    Case("no pieces", lambda: Splitting("AB", {}, GRAD, 1e-2), "word must be made of.*'AB'"),
    Case(
        "Langevin on a sphere",
        lambda: Splitting("L", {"L": EulerLangevin()}, GRAD, 1e-2, Sphere()),
        "piece 'L', EulerLangevin,.*Euclidean",
    ),
    Case("covariance of a metric", corrected_on(Stretched()), "noise_covariance cannot.*Stretched"),
    Case(
        "covariance of a product's metric",
        corrected_on(Product({"x": Sphere(), "y": Stretched()})),
        "noise_covariance cannot.*Product",
    ),
    Case("hmc minibatch", lambda: hmc(GRAD, 0.1), "grad must be exact"),
    Case("mala minibatch", lambda: mala(GRAD, 0.1), "grad must be exact"),
    Case("mala schedule", lambda: mala(EXACT, lambda k: 0.1), "step_size must be a num", TypeError),
    Case("hmc schedule", lambda: hmc(EXACT, jnp.sqrt), "must be a number.*backwards", TypeError),
    Case("hmc jitter NaN", lambda: hmc(EXACT, 0.1, jitter=np.nan), r"jitter must be in.*nan"),
    Case("hmc jitter", lambda: hmc(EXACT, 0.1, jitter=1.0), r"jitter must be in \[0, 1\), got 1.0"),
    Case("hmc steps", lambda: hmc(EXACT, 0.1, 0), "num_integration_steps must be.*0"),
    Case("hmc float steps", lambda: hmc(EXACT, 0.1, 2.0), "num_integration_steps must be.*2.0"),
]

# ----------------------------------------------------------------------------------- parts

PARTS = [
    Case("grad", lambda: sgld(MODEL, 1e-2), "grad must be an estimator.*FunctionModel", TypeError),
    Case("model", lambda: Minibatch(jnp.sum, Full()), "model must be a Model", TypeError),
    Case("batcher", lambda: Minibatch(MODEL, 5), "batcher must be a Batcher.*int", TypeError),
    Case("space", lambda: sggmc(GRAD, "sphere", 1e-2), "space must be a Space.*str", TypeError),
    Case("space class", lambda: sggmc(GRAD, Sphere, 1e-2), "space must be a Space", TypeError),
    Case("hmc space", lambda: hmc(EXACT, 0.1, space="sphere"), "space must be.*str", TypeError),
    Case("sgnht space", lambda: sgnht(GRAD, 0.1, space="sphere"), "space must be.*str", TypeError),
    Case("product", lambda: Product({"x": 3}), "spaces must be a pytree of spaces.*int", TypeError),
    Case(
        "control variate of a stream",
        lambda: ControlVariate(Minibatch(MODEL, Given(40)), ZERO),
        "ControlVariate needs all of the data.*Given",
        TypeError,
    ),
    Case(
        "svrg of a stream",
        lambda: SVRG(AllReduce(Minibatch(MODEL, Given(40))), 3),
        "SVRG needs all of the data.*Given",
        TypeError,
    ),
    Case("AllReduce", lambda: AllReduce(SVRG(GRAD, 3)), "put SVRG outside", TypeError),
    Case("fisher of svrg", lambda: EmpiricalFisher(SVRG(GRAD, 3)), "inner must.*SVRG", TypeError),
    Case("svrg of fisher", lambda: SVRG(FISHER, 3), "put EmpiricalFisher outside", TypeError),
    Case(
        "fisher of counts",
        lambda: EmpiricalFisher(MinibatchCounts(lambda k, x, z: z, 1.0, Uniform(5))),
        "inner must tell the covariance of its noise.*got MinibatchCounts",
        TypeError,
    ),
    *(
        Case(f"{name} of an estimate", lambda wrap=wrap: wrap(OnlyEstimates()), message, TypeError)
        for name, wrap, message in [
            (
                "AllReduce",
                AllReduce,
                "BatchEstimator.*OnlyEstimates: AllReduce evaluates",
            ),
            ("SVRG", lambda inner: SVRG(inner, 3), "inner must be.*OnlyEstimates: SVRG evaluates"),
            ("control variate", lambda inner: ControlVariate(inner, ZERO), "ControlVariate evalua"),
            ("fisher", EmpiricalFisher, "BatchEstimator.*OnlyEstimates: EmpiricalFisher evaluates"),
        ]
    ),
    Case(
        "prior of an estimate",
        lambda: go(sgrld_simplex(OnlyEstimates(), 0.1)),
        "OnlyEstimates does not tell its prior",
        TypeError,
    ),
    Case("AllReduce twice", lambda: AllReduce(AllReduce(GRAD)), "inner must not sum over shards"),
    Case(
        "AllReduce around a centre",
        lambda: AllReduce(ControlVariate(AllReduce(GRAD), ZERO)),
        "inner must not sum over shards",
    ),
    Case("AllReduce of no estimator", lambda: AllReduce(MODEL), "inner must be an est", TypeError),
    Case("centred on nothing", lambda: ControlVariate(MODEL, ZERO), "inner must be an", TypeError),
    Case("svrg of no estimator", lambda: SVRG(MODEL, 3), "inner must be an estimator", TypeError),
    Case("no blocks", lambda: gibbs(), "at least one block"),
    Case("block of no function", lambda: gibbs(x=SGLD), "block 'x' must be a function", TypeError),
    Case("no kernels", lambda: cycle(), "at least one kernel"),
    Case("cycle", lambda: cycle(SGLD, 3), "kernel must be a Kernel, got int", TypeError),
    Case("repeat", lambda: repeat(SGLD, 0), "num_steps must be.*0"),
    Case("thin", lambda: thin(3, 2), "kernel must be a Kernel, got int", TypeError),
    Case("Vmap", lambda: Vmap(0), "size must be a whole number.*0"),
    Case("Vmap over", lambda: Vmap(2, over="items"), 'over must be "data".*items'),
    Case(
        "Pmap",
        lambda: Pmap(9),
        f"size must be at most the number of devices, got 9 of {jax.device_count()}",
    ),
    Case("ShardMap", lambda: ShardMap(2.5), "size must be a whole number.*2.5"),
    Case("no tolerance", lambda: to_mode(tolerance=np.nan), "tolerance must be finite"),
    Case(
        "tolerance below 0", lambda: to_mode(tolerance=-1.0), "tolerance must be finite and not neg"
    ),
    Case("two tolerances", lambda: to_mode(tolerance=[1e-3, 1e-3]), "tolerance must be one number"),
    Case("mode", lambda: find_mode(KEY, GRAD, ZERO, DATA), "model must be a Model", TypeError),
]

# ---------------------------------------------------------------- positions and data, at the door


def mine(rest):
    return draw(lambda key, data: jax.random.normal(key))


GIBBS = gibbs(x=mine, y=mine)
TWO = {"x": np.float32(0), "y": np.float32(0)}
ANCHORED = sgld(ControlVariate(GRAD, ZERO), 1e-2)
ON_PAIRS = sgld(Minibatch(PAIRS, Uniform(5)), 1e-2)
BOTH = sggmc(GRAD, Product({"x": Sphere()}), 1e-2)
ONE_BAD = np.array([[0, 0], [0, np.nan]], np.float32)
COVARIANCE_3 = sgld(GRAD, 1e-2, noise_covariance=np.eye(3, dtype=np.float32))
VARIANCES_3 = sgld(GRAD, 1e-2, noise_covariance=np.ones(3, np.float32))


def broken_stream(i):
    return DATA[:5] if i < 2 else DATA[:3, :1]


POSITIONS_AND_DATA = [
    Case("large batch", lambda: go(sgld(Minibatch(MODEL, Uniform(41)), 1e-2)), "got 41 for 40"),
    Case("large epoch", lambda: go(sgld(Minibatch(MODEL, Epoch(41)), 1e-2)), "got 41 for 40"),
    Case("off the sphere", lambda: go(ON_SPHERE), "position must have unit length"),
    Case("scalar on the sphere", lambda: go(ON_SPHERE, np.float32(1)), "position must be a vector"),
    Case("off a product", lambda: go(BOTH, {"x": 2 * POLE}), "position.*must have unit length"),
    Case("not the product's", lambda: go(BOTH, {"y": POLE}), "position must have the structure"),
    Case("unequal axes", lambda: go(ON_PAIRS, data=(DATA, DATA[:39, 0])), "leading axes.*39"),
    Case("scalar data", lambda: go(ON_PAIRS, data=(DATA, 1.0)), r"data\[1\] must have a leading"),
    Case("integers", lambda: go(position=np.zeros(2, int)), "position must be fl.*int", TypeError),
    Case("truths", lambda: go(position=np.zeros(2, bool)), "position must be fl.*bool", TypeError),
    Case(
        "activation",
        lambda: go(position={"w": ZERO, "by": np.tanh}),
        r"position\['by'\] must be an array of numbers, got ufunc: keep.*eqx.partition\(position",
        TypeError,
    ),
    Case("text", lambda: go(position="start"), "position must be an array.*str", TypeError),
    Case(
        "text for data", lambda: go(data=["a", "b"]), r"data\[0\] must be an array.*str", TypeError
    ),
    Case("NaN data", lambda: go(data=HOLE), "data must be finite"),
    Case("NaN data for hmc", lambda: go(hmc(EXACT, 0.1), data=HOLE), "data must be finite"),
    Case("NaN data inside", lambda: go(ON_PAIRS, data=(HOLE, DATA[:, 0])), r"data\[0\] must be"),
    Case("infinite concentration", lambda: PitmanYor(np.inf, 0.5), "concentration must be finite"),
    Case("infinite position", lambda: go(position=ZERO + np.inf), "position must be finite"),
    Case(
        "NaN start",
        lambda: go(position=ONE_BAD, num_chains=2, position_axis=0),
        "position must be finite",
    ),
    Case("NaN made", lambda: go(position=lambda key: ZERO * np.nan), "position must be finite"),
    Case(
        "centre of another structure",
        lambda: go(ANCHORED, {"x": ZERO}),
        r"centre must have the structure of the position, {x: float.*, got float",
    ),
    Case("centre of another shape", lambda: go(ANCHORED, ZERO[:1]), r"centre must have.*\(2"),
    Case("covariance of another size", lambda: go(COVARIANCE_3), r"noise_covariance.*\(2.*\(3"),
    Case("variances of another size", lambda: go(VARIANCES_3), r"noise_covariance.*\(2.*\(3"),
    *[
        Case(
            f"friction of another size, {word}",
            lambda word=word: go(sghmc(GRAD, 1e-2, np.eye(3), word=word)),
            r"friction must have the shape \(2, 2\), got \(3, 3\)",
        )
        for word in ("ABOBA", "AFBNA", "ANBFA", "EA")
    ],
    Case("gibbs names", lambda: go(GIBBS, {"x": ZERO}), r"blocks \['x', 'y'\], got \['x'\]"),
    Case("gibbs position", lambda: go(GIBBS, ZERO), r"dict of the blocks .*(ndarray|Array)"),
    Case(
        "gibbs block of one that is not known",
        lambda: go(gibbs(x=mine, y=lambda rest: mine(rest["x"].sum())), TWO | {"x": None}),
        r"position must have values of the blocks \['x'\], got None: block 'y' is built from them",
    ),
    Case(
        "gibbs block",
        lambda: go(gibbs(x=mine, y=lambda rest: 3), TWO),
        "block 'y' must build a kernel, got int",
        TypeError,
    ),
    Case(
        "stream for a batcher of its own",
        lambda: go(SGLD, data=lambda i: HOLE[:5]),
        "data is streamed, which needs the batcher Given",
        TypeError,
    ),
    Case("empty stream", lambda: go(STREAMED, data=iter(())), "data"),
    Case(
        "NaN stream",
        lambda: go(STREAMED, data=lambda i: HOLE[:5]),
        "data must be finite",
    ),
    Case(
        "uneven stream",
        lambda: go(STREAMED, data=broken_stream, num_steps=6),
        r"data.*items of one shape.*\(1,\).*batch 2",
    ),
]

# ------------------------------------------------------------------------ arguments of `sample`


class State(NamedTuple):
    position: Any


def stepping(step, init=lambda key, position, data: State(position)):
    return lambda **kwargs: go(Kernel.from_functions(init, step), **kwargs)


class Bare(Kernel):
    """Forgets to call its position a position."""

    def init(self, key, position, data):
        return (position,)

    def step(self, key, state, data):
        return state, None


stays = lambda key, state, data: (state, None)
wider = stepping(lambda key, state, data: (State(jnp.zeros(3)), None))
halved = stepping(lambda key, state, data: (State(state.position.astype(jnp.float16)), None))
nested = stepping(lambda key, state, data: (State({"x": state.position}), None))
alone = stepping(lambda key, state, data: state.position)
nameless = stepping(stays, lambda key, position, data: (position,))


def uneven():
    """Two step sizes with three temperatures."""
    of = lambda kernel: (kernel.step_size, kernel.temperature)
    return eqx.tree_at(of, sgld(GRAD, 1.0), (jnp.ones(2), jnp.ones(3)))


ARGUMENTS = [
    Case("no kernel", lambda: go("sgld"), "kernel must be a Kernel, got str", TypeError),
    Case("pair", lambda: go((1, 2)), "kernel must be a Kernel, got tuple", TypeError),
    Case("kernel function", lambda: go(sgld), "kernel must be a Kernel, got function", TypeError),
    Case("estimator", lambda: go(GRAD), "kernel must be a Kernel, got Minibatch", TypeError),
    Case("key missing", lambda: sample(SGLD, ZERO, DATA, num_steps=2), "data", TypeError),
    Case("key None", lambda: go(key=None), "key must be one JAX key", TypeError),
    Case("key number", lambda: go(key=0), "key must be one JAX key", TypeError),
    Case("key scalar", lambda: go(key=np.float32(0)), "key must be one JAX key", TypeError),
    Case("key floats", lambda: go(key=jnp.zeros(2)), "key must be one JAX key", TypeError),
    Case("keys", lambda: go(key=jax.random.split(KEY)), "key must be one JAX key", TypeError),
    Case(
        "raw keys",
        lambda: go(key=jax.random.key_data(jax.random.split(KEY))),
        "key must be one JAX key",
        TypeError,
    ),
    Case("num_steps 0", lambda: go(num_steps=0), "num_steps must be a whole number.*0"),
    Case("num_steps float", lambda: go(num_steps=1e3), "num_steps must be a whole number.*1000.0"),
    Case("burn_in", lambda: go(burn_in=2), "burn_in must be less than num_steps, got 2 of 2"),
    Case("burn_in -1", lambda: go(burn_in=-1), "burn_in must be a whole number.*-1"),
    Case("thin", lambda: go(thin=0), "thin must be a whole number.*0"),
    Case("chunk", lambda: go(chunk=0), "chunk must be a whole number.*0"),
    Case("num_chains", lambda: go(num_chains=0), "num_chains must be a whole number.*0"),
    Case("kernel_axis", lambda: go(kernel_axis=1), "kernel_axis must be 0 or None, got 1"),
    Case("stacks of two sizes", lambda: go(uneven(), kernel_axis=0), "kernel_axis=0 .*stack"),
    Case("no stack", lambda: go(kernel_axis=0), "kernel_axis=0 .*stack"),
    Case("record", lambda: go(record="position"), "record must be a function, got str", TypeError),
    Case("reduce", lambda: go(reduce="mean"), "reduce must be a function, got str", TypeError),
    Case(
        "record and reduce",
        lambda: go(record=lambda state, info: state, reduce=True),
        "record and reduce exclude",
    ),
    Case(
        "on_error",
        lambda: go(on_error="stop"),
        "on_error must be one of .*'flag', 'raise'.*'stop'",
    ),
    Case("engine", lambda: go(engine=8), "engine must be an Engine or None, got int", TypeError),
    Case("engine class", lambda: go(engine=Vmap), "engine must be an Engine or None", TypeError),
    Case("engine data", lambda: go(engine=Vmap(2, over="data")), "AllReduce"),
    Case("engine chains", lambda: go(engine=Vmap(2), num_chains=3), "num_chains must be a mult.*3"),
    Case("no position", nameless, "init must return a state with a `position`.*tuple", TypeError),
    Case("no position in a class", lambda: go(Bare()), "init must return a state with", TypeError),
    Case("step shape", wider, r"state.position, got float32\(3,\) for float32\(2,\)", TypeError),
    Case("step dtype", halved, r"state.position, got float16\(2,\) for float32", TypeError),
    Case("step structure", nested, "step must return a state of the structure", TypeError),
    Case("step of one", alone, r"step must return .*\(state, info\)", TypeError),
    Case("axes of a run", lambda: go(position=go(), num_chains=2), "position has the axes.*draw"),
]


@pytest.mark.parametrize(
    "case", [*HYPERPARAMETERS, *PARTS, *POSITIONS_AND_DATA, *ARGUMENTS], ids=lambda case: case.name
)
def test_bad_input_is_refused(case: Case):
    with pytest.raises(case.error, match=re.compile(case.message, re.DOTALL)) as caught:
        case.make()
    assert len(str(caught.value)) < 400, "the message is one of ours, not of the machinery"


def test_a_checkpoint_that_has_gone_further_is_refused(tmp_path):
    go(checkpoint=tmp_path, num_steps=6)
    with pytest.raises(ValueError, match="num_steps must be at least 6.*checkpoint.*got 4"):
        go(checkpoint=tmp_path, num_steps=4)


def test_checks_look_at_values_only_where_there_are_some():
    """A kernel can be made inside a transformation, where its numbers are not known."""

    def make(h):
        kernel = sghmc(GRAD, h, h, noise_covariance=h)
        state = kernel.init(KEY, jnp.asarray(ZERO), jnp.asarray(DATA))
        return kernel.step(KEY, state, jnp.asarray(DATA))[0].position

    assert jax.eval_shape(jax.vmap(make), jnp.zeros(3)).shape == (3, 2)


MEASURE, SMALL = BetaProcess(1.0, 2.0), BetaProcess(1.0, 0.5)
FEATURES = BetaBernoulli(1.0, 2.0)
MEMBERS = NormalKnownCovariance(np.zeros(1), np.eye(1), np.eye(1))
BUILDERS = {
    "series of a measure": lambda: bondesson(MEASURE),
    "series of a process": lambda: FEATURES.series(),
    "features": lambda: slice_features(FEATURES, LinearGaussian(1)),
    "groups": lambda: slice_bnb(MEASURE, MEMBERS),
}


def traced(build):
    """Build while something is traced, as the builders of `gibbs` do."""

    def function(x):
        build()
        return x

    jax.eval_shape(function, 1.0)


@pytest.mark.parametrize("name", BUILDERS)
def test_what_was_made_outside_of_a_trace_is_checked_in_it(name):
    """Its numbers are known there; what jax says of them is not."""
    traced(BUILDERS[name])


def test_what_is_out_of_range_is_seen_in_a_trace_too():
    with pytest.raises(ValueError, match="needs a concentration of at least 1, got"):
        traced(lambda: bondesson(SMALL))
    with pytest.raises(ValueError, match="process must have a concentration above 1, got 0.5"):
        traced(lambda: slice_bnb(SMALL, MEMBERS))
