"""The covariance of minibatch noise, estimated from earlier batches and subtracted."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import (
    AllReduce,
    Ball,
    Batch,
    Batcher,
    Box,
    Collective,
    ControlVariate,
    EmpiricalFisher,
    Epoch,
    Euclidean,
    Full,
    FunctionModel,
    Given,
    Minibatch,
    Product,
    Sphere,
    Summand,
    Uniform,
    as_keys,
    gsgnht,
    projected_sgld,
    psgld,
    recipe,
    reflected_sgld,
    sample,
    sggmc,
    sghmc,
    sgld,
    sgnht,
    sgrhmc,
    sgrld,
)
from sgmc_jax.collective import Shard
from tests.laws.moments import check_law, fault_is_seen, run_law
from tests.laws.test_gaussian import CORRECTED, location, second_moments, some_fast

pytestmark = pytest.mark.runs_long

KEY = jax.random.key(41)

# ------------------------------------------------------------- what it tells, batch by batch

N, DIM = 10, 3
_rng = np.random.default_rng(2)
X, Y = _rng.normal(size=(N, DIM)).astype(np.float32), _rng.normal(size=N).astype(np.float32)
DATA = (jnp.asarray(X), jnp.asarray(Y))
MODEL = FunctionModel(
    lambda w: -0.5 * w["a"] @ w["a"] - 0.5 * w["b"] ** 2,
    lambda w, z: -0.5 * (z[1] - z[0][:2] @ w["a"] - z[0][2] * w["b"]) ** 2,
)
PATH = [{"a": jnp.array([0.1 * i, -0.2]), "b": jnp.array(0.3 - 0.1 * i)} for i in range(9)]


def covariance_of(batch, distinct, rows=X, values=Y, centre=None):
    """V_S in numpy, over the raveled position, of the batch's rows at a position."""

    def at(w):
        weight, real = np.asarray(batch.weight, float), np.asarray(batch.weight) > 0
        w = np.append(np.asarray(w["a"], float), float(w["b"]))
        index = np.asarray(batch.index)
        slopes = lambda w: rows[index] * (values[index] - rows[index] @ w)[:, None]
        g = (slopes(w) - (0 if centre is None else slopes(centre)))[real]
        weight, n = weight[real], real.sum()
        d = g - g.mean(0) if n else g
        scale = weight * (weight - 1) if distinct else weight**2
        return (d.T * scale) @ d * (n / (n - 1) if n > 1 else 0)

    return at


def told(grad, path=PATH):
    """The covariances that come with the estimates along a path, and those of the batches."""

    def step(estate, i_position):
        key, position = jax.random.fold_in(KEY, i_position[0]), i_position[1]
        batch, _ = grad.inner.draw(key, estate.inner, DATA)
        estimate, estate = grad.estimate(key, estate, position, DATA)
        return estate, (estimate, grad.inner.on(batch, position), batch)

    indexed = jnp.arange(len(path)), jax.tree.map(lambda *x: jnp.stack(x), *path)
    scan = jax.jit(lambda: jax.lax.scan(step, grad.init(KEY, path[0], DATA), indexed)[1])
    estimates, plain, batches = scan()
    np.testing.assert_allclose(estimates.value["a"], plain.value["a"], rtol=1e-5)
    row = lambda i, tree: jax.tree.map(lambda x: x[i], tree)
    return [[row(i, tree) for i in range(len(path))] for tree in (estimates.covariance, batches)]


BATCHERS = {
    "uniform": (Uniform(3), True),
    "half": (Uniform(5), True),
    "replace": (Uniform(4, replace=True), False),
    "epoch": (Epoch(4), True),  # 4, 4 and 2
    "alone": (Epoch(3), True),  # 3, 3, 3 and one of which nothing is told
    "full": (Full(), True),
    "given": (Given(25), True),
}


