"""Every kernel, on a problem small enough for every law."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sgmc_jax import (
    SAGA,
    SPD,
    SVRG,
    AllReduce,
    AnchoredCounts,
    Ball,
    Box,
    ControlVariate,
    EmpiricalFisher,
    Epoch,
    Euclidean,
    Full,
    FunctionModel,
    Hyperboloid,
    Kernel,
    Latent,
    LatentMinibatch,
    LatentTable,
    LinearModel,
    Minibatch,
    MinibatchCounts,
    Positive,
    PositiveMirror,
    Product,
    SAGACounts,
    Simplex,
    SimplexMirror,
    Sphere,
    Stiefel,
    StochasticDensity,
    Stratified,
    Summand,
    TableCounts,
    Uniform,
    Weighted,
    Window,
    bnp,
    cycle,
    draw,
    geometric_ornstein_uhlenbeck,
    gibbs,
    gmc,
    gsgnht,
    hmc,
    mala,
    mirrored_sgld,
    models,
    projected_sgld,
    psgld,
    recipe,
    reflected_sgld,
    repeat,
    scir,
    sggmc,
    sghmc,
    sgld,
    sgnht,
    sgrhmc,
    sgrld,
    sgrld_simplex,
    thin,
)
from sgmc_jax.processes import Bernoulli

DIM, ITEMS = 3, 40
_rng = np.random.default_rng(0)
X = _rng.normal(size=(ITEMS, DIM)).astype(np.float32)
Y = (X @ np.ones(DIM) + _rng.normal(size=ITEMS)).astype(np.float32)
ONE_HOT = np.eye(DIM, dtype=np.float32)[_rng.integers(0, DIM, ITEMS)]
SPHERE_DATA = 0.1 * X
SHARES, STRATA = np.sum(X**2, axis=1), np.arange(ITEMS) % 3


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
    heavy: bool = False  # whether it compiles for seconds
    shared: bool = True  # whether others may move its position


def logprior(w):
    # past 1e6 the density is undefined: a chain put there must be flagged, and no other touched
    return -0.5 * w @ w * jnp.where(w[0] > 1e6, jnp.nan, 1.0)


# How often a run traces its `record`: for shapes, for a block, and where blocks that are whole have
# a loop of their own, as on a GPU, for them.
RECORD_TRACES = 3 if jax.default_backend() == "cpu" else 4

MODEL = FunctionModel(logprior, lambda w, z: -0.5 * (z[1] - z[0] @ w) ** 2)


def logdensity(w, items):
    return logprior(w) + ITEMS / 5 * jnp.sum(MODEL.loglik_batch(w, items))


LINEAR = LinearModel(logprior, lambda eta, y: -0.5 * (y - eta) ** 2)
PLAIN = Minibatch(MODEL, Uniform(5))
EXACT = Minibatch(MODEL, Full())
ON_SPHERE = Minibatch(FunctionModel(lambda x: 5.0 * x[0], lambda x, z: z @ x), Uniform(5))
ON_PRODUCT = Minibatch(
    FunctionModel(lambda x: -0.5 * x["y"] @ x["y"], lambda x, z: z @ (x["x"] + x["y"])), Uniform(5)
)
EXACT_ON_SPHERE = Minibatch(FunctionModel(lambda x: 5.0 * x[0]), Full())
EVERYWHERE = Product(
    {"s": Stiefel(), "p": SPD(), "h": Hyperboloid(), "t": Positive(), "w": Simplex()}
)
EVERY_POINT = {
    "s": np.eye(3, 2, dtype=np.float32),
    "p": 2 * np.eye(2, dtype=np.float32),
    "h": np.array([1.25, 0.75, 0.0], np.float32),
    "t": np.ones(2, np.float32),
    "w": np.array([0.2, 0.3, 0.5], np.float32),
}
ON_EVERY = Minibatch(
    FunctionModel(
        lambda x: -jnp.trace(x["p"]) - 3 * x["h"][0] - jnp.sum(x["t"]),
        lambda x, z: z @ (x["s"][:, 0] + x["w"]),
    ),
    Uniform(5),
)
ON_SIMPLEX = Minibatch(
    FunctionModel(lambda x: jnp.sum(jnp.log(x)), lambda x, z: z @ jnp.log(x)), Uniform(5)
)
COUNTS = Minibatch(Summand(jnp.full(DIM, 0.5), lambda position, z: z), Uniform(5))


def allocate(key, position, z):
    return jax.nn.one_hot(jax.random.categorical(key, position + z), DIM)


LATENT = (allocate, 0.5, Uniform(5))


class Sides(Latent):
    """Of which of the coordinates an item is an observation."""

    def draw(self, key, position, items, previous):
        return jax.random.categorical(key, -0.5 * (items[:, None] - position) ** 2)


OF_A_SIDE = FunctionModel(logprior, lambda w, pair: -0.5 * (pair[0] - w[pair[1]]) ** 2)
SIDES = OF_A_SIDE, Sides(), Uniform(5)
ANCHOR = (np.zeros(DIM, np.float32), lambda position, z: jax.nn.softmax(position + z))
LOCATION = Minibatch(Summand(jnp.zeros(DIM), lambda position, z: 0.1 * z), Uniform(5))
ZERO = np.zeros(DIM, np.float32)
HALF = np.concatenate([np.zeros(DIM), np.ones(DIM)])
TURN = np.kron([[0.0, -1.0], [1.0, 0.0]], np.eye(DIM))
DENSE = np.eye(DIM) + 0.5  # a matrix of friction
POINTS = np.array([[-1.3], [-0.4], [0.2], [0.9], [2.1]], np.float32)
WORD_COUNTS = _rng.poisson(1.5, (5, 4)).astype(np.float32)
RESTAURANTS = bnp.Groups(POINTS[[0, 1, 2, 3, 4, 0]].reshape(3, 2, 1), np.array([2, 1, 2]))
DP, PY = bnp.DirichletProcess(0.8), bnp.PitmanYor(1.0, 0.3, (2.0, 2.0))
IBP = bnp.BetaBernoulli(1.5)
GAMMA_POISSON = bnp.GammaPoisson(1.5)
HDP = bnp.HierarchicalDirichletProcess(1.0, 1.0, group_prior=(2.0, 2.0))
NORMAL = bnp.NormalKnownCovariance(0.0, 1.0, 2.5)
MULTINOMIAL = bnp.DirichletMultinomial(0.5, size=4)
LINEAR_GAUSSIAN = bnp.LinearGaussian(1, 0.5, 1.0)
EXPLICIT = bnp.FeatureLikelihood(
    lambda theta, z, x: -0.5 * jnp.sum((x - z @ theta) ** 2),
    lambda theta: -0.5 * jnp.sum(theta**2),
    lambda key: jax.random.normal(key, (1,)),
)
BERNOULLI = Bernoulli()
LDA = models.LDA(num_topics=2, vocabulary=5, alpha=0.3, beta=0.5)
DOCUMENTS = LDA.documents(_rng.poisson(1.0, (7, 5)))
TOPICS = np.asarray(LDA.start(jax.random.key(5)))
SAM = models.SphericalAdmixture(2, 5, 1.0, 10.0, 2.0)
DIRECTIONS = SAM.documents(_rng.poisson(1.0, (7, 5)), word_weights=np.ones(5))
ON_TOPICS = np.asarray(SAM.start(jax.random.key(6)))
POLE = np.array([1.0, 0.0, 0.0], np.float32)
WINDOWED = FunctionModel(logprior, lambda w, z: -0.5 * z.share @ (z.rows - w[0]) ** 2)


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


def _latent(name, make):
    return Case(name, make, ZERO, Y, breakable=False)


def _weights(h, rest):
    model = FunctionModel(lambda w: -0.5 * w @ w * jnp.exp(rest["t"]), MODEL.loglik_function)
    return sgld(Minibatch(model, Uniform(5)), h)


def _log_precision(rest):
    return draw(lambda key, data: 0.1 * jax.random.normal(key))


def _of_blocks(h):
    return gibbs(w=partial(_weights, jnp.asarray(h)), t=_log_precision)


def _metric(w):
    """The inverse of a metric, of determinant 1."""
    along = jnp.tanh(w)
    return jnp.eye(DIM) + 0.5 * jnp.outer(along, along)


def _diagonal(w):
    return 1 / (1 + w**2)


def _kinetic(z):
    return 0.5 * z[1] @ z[1]


def _curl(w):
    """The antisymmetric matrix of the cross product with w."""
    return jnp.cross(jnp.eye(DIM), w)


def _bnp(name, make, data=POINTS, **kwargs):
    flags = {"sized": False, "breakable": False, "noisy_batches": False, "heavy": True}
    return Case(name, lambda h: make(), None, data, **flags | kwargs)


def _mixture(make, *args, process=DP, **kwargs):
    return _bnp(make.__name__, lambda: make(process, NORMAL, *args, capacity=8, **kwargs))


_quiet = {"breakable": False}
_geodesic = _quiet | {"heavy": True}
_rare = _geodesic | {"noisy_batches": False}
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
    _on("sgld fisher", lambda h: sgld(EmpiricalFisher(PLAIN), h)),
    _on("psgld", lambda h: psgld(PLAIN, h)),
    _on("psgld frozen", lambda h: psgld(SVRG(PLAIN, 3), h, freeze_after=3)),
    _on(
        "psgld gamma",
        lambda h: psgld(SAGA(PLAIN), h, decay=0.9, epsilon=1.0, gamma=True),
        heavy=True,
    ),
    _on("projected", lambda h: projected_sgld(PLAIN, h, Ball(100.0)), breakable=False),
    _on("reflected", lambda h: reflected_sgld(PLAIN, h, Box(-0.5, np.inf)), breakable=False),
    Case(
        "mirrored",
        lambda h: mirrored_sgld(ON_SIMPLEX, h, SimplexMirror()),
        np.array([0.2, 0.3, 0.5], np.float32),
        ONE_HOT,
        **_quiet,
    ),
    _on(
        "mirrored positive",
        lambda h: mirrored_sgld(EmpiricalFisher(PLAIN), h, PositiveMirror()),
        **_quiet,
    )._replace(position=ZERO + 1),
    _on("recipe", lambda h: recipe(EmpiricalFisher(PLAIN), _metric, _curl, h), heavy=True),
    Case(
        "recipe of momenta",
        lambda h: recipe(PLAIN, HALF, TURN, h, energy=_kinetic),
        (ZERO, ZERO),
        (X, Y),
        heavy=True,
        **_quiet,
    ),
    _on("sgrld", lambda h: sgrld(PLAIN, _diagonal, h, gamma="diagonal")),
    _on("sgrld dense", lambda h: sgrld(PLAIN, _metric, h), heavy=True),
    _on("sgrhmc", lambda h: sgrhmc(PLAIN, _metric, h), heavy=True),
    _on("sghmc", lambda h: sghmc(PLAIN, h)),
    _on("sghmc BAOAB", lambda h: sghmc(PLAIN, h, word="BAOAB")),
    _on("sghmc OBABO", lambda h: sghmc(SVRG(PLAIN, 3), h, word="OBABO")),
    _on("sghmc AFBNFA", lambda h: sghmc(PLAIN, h, word="AFBNFA")),
    _on("sghmc EA", lambda h: sghmc(PLAIN, h, word="EA")),
    _on("sghmc matrix", lambda h: sghmc(PLAIN, h, DENSE)),
    _on("sghmc fisher", lambda h: sghmc(EmpiricalFisher(PLAIN, 0.9, full=True), h, DENSE)),
    _on("sgnht", lambda h: sgnht(PLAIN, h)),
    _on("sgnht EAT", lambda h: sgnht(PLAIN, h, word="EAT")),
    _on("hmc", lambda h: hmc(EXACT, h, 3), **_quiet, **_exact),
    _on("mala", lambda h: mala(EXACT, h), **_quiet, **_exact),
    _on("cycle", lambda h: cycle(mala(EXACT, h), sgld(PLAIN, h))),
    _on("repeat", lambda h: repeat(sgld(SVRG(PLAIN, 3), h), 2)),
    _on("thin", lambda h: thin(sghmc(PLAIN, h), 2)),
    Case("sggmc sphere", lambda h: sggmc(ON_SPHERE, Sphere(), h), POLE, SPHERE_DATA, **_quiet),
    Case(
        "sggmc matrix",
        lambda h: sggmc(EmpiricalFisher(ON_SPHERE), Sphere(), h, DENSE, word="AFBNFA"),
        POLE,
        SPHERE_DATA,
        **_quiet,
    ),
    Case("gsgnht sphere", lambda h: gsgnht(ON_SPHERE, Sphere(), h), POLE, SPHERE_DATA, **_quiet),
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
    _mixture(bnp.hybrid_mixture, blocks=3, local_sweeps=2),
    _mixture(
        bnp.hybrid_mixture, schedule=bnp.Demotion(), process=bnp.PitmanYor(1.0, 0.3, (2.0, 2.0))
    ),
    _mixture(bnp.hybrid_mixture, schedule=bnp.Published(), blocks=2),
    _mixture(bnp.collapsed_mixture),
    _mixture(bnp.warm_mixture, blocks=3),
    _mixture(bnp.asynchronous_mixture, blocks=3),
    _mixture(bnp.auxiliary_mixture),
    _mixture(bnp.uncollapsed_mixture, tail=2),
    _mixture(bnp.split_merge, proposals=3),
    _mixture(bnp.slice_mixture, process=bnp.DirichletProcess(1.0, (2.0, 2.0))),
    _mixture(bnp.slice_mixture, 3)._replace(name="slice_mixture of batches", noisy_batches=True),
    *(
        _bnp(
            f"slice_mixture {weights}",
            partial(bnp.slice_mixture, DP, MULTINOMIAL, 3, weights, step_size=0.5, capacity=8),
            WORD_COUNTS,
            noisy_batches=True,
        )
        for weights in ("scir", "sgrld")
    ),
    _bnp("hybrid_features", partial(bnp.hybrid_features, IBP, LINEAR_GAUSSIAN, blocks=2)),
    _bnp("hybrid_features explicit", partial(bnp.hybrid_features, IBP, EXPLICIT, blocks=2)),
    _bnp("collapsed_features", partial(bnp.collapsed_features, GAMMA_POISSON, LINEAR_GAUSSIAN)),
    _bnp("slice_features", partial(bnp.slice_features, IBP, LINEAR_GAUSSIAN, decay=0.5)),
    _bnp(
        "slice_crm",
        partial(
            bnp.slice_crm,
            bnp.bondesson(bnp.BetaProcess(1.5)),
            BERNOULLI,
            EXPLICIT,
            mass_prior=(3.0, 2.0),
            decay=0.5,
        ),
    ),
    _bnp(
        "slice_bnb",
        partial(bnp.slice_bnb, bnp.BetaProcess(1.0, 2.0), NORMAL, decay=0.5, capacity=32),
        RESTAURANTS,
    ),
    _bnp("hybrid_hdp", partial(bnp.hybrid_hdp, HDP, NORMAL, blocks=2), RESTAURANTS),
    _bnp("collapsed_hdp", partial(bnp.collapsed_hdp, HDP, NORMAL), RESTAURANTS),
    _bnp("lda gibbs", LDA.gibbs, DOCUMENTS, shared=False)._replace(position=TOPICS),
    _bnp("lda collapsed", LDA.collapsed, DOCUMENTS, shared=False)._replace(position=TOPICS),
    Case(
        "lda scir table",
        lambda h: scir(LDA.counts(Uniform(3)), h),
        TOPICS,
        DOCUMENTS,
        step_size=0.5,
        heavy=True,
        shared=False,
        **_quiet,
    ),
    Case(
        "lda sgrld fresh",
        lambda h: sgrld_simplex(LDA.counts(Uniform(3), method="fresh"), h),
        TOPICS,
        DOCUMENTS,
        heavy=True,
        **_quiet,
    ),
    Case("gmc sphere", lambda h: gmc(EXACT_ON_SPHERE, Sphere(), h), POLE, None, **_rare),
    Case(
        "sgld sphere", lambda h: sgld(ON_SPHERE, h, space=Sphere()), POLE, SPHERE_DATA, **_geodesic
    ),
    Case(
        "sggmc of every space",
        lambda h: sggmc(ON_EVERY, EVERYWHERE, h),
        EVERY_POINT,
        SPHERE_DATA,
        **_geodesic,
    ),
    Case(
        "sam gsgnht table",
        lambda h: gsgnht(SAM.topics(Uniform(3)), Sphere(), h),
        ON_TOPICS,
        DIRECTIONS,
        shared=False,
        **_geodesic,
    ),
    Case(
        "sam sggmc fresh",
        lambda h: sggmc(SAM.topics(Uniform(3), fresh=True), Sphere(), h),
        ON_TOPICS,
        DIRECTIONS,
        **_geodesic,
    ),
    Case(
        "sam blocks",
        lambda h: SAM.block_gibbs(h, 2),
        {"topics": ON_TOPICS, "proportions": np.full((7, 2), 0.5, np.float32)},
        DIRECTIONS,
        **_rare,
    ),
    _on("sgld density", lambda h: sgld(StochasticDensity(logdensity, Uniform(5)), h)),
    _on("sgld weighted", lambda h: sgld(Minibatch(MODEL, Weighted(5, SHARES)), h)),
    _on("sgld saga", lambda h: sgld(SAGA(PLAIN), h)),
    _on("sgld linear saga", lambda h: sgld(SAGA(Minibatch(LINEAR, Uniform(7))), h)),
    _on("sgld stratified", lambda h: sgld(Minibatch(MODEL, Stratified(7, STRATA)), h)),
    _on("sgld switched", lambda h: sgld(ControlVariate(PLAIN, ZERO + 0.9, radius=0.3), h)),
    Case("sgld window", lambda h: sgld(Minibatch(WINDOWED, Window(7, 3, 2)), h), ZERO, Y),
    _counts("scir minibatch", lambda h: scir(MinibatchCounts(*LATENT), h)),
    _counts("scir saga", lambda h: scir(SAGACounts(*LATENT), h)),
    _latent("sgld latent", lambda h: sgld(LatentMinibatch(*SIDES), h)),
    _latent("sgld latent table", lambda h: sgld(LatentTable(*SIDES), h)),
    Case(
        "sgld particles",
        lambda h: sgld(models.StochasticVolatility().gradients(Window(7, 3), 16), h),
        {"mean": np.float32(-1), "persistence": np.float32(1.1), "log_scale": np.float32(-0.5)},
        Y,
        step_size=1e-3,
        breakable=False,
        heavy=True,
    ),
    _on("psgld fisher", lambda h: psgld(EmpiricalFisher(PLAIN), h)),
    _on("sghmc drawn anew", lambda h: sghmc(EmpiricalFisher(PLAIN), h, word="R" + 2 * "ABOBA")),
    _bnp("warm_features", partial(bnp.warm_features, IBP, LINEAR_GAUSSIAN, blocks=3)),
]
