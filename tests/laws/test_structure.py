"""Laws that every kernel obeys, whatever it samples."""

import importlib
from functools import partial
from pathlib import Path

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sgmc_jax
from sgmc_jax import Keys, _tree, cycle, gibbs, repeat, sample, thin
from sgmc_jax.random import normal
from tests.laws.registry import CASES, DIM, RECORD_TRACES, Case, autoregression

KEY = jax.random.key(0)
JAX, LIBRARY = (Path(package.__file__).parent for package in (jax, sgmc_jax))


def cases(cases=CASES, fast=lambda i, case: not case.heavy):
    """The rows of the registry; those that compile for long are in the full tier, unless asked.

    A law that compiles each kernel looks at some of them in the fast tier, another at others.
    """
    rows = [
        pytest.param(case, id=f"{case.name}-{i}", marks=[] if fast(i, case) else pytest.mark.full)
        for i, case in enumerate(cases)
    ]
    return pytest.mark.parametrize("case", rows)


every_at_once = cases(fast=lambda i, case: True)
one_in_sixteen = partial(cases, fast=lambda i, case: i % 16 == 0 and not case.heavy)
one_in_twelve = partial(cases, fast=lambda i, case: i % 12 == 0 and not case.heavy)


def start(case, kernel, key=KEY):
    return kernel.init(key, arrays(case.position), arrays(case.data))


def arrays(data):
    return jax.tree.map(jnp.asarray, data)


leaves_close = partial(chex.assert_trees_all_close, rtol=2e-4, atol=1e-5)


def equal(a, b):
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.array_equal(x, y) for x, y in pairs)


def avals(tree):
    return jax.tree.map(lambda x: (x.shape, x.dtype, getattr(x, "weak_type", False)), tree)


def in_dtype(tree, dtype):
    real = lambda x: jnp.issubdtype(jnp.result_type(x), jnp.floating)
    return jax.tree.map(lambda x: jnp.asarray(x, dtype if real(x) else None), tree)


def dtypes(tree):
    return {str(x.dtype) for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.floating)}


@cases(fast=lambda i, case: i % 6 == 1)
def test_matrix_products_are_in_full_precision(case: Case):
    """Not in the few digits that accelerators give unasked; a user's own functions are theirs."""
    kernel, data = case.make(case.step_size), arrays(case.data)
    state = jax.eval_shape(lambda: start(case, kernel))
    step = jax.make_jaxpr(lambda state: kernel.step(KEY, state, data))(state)
    coarse = list(coarse_products(step.jaxpr))
    assert not coarse, coarse