def check_running_mean(name, decay, full, centred=False):
    batcher, distinct = BATCHERS[name]
    inner, centre = Minibatch(MODEL, batcher), None
    if centred:
        inner = ControlVariate(inner, PATH[3])
        centre = np.append(np.asarray(PATH[3]["a"]), PATH[3]["b"])
    got, batches = told(EmpiricalFisher(inner, decay, full))
    mean = np.zeros((DIM, DIM))
    for i, (covariance, batch, position) in enumerate(zip(got, batches, PATH, strict=True)):
        seen = np.asarray(covariance) if full else np.append(covariance["a"], covariance["b"])
        wanted = mean if full else np.diag(mean)
        np.testing.assert_allclose(seen, wanted, rtol=1e-4, atol=1e-4)
        batch = batch.inner if centred else batch
        weight = max(1 / (i + 1), 1 - decay)
        mean = mean + weight * (covariance_of(batch, distinct, centre=centre)(position) - mean)
    assert np.any(mean) != (name == "full"), "all of the data has no noise"


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("name", BATCHERS)
def test_the_running_mean_is_that_of_earlier_batches(name, full):
    check_running_mean(name, 1.0, full)


@pytest.mark.parametrize("decay", [0.8, 0.0])
def test_decay_forgets(decay):
    check_running_mean("uniform", decay, True)


def test_it_is_that_of_differences_to_a_centre():
    check_running_mean("uniform", 1.0, True, centred=True)


honest_estimate, honest_covariance = EmpiricalFisher.estimate, Minibatch.covariance


def of_the_present_batch(self, key, estate, position, data):
    """The fault: the covariance of the batch whose noise it is to make up for."""
    estimate, after = honest_estimate(self, key, estate, position, data)
    batch, _ = self.inner.draw(key, estate.inner, data)
    covariance = self.inner.covariance(batch, self.inner.per_item(batch, position), self.full)
    return estimate._replace(covariance=covariance), after


def of_a_large_population(self, batch, terms, full=False):
    """The fault: w^2 where items are drawn without replacement, without 1 - n/N."""
    again = Minibatch(self.model, Uniform(len(batch.weight), replace=True))
    return honest_covariance(again, batch, terms, full)


def unbiased_in_no_sense(self, batch, terms, full=False):
    """The fault: n in the place of n - 1."""
    n = jnp.sum(batch.weight > 0)
    scale = lambda v: v * (n - 1) / n
    return jax.tree.map(scale, honest_covariance(self, batch, terms, full))


