"""Numbers that are none, data and starts of the wrong kind, and keys taken for others."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from jax.experimental.sparse import BCOO

from sgmc_jax import (
    ControlVariate,
    Cyclical,
    Dist,
    Full,
    FunctionModel,
    Given,
    Kernel,
    LinearModel,
    Minibatch,
    MinibatchCounts,
    PolynomialDecay,
    Summand,
    Uniform,
    as_keys,
    cycle,
    draw,
    find_mode,
    geometric_ornstein_uhlenbeck,
    repeat,
    sample,
    scir,
    sghmc,
    sgld,
    sgnht,
)
from sgmc_jax.bnp import (
    BetaBernoulli,
    BetaProcess,
    DirichletCategorical,
    DirichletProcess,
    Groups,
    HierarchicalDirichletProcess,
    LinearGaussian,
    NormalGamma,
    NormalInverseWishart,
    PitmanYor,
    bondesson,
    cluster_table,
    default_sampler,
    hybrid_features,
    hybrid_hdp,
    hybrid_mixture,
    slice_bnb,
    slice_crm,
    slice_features,
)
from sgmc_jax.bnp._starts import start_features
from sgmc_jax.models import LDA, NormalEmission, PoissonEmission
from sgmc_jax.processes import CountLikelihood

KEY = jax.random.key(0)
ZERO = np.zeros(2, np.float32)
X = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
MODEL = FunctionModel(lambda x: -0.5 * x @ x, lambda x, z: -0.5 * (z - x) @ (z - x))
GRAD, EXACT = Minibatch(MODEL, Uniform(5)), Minibatch(MODEL, Full())
SGLD, ULA = sgld(GRAD, 1e-2), sgld(EXACT, 1e-2)


class Case(NamedTuple):
    name: str
    make: Callable[[], Any]
    message: str  # a pattern
    error: type = TypeError


def go(kernel=SGLD, position=ZERO, data=X, **kwargs):
    return sample(KEY, kernel, position, data, **({"num_steps": 2} | kwargs))


# ----------------------------------------------------------------------------------- numbers

OF_NUMBERS = {
    "concentration": DirichletProcess,
    "discount": lambda x: PitmanYor(1.0, x),
    "mass": BetaBernoulli,
    "group_concentration": lambda x: HierarchicalDirichletProcess(1.0, x),
    "step_size": lambda x: sgld(GRAD, x),
    "friction": lambda x: sghmc(GRAD, 0.1, x),
    "temperature": lambda x: sgld(GRAD, 0.1, temperature=x),
    "thermostat": lambda x: sgnht(GRAD, 0.1, x),
    "scale": PolynomialDecay,
    "power": lambda x: PolynomialDecay(1.0, power=x),
    "initial": lambda x: Cyclical(x, 3),
    "mean_strength": lambda x: NormalGamma(2, mean_strength=x),
    "shape": lambda x: NormalGamma(2, shape=x),
    "mean": lambda x: NormalInverseWishart(2, x),
    "noise_scale": lambda x: LinearGaussian(2, x),
    "alpha": lambda x: MinibatchCounts(lambda key, position, z: z, x, Uniform(3)),
    "beta": lambda x: LDA(2, 5, 0.1, x),
    "noise_covariance": lambda x: sgld(GRAD, 0.1, noise_covariance=x),
    "total": lambda x: scir(GRAD, 0.1, "fixed", x),
    "centre": lambda x: ControlVariate(GRAD, x),
    "prior": lambda x: DirichletProcess(1.0, (1.0, x)),
    "concentration_prior": lambda x: BetaBernoulli(1.0, concentration_prior=(x, 1.0)),
    "group_prior": lambda x: HierarchicalDirichletProcess(1.0, 1.0, group_prior=(x, 1.0)),
    "noise_prior": lambda x: LinearGaussian(2, noise_prior=(x, 1.0)),
}
OPTIONAL = ("noise_covariance", "total", "mean", "centre")
NAMES = {"thermostat": "friction"}
WRONG = {"text": "a", "complex": 1j, "truth": np.array([True]), "object": object(), "None": None}


def refuses(name, make, value):
    got = repr(value) if np.ndim(value) == 0 else "bool of shape"
    message = f"{NAMES.get(name, name)} must be a real number .*got {re.escape(got)}"
    return lambda: make(value), message


NUMBERS = [
    Case(f"{name} {kind}", *refuses(name, make, value))
    for name, make in OF_NUMBERS.items()
    for kind, value in WRONG.items()
    if not (value is None and name in OPTIONAL)
]
lognormal = geometric_ornstein_uhlenbeck
PAIR = r"prior must be None or a pair \(shape, rate\), got "
PRIORS = [
    Case("huge prior", lambda: BetaBernoulli(1.0, prior=(1e39, 1.0)), "finite and pos", ValueError),
    Case("small prior", lambda: BetaBernoulli(1.0, prior=(1e-46, 1)), "finite and pos", ValueError),
    Case("prior number", lambda: DirichletProcess(1.0, 2.0), PAIR + "2.0"),
    Case("prior triple", lambda: PitmanYor(1.0, 0.1, (1, 2, 3)), PAIR + r"\(1, 2, 3\)"),
    Case("mass prior", lambda: BetaBernoulli(1.0, prior=1.0), PAIR + "1.0"),
    Case("group prior", lambda: HierarchicalDirichletProcess(1, 1, group_prior=3), "group_" + PAIR),
    Case("no prior", lambda: NormalEmission(precision_prior=None), r"a pair \(shape, r.*got None"),
    Case("no pair", lambda: PoissonEmission(rate_prior=2), r"rate_prior must be a pair.*got 2"),
    Case("noise prior", lambda: LinearGaussian(2, noise_prior=3), r"noise_prior.*\(shape, scale\)"),
    Case("scale", lambda: lognormal(GRAD, "a", 0.1), "scale must be a real number.*'a'"),
    Case("uneven lists", lambda: NormalGamma(2, [1.0, [2.0]]), "mean must have parts of one shape"),
]

# ------------------------------------------------------------------------------------ data

COUNTS = np.random.default_rng(0).integers(0, 3, (20, 5))
LDA_5 = LDA(2, 5, 0.1, 0.1)
CSR = scipy.sparse.csr_matrix(COUNTS)
DOCUMENTS = np.array([[0, 1, -1], [2, 3, 4]])
HDP = hybrid_hdp(HierarchicalDirichletProcess(1.0, 1.0), DirichletCategorical(1.0, 5))
BNB = slice_bnb(BetaProcess(1.0, 2.0), DirichletCategorical(1.0, 5), mass_prior=(1.0, 1.0))
BOTH = hybrid_mixture(PitmanYor(1.0, 0.1, (1.0, 1.0)), NormalGamma(2))
MIXTURE = hybrid_mixture(DirichletProcess(1.0), NormalGamma(2))
TABLE = scir(LDA_5.counts(Uniform(3)), 0.1)
topics = LDA_5.start
chosen = lambda data: default_sampler(KEY, DirichletProcess(1.0), NormalGamma(5), data)
LOOKS = "data must be rows of word indices, got a matrix of 5 columns.*LDA.documents.*column of -1"
NO_ROWS = "data must have at least one item"
PRIOR = Minibatch(Summand(jnp.ones(2), lambda position, z: z), Full())
DATA = [
    *[
        Case(f"counts for {name}", lambda kernel=kernel: go(kernel, topics, COUNTS), LOOKS)
        for name, kernel in [
            ("gibbs", LDA_5.gibbs()),
            ("collapsed", LDA_5.collapsed()),
            ("scir", TABLE),
        ]
    ],
    Case("large counts", lambda: go(LDA_5.gibbs(), topics, 9 * COUNTS), LOOKS),
    Case("counts for a start", lambda: LDA_5.warm_start(KEY, COUNTS), LOOKS),
    Case("counts to be tested", lambda: LDA_5.perplexity(KEY, jnp.zeros((2, 5)), COUNTS), LOOKS),
    Case("sparse counts", lambda: go(LDA_5.gibbs(), topics, CSR), "data must be.*sparse csr_mat"),
    Case("sparse start", lambda: LDA_5.warm_start(KEY, CSR), "data must be rows of.*got csr_mat"),
    Case(
        "parts of a sparse matrix",
        lambda: LDA_5.warm_start(KEY, (CSR.data, CSR.indices, CSR.indptr)),
        "data must be rows of word indices, got tuple: LDA.documents",
    ),
    Case("two arrays", lambda: go(LDA_5.gibbs(), topics, (COUNTS,) * 2), "data must be rows.*tup"),
    Case("documents for the HDP", lambda: go(HDP, None, DOCUMENTS), r"data must be Groups\(items"),
    Case("sparse to choose by", lambda: chosen(CSR), "data must be.*sparse csr_matrix.*toarray"),
    Case("sparse table", lambda: cluster_table([0, 1, 0], CSR), "data.* must be.*sparse csr_mat"),
    Case("sparse mixture", lambda: go(MIXTURE, None, CSR), "data must be.*sparse csr_matrix.*toa"),
    Case(
        "sparse of JAX",
        lambda: go(MIXTURE, None, BCOO.fromdense(X)),
        "data must be an array of numbers, got the sparse BCOO",
    ),
    Case("no rows", lambda: go(ULA, data=X[:0]), NO_ROWS, ValueError),
    Case("no rows for a mixture", lambda: go(MIXTURE, None, X[:0]), NO_ROWS, ValueError),
    Case("no rows of a stream", lambda: go(data=lambda i: X[:0]), NO_ROWS, ValueError),
    Case("no rows for a mode", lambda: find_mode(KEY, MODEL, ZERO, X[:0]), NO_ROWS, ValueError),
    Case("None", lambda: go(data=None), "data must have items for a batch_size.*None", ValueError),
    Case("None in full", lambda: go(ULA, data=None), "data must have items for loglik", ValueError),
    Case("None summed", lambda: go(scir(PRIOR, 1), data=None), "data must have items", ValueError),
    Case(
        "None for a mode", lambda: find_mode(KEY, MODEL, ZERO, None), "data must have", ValueError
    ),
    Case("lists", lambda: go(data=X.tolist()), r"data\[0\]\[0\] must.*np.asarray", ValueError),
    Case("ragged", lambda: go(data=[X[:3], X[:5]]), "leading axes.*np.asarray", ValueError),
    Case("many", lambda: go(data=[X[:i] for i in range(1, 99)]), "leading axes.*: 4, ...;"),
    Case(
        "list of batches",
        lambda: go(sgld(Minibatch(MODEL, Given(40)), 0.1), data=[X[:5], X[5:10]]),
        r"data must be one batch, an iterator.*list of 2: give iter\(data\)",
    ),
    Case("iterator for a mode", lambda: find_mode(KEY, MODEL, ZERO, iter([X])), "data must be arr"),
    Case("stream for a mode", lambda: find_mode(KEY, MODEL, ZERO, lambda i: X), "data must be arr"),
    Case("text for a mode", lambda: find_mode(KEY, MODEL, "a", X), "position must be an array"),
    Case(
        "linear model without a pair",
        lambda: go(sgld(Minibatch(LinearModel(jnp.sum, jnp.multiply), Full()), 0.1)),
        r"data must be a pair \(x, y\)",
    ),
]

# ----------------------------------------------------------------------------------- starts


def own(init=lambda key, position, data: draw(jnp.ones).init(key, position, data)):
    return Kernel.from_functions(init, lambda key, state, data: (state, None))


FEATURES = hybrid_features(BetaBernoulli(1.0), LinearGaussian(2), capacity=4)
SLICED = slice_features(BetaBernoulli(1.0), LinearGaussian(2), capacity=4)
TWICE = slice_crm(
    bondesson(BetaProcess(1.0)),
    CountLikelihood.from_function(
        lambda x, t: x * t + (2 - x) * jnp.log1p(-jnp.exp(t)) + jnp.log(2.0) * (x == 1), maximum=2
    ),
    LinearGaussian(2),
)
GROUPS = Groups.from_list([np.array([3, 1]), np.array([2])])
START = "position must have "
STARTS = [
    Case("wide features", lambda: go(FEATURES, np.ones((40, 5))), START + ".*4 columns.*40, 5"),
    Case("rows", lambda: go(FEATURES, np.ones((30, 2))), START + r"features.*\(40, ...\).*\(30"),
    Case(
        "axes",
        lambda: go(FEATURES, np.ones(40)),
        START + r"features for each of 40 items, of shape \(40, ...\)",
    ),
    Case("twice", lambda: go(FEATURES, np.full((40, 2), 2)), START + "features from 0 to 1.*2 to"),
    Case("thrice", lambda: go(TWICE, np.full((40, 2), 3)), START + "features from 0 to 2.*3 to"),
    Case("half", lambda: go(FEATURES, np.full((40, 2), 0.5)), START + "features in whole numbers"),
    Case(
        "sliced", lambda: go(SLICED, np.full((40, 2), 3)), START + "features from 0 to 1, the ent"
    ),
    Case("no mass", lambda: go(BNB, begun_at({"mass": -1.0}, GROUPS), GROUPS), "mass.*positive"),
    Case("a mass of 0", lambda: go(BNB, begun_at({"mass": 0.0}, GROUPS), GROUPS), "mass.*positive"),
    Case(
        "a mass of 2", lambda: go(BNB, begun_at({"mass": 2.0}, GROUPS), GROUPS), "mass.*at most 1"
    ),
    Case("no discount", lambda: go(BOTH, begun_at({"discount": -0.1})), "discount.*not negative"),
    Case("a discount of 1", lambda: go(BOTH, begun_at({"discount": 1.0})), "discount.*below 1"),
    Case("nothing", lambda: go(BOTH, begun_at({"concentration": 0.0})), "concentration.*positive"),
    Case("leaf", lambda: go(FEATURES, Dist({}, {"z": X})), r'position must be Dist.*"features"'),
    Case(
        "labels",
        lambda: go(MIXTURE, np.zeros(30, int)),
        START + r"a label for each of 40 items, of shape \(40,\)",
    ),
    Case("half labels", lambda: go(MIXTURE, np.full(40, 0.5)), START + "a label in whole numbers"),
    Case("named", lambda: go(MIXTURE, Dist({}, {"z": X})), r'position must be Dist.*"assignment"'),
    Case("groups", lambda: go(HDP, np.zeros((3, 2), int), GROUPS), START + r"a label.*\(2, 2\)"),
    Case("dish", lambda: go(HDP, np.full((2, 2), 99), GROUPS), START + "labels from 0 to 15"),
    Case("None", lambda: go(cycle(own(), MIXTURE), None), "position must not be None.*number 0"),
]
STARTS = [case._replace(error=ValueError) for case in STARTS]


def begun_at(shared, like=None):
    """A start of all items in one cluster, at these hyper-parameters."""
    return Dist(shared, {"assignment": np.zeros(40 if like is None else like.present.shape, int)})


def test_a_chain_may_begin_at_a_discount_of_none():
    assert go(BOTH, begun_at({"discount": 0.0})).info.finite.all()


# --------------------------------------------------------------------- keys, records, schedules


class OwnKernel(Kernel):
    def init(self, key, position, data):
        return draw(jnp.ones).init(key, position, data)

    def step(self, key, state, data):
        return state._replace(position=state.position + jax.random.normal(key)), None


class OwnBatcher(Uniform):
    def draw(self, key, bstate, data):
        return super().draw(jax.random.split(key)[0], bstate, data)


class OwnEstimator(Minibatch):
    def draw(self, key, estate, data):
        return super().draw(jax.random.fold_in(key, 1), estate, data)


BATCHED = Minibatch(MODEL, OwnBatcher(5))
FOR_A_KEY = r"takes its key for a JAX key, but it is Keys\(noise, batch, count\).*as_keys\(key\)"
OTHERS = [
    Case("kernel", lambda: go(OwnKernel()), f"OwnKernel {FOR_A_KEY}"),
    Case("repeated", lambda: go(repeat(OwnKernel(), 2)), f"OwnKernel {FOR_A_KEY}"),
    Case("cycled", lambda: go(cycle(SGLD, OwnKernel())), f"OwnKernel {FOR_A_KEY}"),
    Case("batcher", lambda: go(sgld(BATCHED, 0.1)), f"OwnBatcher {FOR_A_KEY}"),
    Case("directly", lambda: BATCHED.estimate(KEY, (), ZERO, X), f"OwnBatcher {FOR_A_KEY}"),
    Case("mode", lambda: find_mode(KEY, MODEL, ZERO, X, batcher=OwnBatcher(5)), FOR_A_KEY),
    Case("estimator", lambda: go(sgld(OwnEstimator(MODEL, Full()), 0.1)), f"OwnEst.*{FOR_A_KEY}"),
    Case("record", lambda: go(record=lambda state, info: "a"), "record must return arrays.*str"),
    Case("record a key", lambda: go(record=lambda state, info: KEY), "record must return.*key"),
    Case("reduce", lambda: go(reduce=lambda state, info: "a"), "reduce must return arrays.*str"),
    Case("schedule", lambda: go(sgld(GRAD, lambda k: -0.1)), r"step_size\(0\).*-0.1", ValueError),
]


@pytest.mark.parametrize(
    "case", [*NUMBERS, *PRIORS, *DATA, *STARTS, *OTHERS], ids=lambda case: case.name
)
def test_it_is_refused(case: Case):
    error = ValueError if case.message in (LOOKS,) or case.name == "many" else case.error
    with pytest.raises(error, match=re.compile(case.message, re.DOTALL)) as caught:
        case.make()
    assert len(str(caught.value)) < 400, "the message is one of ours, not of the machinery"


def test_the_key_of_keys_is_found():
    class Right(OwnKernel):
        def step(self, key, state, data):
            return super().step(as_keys(key).noise, state, data)

    assert go(Right()).trace.shape == (2, 2)


def test_features_are_a_start():
    start = np.random.default_rng(0).integers(0, 2, (40, 3))
    for position in (start, start.astype(bool), Dist({}, {"features": jnp.asarray(start)})):
        FEATURES.check(position, X)
        begun = start_features(position, len(X), bool, 4)
        assert np.array_equal(begun, np.pad(start, ((0, 0), (0, 1))))
        state = jax.eval_shape(FEATURES.init, KEY, position, X)
        assert state.position.local["features"].shape == (40, 4)


def test_a_cycle_begins_where_its_first_kernel_does():
    def both(key):
        state = kernel.init(key, None, X)
        return state, kernel.step(key, state, X)[0]

    kernel = cycle(MIXTURE, own())
    state, after = jax.eval_shape(both, KEY)
    assert jax.tree.structure(state) == jax.tree.structure(after)
    first, second = state.states
    assert first.position == second.position
    kernel.check(None, X)


def test_documents_of_full_length_need_a_column_of_padding():
    documents = np.pad(COUNTS, ((0, 0), (0, 1)), constant_values=-1)
    jax.eval_shape(lambda: LDA_5.gibbs().init(KEY, LDA_5.start(KEY), jnp.asarray(documents)))
    LDA_5.gibbs().check(LDA_5.start(KEY), documents)
    LDA_5.gibbs().check(LDA_5.start(KEY), LDA_5.documents(np.ones((3, 5), int)))


def test_moments_of_whole_numbers_are_not_rounded():
    run = go(reduce=lambda state, info: jnp.asarray(state.position > -jnp.inf, jnp.int32))
    assert run.trace.mean.dtype == jnp.float32
    coin = draw(lambda key, data: jax.random.bernoulli(key, shape=(2,)).astype(jnp.float32))
    run = go(coin, reduce=lambda state, info: state.position > 0.5, num_steps=100)
    assert np.all((run.trace.mean > 0.2) & (run.trace.mean < 0.8))
