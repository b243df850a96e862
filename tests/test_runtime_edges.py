"""What runs do at their edges: chains that break, readers that reuse, searches that are stopped."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import FunctionModel, Given, Minibatch, Uniform, sample, sgld
from sgmc_jax.bnp import DirichletProcess, NormalKnownCovariance, hybrid_mixture
from sgmc_jax.contract import SlotInfo
from sgmc_jax.tune import full_pass, grid_search, race
from tests.composition.slots import BirthAndDeath, X

KEY = jax.random.key(6)
MODEL = FunctionModel(lambda w: -0.5 * w @ w, lambda w, z: -0.5 * (z[1] - z[0] @ w) ** 2)
PARTS = DirichletProcess(1.0), NormalKnownCovariance(0.0, 1.0, 4.0)


class Broken(NormalKnownCovariance):
    """With a NaN among the parameters of the first cluster."""

    def draw(self, key, stats):
        params = super().draw(key, stats)
        return jax.tree.map(lambda x: x.at[(0,) * x.ndim].set(jnp.nan), params)


def test_a_chain_that_breaks_asks_for_no_more_slots():
    """Of NaN every point is a cluster: there would be as many slots as points."""
    kernel = hybrid_mixture(DirichletProcess(1.0), Broken(0.0, 1.0, 4.0), blocks=2)
    data = np.linspace(-1, 1, 150, dtype=np.float32)[:, None]
    with pytest.warns(UserWarning, match="chain 0 at step 0"):
        run = sample(KEY, kernel, None, data, num_steps=3, num_chains=1)
    assert run.capacity == 16 and run.stopped[0] == 0


class Told(NamedTuple):
    slots: SlotInfo
    alive: jax.Array


class Telling(BirthAndDeath):
    """Tells which of its slots are alive."""

    def step(self, key, state, data):
        state, slots = super().step(key, state, data)
        return state, Told(slots, state.position.shared["alive"])


@pytest.mark.parametrize("arguments", [{}, {"thin": 2}, {"reduce": True}])
def test_infos_of_slots_grow_with_them(arguments):
    if "reduce" in arguments:
        arguments = {"reduce": lambda state, info: info.slots.active.astype(float)}
    runs = [sample(KEY, Telling(k), None, X, num_steps=60, **arguments) for k in (2, 64)]
    assert 2 < runs[0].capacity < 64
    if "thin" in arguments or not arguments:
        few, many = (np.asarray(run.info.alive) for run in runs)
        assert few.shape[-1] == runs[0].capacity
        np.testing.assert_array_equal(few, many[..., : few.shape[-1]])


def test_a_record_that_fails_with_more_slots_keeps_its_draws():
    weights = [1.0] * 16
    total = lambda state, info: sum(
        weights[k] * (state.sums.counts[k] > 0) for k in range(state.sums.counts.shape[0])
    )
    run = sample(KEY, hybrid_mixture(*PARTS, capacity=16), None, X, num_steps=5, record=total)
    assert run.trace.shape == (5,) and run.slotted is None


def test_slots_do_not_grow_after_the_last_step(tmp_path):
    kernel, args = BirthAndDeath(3), {"num_steps": 12, "checkpoint": tmp_path / "run"}
    first = sample(KEY, kernel, None, X, **args)
    again = sample(KEY, kernel, None, X, **args)
    assert first.info.active.max() == first.capacity == again.capacity == 3


def test_a_reader_may_fill_one_array_again_and_again():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 8, 2)).astype(np.float32)
    answers = rng.normal(size=(40, 8)).astype(np.float32)

    def fresh():
        yield from zip(rows, answers)

    def reused():
        x, y = np.empty_like(rows[0]), np.empty_like(answers[0])
        for one, other in zip(rows, answers):
            x[:], y[:] = one, other
            yield x, y

    kernel = sgld(Minibatch(MODEL, Given(320)), 1e-3)
    runs = [
        sample(KEY, kernel, jnp.zeros(2), batches(), num_steps=40) for batches in (fresh, reused)
    ]
    np.testing.assert_array_equal(runs[0].trace, runs[1].trace)


def test_a_loader_of_pairs_as_lists():
    x = np.arange(12.0, dtype=np.float32)
    model = FunctionModel(lambda w: -(w**2), lambda w, z: -((z[1] - z[0] * w) ** 2))
    grad = Minibatch(model, Given(12))
    pairs = lambda kind: [kind((x[i : i + 4], x[i : i + 4])) for i in range(0, 12, 4)]
    sums = [full_pass(grad, jnp.zeros(()), lambda k=k: iter(pairs(k))) for k in (tuple, list)]
    np.testing.assert_array_equal(sums[0].value, sums[1].value)


def test_a_search_that_is_interrupted_ends(monkeypatch):
    """A setting of fewer steps would be judged against others of all."""
    honest = race.sample
    shorter = lambda *args, num_steps, **more: honest(*args, num_steps=num_steps // 2, **more)
    monkeypatch.setattr(race, "sample", shorter)
    data = np.ones((20, 2), np.float32), np.ones(20, np.float32)
    make = lambda step_size: sgld(Minibatch(MODEL, Uniform(5)), step_size)
    with pytest.raises(KeyboardInterrupt, match="search"):
        grid_search(KEY, MODEL, make, {"step_size": [1e-3, 1e-2]}, jnp.zeros(2), data, budget=1e4)


@pytest.mark.parametrize("chunk", [None, 4])
def test_an_exception_has_what_was_drawn_before(chunk):
    def batch(i):
        if i == 9:
            raise OSError("the disk is gone")
        return np.full((4, 2), i, np.float32), np.ones(4, np.float32)

    kernel = sgld(Minibatch(MODEL, Given(40)), 1e-3)
    with pytest.raises(OSError, match="the disk is gone") as caught:
        sample(KEY, kernel, jnp.zeros(2), batch, num_steps=20, chunk=chunk)
    if chunk is None:  # before the first chunk has been made
        assert not hasattr(caught.value, "run")
        return
    run, note = caught.value.run, caught.value.__notes__[0]
    assert len(run.trace) == run.num_steps == 8 and note == "the 8 steps before it are in its `run`"
    whole = sample(KEY, kernel, jnp.zeros(2), lambda i: batch(i + 10 * (i == 9)), num_steps=8)
    np.testing.assert_array_equal(run.trace, whole.trace)


def test_a_chain_that_shall_raise_has_its_draws():
    kernel = sgld(Minibatch(MODEL, Uniform(2)), lambda i: jnp.where(i < 6, 1e-3, jnp.inf))
    data = np.ones((4, 2), np.float32), np.ones(4, np.float32)
    with pytest.raises(FloatingPointError, match="at step 6") as caught:
        sample(KEY, kernel, jnp.zeros(2), data, num_steps=20, chunk=4, on_error="raise")
    assert caught.value.run.num_steps == 8 and caught.value.run.info.finite.sum() == 6