FAULTS = {
    "present": (EmpiricalFisher, "estimate", of_the_present_batch),
    "large population": (Minibatch, "covariance", of_a_large_population),
    "biased": (Minibatch, "covariance", unbiased_in_no_sense),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_running_mean_sees(fault, monkeypatch):
    monkeypatch.setattr(*FAULTS[fault])
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_running_mean("half", 1.0, True)


def every_batch(replace, n=3, items=5):
    """All batches of n of five items, the terms of each, and the covariance of their sums."""
    y = jnp.asarray(Y[:items])
    grad = Minibatch(Summand(0.0, lambda x, y: y), Uniform(n, replace=replace))
    drawn = itertools.product(range(items), repeat=n)
    index = np.array(list(drawn if replace else itertools.combinations(range(items), n)))
    batches = jax.vmap(lambda i: Batch(y[i], jnp.full(n, items / n), i))(jnp.asarray(index))
    return grad, batches, items / n * Y[index].sum(1)


@pytest.mark.parametrize("replace", [False, True])
def test_it_is_unbiased_over_all_batches(replace):
    grad, batches, sums = every_batch(replace)
    one = lambda batch: grad.covariance(batch, batch.items)
    np.testing.assert_allclose(jax.vmap(one)(batches).mean(), sums.var(), rtol=1e-5)


def test_shards_add_up():
    """Shards of four items, one and none, of which batches hold two at most."""
    sizes, starts = jnp.array([4, 1, 0]), jnp.array([0, 4, 5])
    grad = EmpiricalFisher(AllReduce(Minibatch(MODEL, Uniform(3)), Collective("shard", 3)))
    rows = np.minimum(np.asarray(starts)[:, None] + np.arange(4), N - 1)

    def on_shard(x, y, size, start):
        data = Shard((x, y), size, start, N)
        estate = grad.init(KEY, PATH[0], data)
        batch, _ = grad.inner.draw(KEY, estate.inner, data)
        estate = grad.estimate(KEY, estate, PATH[0], data)[1]
        return estate.covariance, batch

    shards = jax.jit(jax.vmap(on_shard, axis_name="shard"))
    covariance, batches = shards(X[rows], Y[rows], sizes, starts)
    one = lambda i: jax.tree.map(lambda x: x[i], batches)
    own = lambda i: covariance_of(one(i), True, X[rows[i]], Y[rows[i]])
    wanted = sum(own(i)(PATH[0]) for i in range(3))
    for i in range(3):
        got = np.append(covariance["a"][i], covariance["b"][i])
        np.testing.assert_allclose(got, np.diag(wanted), rtol=1e-4)


@pytest.mark.parametrize("num", [3, 4, 5])
@pytest.mark.parametrize("full", [False, True])
def test_a_streamed_batch_on_shards_is_one_batch(num, full):
    """Of which a shard has one item, or none."""
    inner = Minibatch(MODEL, Given(N))
    made = lambda grad: grad.estimate(KEY, grad.init(KEY, PATH[0], batch), PATH[0], batch)[1]
    batch = jax.tree.map(lambda x: x[:num], DATA)
    alone = made(EmpiricalFisher(inner, full=full)).covariance
    rows = -(-num // 3)
    pad = lambda x: np.concatenate([x, np.repeat(x[:1], 3 * rows - num, 0)])
    items = jax.tree.map(lambda x: pad(np.asarray(x)).reshape(3, rows, *x.shape[1:]), batch)
    sizes = np.clip(num - rows * np.arange(3), 0, rows)
    grad = EmpiricalFisher(AllReduce(inner, Collective("shard", 3)), full=full)

    def on_shard(items, size, start):
        shard = Shard(items, size, start, num)
        estate = grad.init(KEY, PATH[0], shard)
        return grad.estimate(KEY, estate, PATH[0], shard)[1].covariance

    got = jax.vmap(on_shard, axis_name="shard")(items, sizes, rows * np.arange(3))
    for one, each in zip(jax.tree.leaves(alone), jax.tree.leaves(got), strict=True):
        np.testing.assert_allclose(each, np.stack([one] * 3), rtol=1e-4, atol=1e-4)


@pytest.mark.full
def test_it_outlives_other_kernels():
    """Also where they change the target, as the blocks of `gibbs` do before every step."""
    grad = EmpiricalFisher(ControlVariate(Minibatch(MODEL, Uniform(3)), PATH[1]))
    estate = grad.estimate(KEY, grad.init(KEY, PATH[0], DATA), PATH[0], DATA)[1]
    other = jax.tree.map(lambda x: 2 * x, DATA)
    for renewed in (grad.refresh, grad.retarget):
        after = renewed(KEY, estate, PATH[2], other)
        assert after.count == 1 and after.covariance is estate.covariance
    assert after.inner.full.value["b"] != estate.inner.full.value["b"]


# -------------------------------------------------------------------------- laws of whole chains

STEPS = np.array([0.2, 0.4])


def check_variance(name, wrap=EmpiricalFisher, decay=1.0):
    """Half of the items a batch, whose noise is 2.3: the law is that of the exact gradient."""
    make, law = CORRECTED[name]
    grad, y = location(batch_size=4)
    grad = grad if wrap is None else wrap(grad, decay)
    moments = second_moments(lambda h: make(grad, h), y, steps=STEPS)
    check_law(moments, law(STEPS), 0.015)


@pytest.mark.parametrize("name", some_fast(CORRECTED, ("sgld", "ABOBA")))
def test_the_variance_is_that_of_the_exact_gradient(name):
    check_variance(name)


@pytest.mark.full
def test_a_mean_that_forgets_will_do():
    check_variance("sgld", decay=0.9)


@pytest.mark.parametrize("name", some_fast(CORRECTED, ("sgld",)))
@pytest.mark.at_length
def test_without_it_the_variance_is_larger(name):
    fault_is_seen(check_variance, name, None)


@pytest.mark.full
@pytest.mark.parametrize("name", some_fast(("sgld", "ABOBA"), ("sgld",)))
@pytest.mark.at_length
def test_the_variance_sees_a_large_population(name, monkeypatch):
    monkeypatch.setattr(*FAULTS["large population"])
    fault_is_seen(check_variance, name)


def check_skewness():
    """Three items of -1 and one of 3, in batches of two: a skew batch has the more noise.

    x has a third moment of 0. With V of the present batch it has -3 h^3 E[e V_S] / (1 - (1 - h)^3),
    e the noise of the gradient: -1.2, where the variance is 4/3, as it is in truth.
    """
    h, slope = 0.5, np.sqrt(1 / 8)  # V = 16 slope^2 = 2, and h V = 1
    y = slope * np.array([-1.0, -1.0, -1.0, 3.0])
    model = FunctionModel(lambda x: -0.5 * x**2, lambda x, y: y * x)
    kernel = sgld(EmpiricalFisher(Minibatch(model, Uniform(2))), h)
    powers = lambda state, info: jnp.stack([state.position**2, state.position**3])
    args = {"num_chains": 1024, "num_steps": 6_000, "burn_in": 1_000}
    run = run_law(KEY, kernel, jnp.zeros(()), y, reduce=powers, **args)
    check_law(run.trace.mean, [2 / (2 - h), 0.0], 0.03)


@pytest.mark.full
def test_the_noise_of_a_batch_is_not_made_up_for_by_itself():
    check_skewness()


@pytest.mark.full
@pytest.mark.at_length
def test_the_skewness_sees_the_present_batch(monkeypatch):
    monkeypatch.setattr(*FAULTS["present"])
    fault_is_seen(check_skewness)


FRICTION = np.array([[2.0, -0.9], [-0.9, 3.0]])
PLANE = {  # the kernel, and the variance of x where the density is that of N(0, I)
    "sgld": (lambda grad: sgld(grad, 0.4), 1 / 0.8),
    "ABOBA": (lambda grad: sghmc(grad, 0.4, 2.0), 1.0),
    "matrix ABOBA": (lambda grad: sghmc(grad, 0.4, FRICTION), 1.0),
}


def check_plane(name, **args):
    """Noise whose two coordinates are correlated."""
    root = np.array([[1.5, 0.0], [0.8, 1.0]])
    slopes = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]]) @ root.T / np.sqrt(16 / 3)
    model = FunctionModel(lambda x: -0.5 * x @ x, lambda x, s: s @ x)
    make, variance = PLANE[name]
    kernel = make(EmpiricalFisher(Minibatch(model, Uniform(2)), **args))
    products = lambda state, info: jnp.outer(state.position, state.position)
    args = {"num_chains": 1024, "num_steps": 3_000, "burn_in": 300}
    run = run_law(KEY, kernel, jnp.zeros(2), slopes, reduce=products, **args)
    check_law(run.trace.mean, variance * np.eye(2), 0.02)