def coarse_products(jaxpr):
    """Where in the library products of floating numbers are asked for in no precision."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "dot_general" and "HIGHEST" not in str(eqn.params["precision"]):
            frames = eqn.source_info.traceback.frames
            own = next(frame for frame in frames if JAX not in Path(frame.file_name).parents)
            if LIBRARY in Path(own.file_name).parents:
                yield f"{own.file_name}:{own.line_num}"
        for inner in jax.tree.leaves(list(eqn.params.values())):
            inner = getattr(inner, "jaxpr", inner)  # closed or open, of a loop, a branch or a call
            if hasattr(inner, "eqns"):
                yield from coarse_products(inner)


@every_at_once
def test_step_returns_what_init_returns(case: Case):
    check_what_a_step_returns(case, "float32")


@cases(fast=lambda i, case: i % 12 == 2)
def test_step_returns_what_init_returns_in_double_precision(case: Case, x64):
    check_what_a_step_returns(case, "float64")


def check_what_a_step_returns(case, dtype):
    kernel, position = case.make(case.step_size), in_dtype(case.position, dtype)
    # a user's own jit may close over arrays of NumPy, which no traced index can index
    data = jax.tree.map(np.asarray, in_dtype(case.data, dtype))
    before = jax.eval_shape(lambda: kernel.init(KEY, position, data))
    after, _ = jax.eval_shape(lambda state: kernel.step(KEY, state, data), before)
    assert avals(before) == avals(after)
    if case.position is not None:  # else it has the dtypes of the kernel's parts
        assert dtypes(after.position) == {dtype}


WRAPS = {
    "thin": lambda make: thin(make(), 2),
    "repeat": lambda make: repeat(make(), 2),
    "cycle": lambda make: cycle(make(), make()),
    "gibbs": lambda make: gibbs(z=lambda rest: make()),
}


@cases(fast=lambda i, case: i % 12 == 3)
@pytest.mark.parametrize("wrap", list(WRAPS))
def test_every_kernel_composes(case: Case, wrap):
    """Inside each combinator a step returns what init returns, or says why it cannot be there."""
    kernel = WRAPS[wrap](lambda: case.make(case.step_size))
    position, data = arrays(case.position), arrays(case.data)
    position = {"z": position} if wrap == "gibbs" else position
    before = jax.eval_shape(lambda: kernel.init(KEY, position, data))
    step = lambda: jax.eval_shape(lambda state: kernel.step(KEY, state, data), before)
    if wrap in ("cycle", "gibbs") and not case.shared:
        with pytest.raises(TypeError, match="cannot go on from a position that another kernel has"):
            step()
    else:
        assert avals(before) == avals(step()[0])


@one_in_sixteen()
def test_vmap_is_a_loop(case: Case):
    kernel, data = case.make(case.step_size), arrays(case.data)
    init = lambda key: start(case, kernel, key)

    def steps(key, state):
        step = lambda i, state: kernel.step(jax.random.fold_in(key, i), state, data)[0]
        return jax.lax.fori_loop(0, 3, step, _tree.strong(state))

    keys, chain = jax.random.split(KEY, 3), lambda key: steps(key, init(key))
    together, alone = jax.jit(jax.vmap(chain))(keys), jax.jit(chain)
    apart = [alone(key) for key in keys]
    apart = jax.tree.map(lambda *x: jnp.stack(x), *apart)
    # over steps rounding grows: in chains of proportions from scratch to some 5e-5
    chex.assert_trees_all_close(together.position, apart.position, rtol=2e-4, atol=2e-4)
    leaves = [np.asarray(x) for x in jax.tree.leaves(together) if x.shape[:1] == (3,)]
    assert len({b"".join(x[i].tobytes() for x in leaves) for i in range(3)}) > 1


@cases(fast=lambda i, case: i % 18 == 0 and not case.heavy)
def test_runs_are_pieced_together_bit_for_bit(case: Case, tmp_path):
    kernel = case.make(case.step_size)
    args = {"num_chains": 2, "thin": 2, "position_axis": None}
    whole = sample(KEY, kernel, case.position, case.data, num_steps=20, **args)
    pieces = sample(KEY, kernel, case.position, case.data, num_steps=20, chunk=3, **args)
    assert equal(whole.trace, pieces.trace)
    half = sample(KEY, kernel, case.position, case.data, num_steps=10, **args)
    rest = sample(KEY, kernel, half, case.data, num_steps=10, **args)
    joined = jax.tree.map(lambda a, b: np.concatenate([a, b], axis=1), half.trace, rest.trace)
    assert equal(whole.trace, joined)
    assert rest.num_steps == 20
    saved = {"checkpoint": tmp_path / "run", "chunk": 3, **args}
    sample(KEY, kernel, case.position, case.data, num_steps=10, **saved)
    resumed = sample(KEY, kernel, case.position, case.data, num_steps=20, **saved)
    assert equal(whole.trace, resumed.trace)


@cases(CASES[::4], fast=lambda i, case: i % 12 == 0 and not case.heavy)
def test_a_chain_alone_is_the_first_of_several(case: Case):
    """Of their keys; that `vmap` is a loop is a law of its own, of all kernels."""
    kernel, args = case.make(case.step_size), {"num_steps": 12, "position_axis": None}
    several = sample(KEY, kernel, case.position, case.data, num_chains=2, **args)
    alone = sample(KEY, kernel, case.position, case.data, num_steps=12)
    leaves_close(alone.trace, jax.tree.map(lambda x: x[0], several.trace))


@one_in_twelve([case for case in CASES if case.breakable])
def test_a_broken_chain_leaves_its_neighbours_alone(case: Case):
    kernel = case.make(case.step_size)
    good = np.tile(np.asarray(case.position), (3, 1)) + np.arange(3, dtype=np.float32)[:, None]
    bad = good.copy()
    bad[1, 0] = 1e7
    args = {"num_steps": 12, "num_chains": 3, "position_axis": 0}
    whole = sample(KEY, kernel, good, case.data, **args)
    with pytest.warns(UserWarning, match="chain 1 at step"):
        broken = sample(KEY, kernel, bad, case.data, **args)
    assert np.array_equal(whole.trace[[0, 2]], broken.trace[[0, 2]])
    assert broken.info.finite[[0, 2]].all() and not broken.info.finite[1, -1]
    assert np.isfinite(broken.trace).all() and broken.stopped.tolist()[::2] == [-1, -1]
    with pytest.raises(FloatingPointError, match="chain 1 at step"):
        sample(KEY, kernel, bad, case.data, on_error="raise", **args)


@cases([case for case in CASES if case.sized], fast=lambda i, case: i % 12 == 0 and not case.heavy)
def test_step_sizes_share_one_program(case: Case):
    chex.clear_trace_counter()
    watch = chex.assert_max_traces(lambda state, info: state.position, n=RECORD_TRACES)
    args = {"num_steps": 4, "num_chains": 2, "record": watch, "position_axis": None}
    sample(KEY, case.make(case.step_size), case.position, case.data, **args)
    for factor in np.linspace(0.5, 0.9, 9):
        sample(KEY, case.make(factor * case.step_size), case.position, case.data, **args)


@one_in_twelve([case for case in CASES if case.noisy_batches])
def test_chains_share_batches_only_when_asked(case: Case):
    """Equal noise keys, so that all that can tell two chains apart is their batches."""
    kernel, data = case.make(case.step_size), arrays(case.data)

    @jax.jit
    def steps(batch):
        def step(i, state):
            key = Keys(jax.random.key(i), jax.random.fold_in(batch, i), i)
            return kernel.step(key, state, data)[0]

        return jax.lax.fori_loop(0, 20, step, _tree.strong(start(case, kernel)))

    ends = [steps(batch) for batch in jax.random.split(jax.random.key(2), 4)]
    assert any(not equal(ends[0], end) for end in ends[1:])


# where each block takes its own rows out of one array of words, and asks for that array again
BLOCKS_IN_TURN = {"warm_mixture", "asynchronous_mixture"}


@cases(fast=lambda i, case: i % 32 == 1 and not case.heavy)
def test_a_step_uses_every_key_once(case: Case, monkeypatch):
    """And is the step that is compiled."""
    used = record_keys(monkeypatch)
    kernel, data = case.make(case.step_size), arrays(case.data)
    with jax.disable_jit():
        state = start(case, kernel)
        for i in range(2):
            used.clear()
            key = Keys(jax.random.key(2 * i + 1), jax.random.key(2 * i + 2), jnp.array(i))
            before, (state, _) = state, kernel.step(key, state, data)
            again = {use for use in used if used.count(use) > 1}
            assert used and len(again) == (case.name in BLOCKS_IN_TURN), "a key was used twice"
    monkeypatch.undo()
    compiled = jax.jit(lambda *args: kernel.step(*args)[0].position)
    leaves_close(state.position, compiled(key, before, data))


def record_keys(monkeypatch):
    """A list of every use of a key by `jax.random`; folding is told apart by what it folds in.

    Under `vmap` these are the uses of all; what is traced otherwise has no values, and is left out.
    """
    used = []

    def watch(name):
        original, fold = getattr(jax.random, name), name == "fold_in"

        def wrapped(key, *args, **kwargs):
            words, folded = (values(x) for x in (jax.random.key_data(key), args[0] if fold else 0))
            if words is not None and folded is not None and single(key):
                words = np.atleast_2d(words)
                every = np.broadcast(words[:, 0], words[:, 1], np.atleast_1d(folded))
                used.extend((fold, *map(int, use)) for use in every)
            return original(key, *args, **kwargs)

        monkeypatch.setattr(jax.random, name, wrapped)

    for name in [
        "split",
        "fold_in",
        "normal",
        "uniform",
        "bits",
        "randint",
        "gamma",
        "exponential",
        "categorical",
        "permutation",
        "rademacher",
    ]:
        watch(name)
    # the library's own normals are made of the words of a key, by no function of `jax.random`
    module = importlib.import_module("sgmc_jax.random.normal")
    honest = module.word

    def word(cipher, lane, dtype):
        first, second = map(values, cipher)
        if first is not None and second is not None:
            pairs = np.broadcast(np.atleast_1d(first), np.atleast_1d(second))
            used.extend((False, int(a), int(b), 0) for a, b in pairs)
        return honest(cipher, lane, dtype)

    monkeypatch.setattr(module, "word", word)
    return used


def values(x):
    """The values of `x`, under `vmap` those of all, or `None`."""
    while type(x).__name__ == "BatchTracer":  # which jax does not export
        x = x.val
    return None if isinstance(x, jax.core.Tracer) else x


def single(key):
    """Whether it is one key as its user sees it, typed or raw."""
    return key.ndim == (0 if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else 1)


def test_the_precision_law_sees_a_plain_product(monkeypatch):
    monkeypatch.setattr("sgmc_jax.linear_model.product", jnp.matmul)
    case = next(case for case in CASES if case.name == "sgld linear")
    with pytest.raises(AssertionError, match="model"):
        test_matrix_products_are_in_full_precision(case)


@pytest.mark.parametrize("other", [lambda *args: jax.random.uniform(*args), normal])
def test_the_key_law_sees_a_key_used_twice(other, monkeypatch):
    def step(key, state, data):
        noise = normal(key, (DIM,)) + other(key, (DIM,))
        return state._replace(position=noise), None

    init = autoregression().init_function
    from sgmc_jax import Kernel

    guilty = Case("guilty", lambda h: Kernel.from_functions(init, step), np.zeros(DIM), None)
    with pytest.raises(AssertionError, match="twice"):
        test_a_step_uses_every_key_once(guilty, monkeypatch)