@pytest.mark.full
@pytest.mark.parametrize("name", some_fast(PLANE, ("sgld", "matrix ABOBA")))
def test_a_full_covariance(name):
    check_plane(name, full=True)


@pytest.mark.full
@pytest.mark.at_length
def test_a_diagonal_leaves_the_correlation():
    fault_is_seen(check_plane, "sgld")


def check_sphere(wrap, full=False, friction=2.0, make=sggmc, stretch=1.0):
    """A von Mises-Fisher law on S^2, with items that add noise of covariance 10 I, or stretched."""
    items = np.concatenate([np.eye(3), -np.eye(3)]) * np.sqrt(10 / 4.8) * stretch
    grad = Minibatch(FunctionModel(lambda x: 5 * x[0], lambda x, z: z @ x), Uniform(2))
    kernel = make(wrap(grad, full=full) if wrap else grad, Sphere(), 0.05, friction)
    powers = lambda x: jnp.stack([x[0], x[0] ** 2, x[1] ** 2])
    height = lambda state, info: powers(state.position)
    start, args = jnp.array([1.0, 0.0, 0.0]), {"num_steps": 5_000, "burn_in": 300}
    run = run_law(KEY, kernel, start, items, reduce=height, num_chains=1024, **args)
    mean = 0.80009  # A_3(5)
    check_law(run.trace.mean, [mean, 1 - 2 * mean / 5, mean / 5], 0.01)


@pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.full)])
def test_on_a_sphere(full):
    check_sphere(EmpiricalFisher, full)


@pytest.mark.full
def test_on_a_sphere_with_a_matrix_of_friction():
    check_sphere(EmpiricalFisher, True, np.diag([1.0, 2.0, 4.0]) + 0.5)


@pytest.mark.full
@pytest.mark.at_length
def test_on_a_sphere_the_noise_is_there():
    fault_is_seen(check_sphere, None)


UNLIKE = np.array([0.3, 2.0, 0.3])  # noise that the thermostat would take up on average only


@pytest.mark.full
def test_on_a_sphere_with_a_thermostat():
    check_sphere(EmpiricalFisher, make=gsgnht, stretch=UNLIKE)


@pytest.mark.full
@pytest.mark.at_length
def test_on_a_sphere_a_thermostat_alone_is_not_enough():
    fault_is_seen(check_sphere, None, make=gsgnht, stretch=UNLIKE)


def metric(x):
    return jnp.eye(3) + 0.5 * jnp.outer(x, x)


def curl(x):
    return jnp.cross(jnp.eye(3), x)


KERNELS = {
    "sgld": partial(sgld, step_size=0.1),
    "sgld sphere": partial(sgld, step_size=0.1, space=Sphere()),
    "psgld": partial(psgld, step_size=0.5),
    "projected": partial(projected_sgld, step_size=0.1, convex_set=Ball(1.0)),
    "reflected": partial(reflected_sgld, step_size=0.1, convex_set=Box(-1.0)),
    "recipe": partial(recipe, diffusion=metric, curl=curl, step_size=0.1),
    "sgrld": partial(sgrld, metric=metric, step_size=0.1),
    "sgrhmc": partial(sgrhmc, metric=metric, step_size=0.3),
    **{word: partial(sghmc, step_size=0.3, word=word) for word in ("EA", "AFBNFA", "ABOBA")},
    "sggmc": partial(sggmc, space=Sphere(), step_size=0.3),
    **{f"sgnht {w}": partial(sgnht, step_size=0.3, word=w) for w in ("ATFBNFTA", "EAT")},
    "gsgnht": partial(gsgnht, space=Sphere(), step_size=0.3),
}


@pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", KERNELS)
def test_a_step_is_that_of_a_kernel_that_is_given_what_is_estimated(name, full):
    """And not that of one which is given nothing."""
    make, items = KERNELS[name], 0.3 * X
    grad = Minibatch(FunctionModel(lambda x: 5 * x[0], lambda x, z: z @ x), Uniform(4))
    fisher = make(EmpiricalFisher(grad, full=full))
    state = fisher.init(KEY, jnp.array([0.6, 0.8, 0.0]), items)
    state, _ = fisher.step(KEY, state, items)
    known = state._replace(estimator=state.estimator.inner)
    after = lambda kernel, state: kernel.step(KEY, state, items)[0].position
    given = after(make(grad, noise_covariance=state.estimator.covariance), known)
    np.testing.assert_allclose(after(fisher, state), given, rtol=1e-4, atol=1e-5)
    assert np.max(np.abs(given - after(make(grad), known))) > 0.01


ROOT = np.array([[2.0, 0.0], [0.6, 0.1]])
SCALES = {"a": np.array(2.0), "b": np.array(0.1)}
WORDS = {
    "sgld": partial(sgld, step_size=0.1),
    **{word: partial(sghmc, step_size=0.3, word=word) for word in ("EA", "AFBNFA", "ABOBA")},
    "sgnht": partial(sgnht, step_size=0.3),
}


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(
    "kind, name",
    # parts of a product draw velocities by keys of their own
    [*itertools.product(["scale", "cholesky"], WORDS), ("product", "sgld")],
)
def test_in_a_metric_it_is_that_of_the_plain_one_in_its_units(kind, name, full, x64):
    """The chain of x = S u, of the same key, is S times that of u; V of u is S'VS."""
    flat = lambda x: jnp.stack([x["a"], x["b"]])
    unit = {"a": jnp.array(0.3), "b": jnp.array(-0.2)}
    root = ROOT if kind == "cholesky" else np.diag([2.0, 0.1])
    stretched = lambda u: dict(zip("ab", root @ flat(u)))
    spaces = {"scale": Euclidean(SCALES), "cholesky": Euclidean(cholesky=ROOT)}
    parts = {name: Euclidean(scale) for name, scale in SCALES.items()}
    space = spaces.get(kind) or Product(parts)
    model = FunctionModel(
        lambda x: -0.5 * jnp.sum(jnp.linalg.solve(root, flat(x)) ** 2),
        lambda x, y: y @ jnp.linalg.solve(root, flat(x)),
    )
    plain = FunctionModel(lambda u: model.logprior(stretched(u)), lambda u, y: y @ flat(u))
    batch, items = Uniform(4), X[:, :2] * np.array([0.3, 0.6])
    fisher = lambda model: EmpiricalFisher(Minibatch(model, batch), full=full)
    args = {"num_steps": 6, "record": lambda state, info: flat(state.position)}
    ours = sample(KEY, WORDS[name](fisher(model), space=space), stretched(unit), items, **args)
    wanted = sample(KEY, WORDS[name](fisher(plain)), unit, items, **args)
    np.testing.assert_allclose(ours.trace, wanted.trace @ root.T, rtol=1e-9, atol=1e-12)
    one, other = (jax.tree.leaves(r.state.estimator.covariance) for r in (ours, wanted))
    for x, y in zip(one, other, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("make", [sgld, sghmc, partial(sghmc, word="AFBNFA")])
def test_what_is_clipped_is_counted(make, full):
    """At a step for which V, of a hundred items, is too much."""
    y = jnp.arange(100.0)
    model = FunctionModel(lambda x: -0.5 * x**2, lambda x, y: -0.5 * (y - x) ** 2)
    kernel = make(EmpiricalFisher(Minibatch(model, Uniform(10)), full=full), 1e-2)
    record = lambda state, info: info.clipped
    run = sample(KEY, kernel, jnp.zeros(()), y, num_steps=4, record=record)
    assert run.trace.tolist() == [0, 1, 1, 1]


@pytest.mark.full
@pytest.mark.parametrize("word", some_fast(("ABOBA", "AFBNFA", "EA"), ("AFBNFA",)))
def test_a_position_may_be_a_matrix_itself(word, x64):
    """Of whatever form position, covariance and friction are, V is one: the same chain."""
    model = FunctionModel(
        lambda x: -0.5 * jnp.sum(x**2),
        lambda x, y: y[0] * jnp.sum(x * jnp.arange(4.0).reshape(x.shape)),
    )
    y, ends = jnp.asarray(X[:, :1]), []
    for shape, full, friction in itertools.product(
        [(4,), (2, 2)], [False, True], [2.0, 2.0 * np.eye(4)]
    ):
        grad = EmpiricalFisher(Minibatch(model, Uniform(3)), full=full)
        kernel = sghmc(grad, 0.05, friction, word=word, temperature=0.0)
        record = lambda state, info: (state.position.ravel(), info.clipped)
        run = sample(KEY, kernel, jnp.zeros(shape), y, num_steps=4, record=record)
        ends.append(run.trace)
    for position, clipped in ends:
        # a variance that is 0 but for rounding, 1e-17, has a root of 3e-9
        np.testing.assert_allclose(position, ends[0][0], rtol=1e-9, atol=1e-7)
        # without a temperature all that is subtracted is clipped, one direction or four
        assert clipped[0] == 0 and np.all(clipped[1:] >= 1) and np.all(clipped[1:] <= 4)

    def chain(shape, full, friction):
        grad = EmpiricalFisher(Minibatch(model, Uniform(3)), full=full)
        kernel = sghmc(grad, 0.05, friction, word=word, temperature=20.0)
        record = lambda state, info: (state.position.ravel(), info.clipped)
        return sample(KEY, kernel, jnp.zeros(shape), y, num_steps=4, record=record).trace

    # at a temperature for which all of V is subtracted, and so is in the chain
    for args in itertools.product([False, True], [2.0, 2.0 * np.eye(4)]):
        (flat, none), (square, _) = chain((4,), *args), chain((2, 2), *args)
        assert not none.any()
        np.testing.assert_allclose(flat, square, rtol=1e-9, atol=1e-7)


class Weighted(Batcher):
    """Each item of its own probability p_i, by its own coin, with the weight 1 / p_i."""

    def draw(self, key, bstate, data):
        p = jnp.linspace(0.3, 0.9, len(data))
        taken = jax.random.bernoulli(as_keys(key).batch, p)
        return Batch(data, jnp.where(taken, 1 / p, 0), jnp.arange(len(data))), bstate


def test_padding_is_no_item():
    """A batch of weights 0 and 1 / p: its deviations are those of the items in it."""
    y = jnp.asarray(Y)
    grad = Minibatch(Summand(0.0, lambda x, y: y), Weighted())
    batch, _ = grad.draw(KEY, (), y)
    weight, real = np.asarray(batch.weight), np.asarray(batch.weight) > 0
    d = Y[real] - Y[real].mean()
    scale = (weight * (weight - 1))[real] * real.sum() / (real.sum() - 1)
    got = grad.covariance(batch, y.at[jnp.argmin(batch.weight)].set(1e6))
    np.testing.assert_allclose(got, scale @ d**2, rtol=1e-4)
