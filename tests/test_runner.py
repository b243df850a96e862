"""The host's side of a run where it is awkward: processes, files, interrupts, kinds of numbers."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import (
    EmpiricalFisher,
    Full,
    FunctionModel,
    Given,
    Kernel,
    Minibatch,
    Vmap,
    as_keys,
    cycle,
    draw,
    sample,
    sghmc,
    sgld,
    sgnht,
)
from sgmc_jax.contract import merge_running
from sgmc_jax.runner.chains import Chains
from sgmc_jax.runner.draws import Draws
from sgmc_jax.runner.host import Host
from sgmc_jax.runner.processes import Processes
from tests.test_sample import KEY, CountState, assert_same_slots, break_step, run_births

MODEL = FunctionModel(lambda x: -0.5 * x @ x, lambda x, z: -0.5 * (z - x) @ (z - x))
X = np.random.default_rng(0).normal(size=(8, 2)).astype(np.float32)
EXACT = sgld(Minibatch(MODEL, Full()), 1e-2)


def run(position=np.zeros(2, np.float32), data=X, kernel=EXACT, **kwargs):
    return sample(KEY, kernel, position, data, **{"num_steps": 10} | kwargs)


def test_all_processes_make_chunks_of_one_length(monkeypatch):
    """Their clocks differ, and their steps hold sums over all of them."""
    seen, chunk = [], Host._chunk
    monkeypatch.setattr(Processes, "least", lambda self, number: min(3, number))
    monkeypatch.setattr(Host, "_chunk", lambda self, n: seen.append(n) or chunk(self, n))
    run(num_steps=140, num_chains=2, engine=Vmap(2))
    assert seen == [64, 64, 3, 3, 3, 3]


def test_a_resumed_run_makes_the_steps_that_are_left(tmp_path, monkeypatch):
    """A run begun again would have the same draws."""
    run(checkpoint=tmp_path, num_steps=6)
    seen, chunk = [], Host._chunk
    monkeypatch.setattr(Host, "_chunk", lambda self, n: seen.append(n) or chunk(self, n))
    assert run(checkpoint=tmp_path).num_steps == 10 and seen == [4]


def test_a_checkpoint_that_began_elsewhere_is_refused(tmp_path):
    run(checkpoint=tmp_path)
    with pytest.raises(ValueError, match="another run, with another position"):
        run(np.ones(2, np.float32), checkpoint=tmp_path)
    assert len(run(checkpoint=tmp_path, num_steps=12).trace) == 12


def test_whole_numbers_of_numpy(tmp_path):
    number = np.int64
    args = {"num_steps": number(10), "burn_in": number(2), "thin": number(2), "chunk": number(3)}
    made = run(**args, num_chains=number(2), checkpoint=tmp_path)
    again = run(num_steps=10, burn_in=2, thin=2, num_chains=2, checkpoint=tmp_path)
    np.testing.assert_array_equal(made.trace, again.trace)


@pytest.mark.parametrize("value", [3_000_000_000, -3_000_000_000])
def test_whole_numbers_that_jax_would_wrap_round(value):
    kernel = draw(lambda key, data: data[0].astype(float))
    with pytest.raises(ValueError, match="data must fit into 32 bits"):
        sample(KEY, kernel, jnp.zeros(()), np.array([value]), num_steps=1)
    with pytest.raises(ValueError, match=r"position.* must fit into 32 bits"):
        sample(KEY, kernel, {"n": np.array([value])}, np.ones(1), num_steps=1)


def test_floats_of_other_kinds_come_back_from_files(tmp_path):
    kernel = draw(lambda key, data: jax.random.normal(key, (3,), jnp.bfloat16))
    args = {"num_steps": 4, "chunk": 2}
    start = jnp.zeros(3, jnp.bfloat16)
    whole = sample(KEY, kernel, start, None, **args | {"num_steps": 6})
    sample(KEY, kernel, start, None, **args, checkpoint=tmp_path)
    resumed = sample(KEY, kernel, start, None, **args | {"num_steps": 6}, checkpoint=tmp_path)
    np.testing.assert_array_equal(resumed.trace, whole.trace)


def test_a_checkpoint_whose_chain_has_stopped_raises_each_time(tmp_path):
    broken = Kernel.from_functions(lambda key, position, data: CountState(position), break_step)
    args = {"num_steps": 9, "checkpoint": tmp_path, "on_error": "raise"}
    for _ in range(2):
        with pytest.raises(FloatingPointError, match="chain 0 at step"):
            sample(KEY, broken, jnp.zeros(()), None, **args)


@pytest.mark.parametrize("name", ["grow", "_begin_at"])
def test_an_interrupt_while_chains_grow(name, monkeypatch):
    """After it, or while it compiles: what is returned goes on, bit for bit in what both have."""
    original = getattr(Chains, name)

    def interrupted(self, *args):
        if name == "_begin_at" and self.capacity > 4:
            raise KeyboardInterrupt
        original(self, *args)
        if name == "grow":
            raise KeyboardInterrupt

    monkeypatch.setattr(Chains, name, interrupted)
    with pytest.warns(UserWarning, match="interrupted"):
        first = run_births(4, chunk=2)
    monkeypatch.undo()
    assert (first.capacity > 4) == (name == "grow") and first.num_steps < 40
    rest = run_births(4, 40 - first.num_steps, first)  # the same kernel: slots are those of the run
    assert_same_slots(first.extend(rest).trace, run_births(64).trace, 1)


@pytest.mark.parametrize("method", ["head", "fill"])
def test_an_interrupt_before_draws_are_kept(method, monkeypatch):
    """Neither the step nor the state has gone on then."""
    original, calls = getattr(Draws, method), []

    def interrupted(self, *args):
        calls.append(method)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(self, *args)

    monkeypatch.setattr(Draws, method, interrupted)
    with pytest.warns(UserWarning, match="interrupted: 4 of 40 steps"):
        first = run_births(64, chunk=2)
    monkeypatch.undo()
    rest = run_births(64, 36, first)
    assert_same_slots(first.extend(rest).trace, run_births(64).trace, 1)


def test_chains_on_an_engine_are_numbered():
    with pytest.raises(ValueError, match="num_chains must be a multiple of the engine's 1 shards"):
        run(engine=Vmap(1, over="chains"))


def test_one_infinite_energy_is_not_that_of_all_later_draws():
    infinite, fine = {"e": jnp.array(jnp.inf)}, {"e": jnp.array(1.0)}
    assert merge_running(infinite, fine, jnp.array(1))["e"] == jnp.inf
    assert merge_running(fine, infinite, jnp.array(2))["e"] == jnp.inf
    assert merge_running(infinite, fine, jnp.array(0))["e"] == 1.0


def test_a_word_that_uses_one_batch_twice_is_told_of():
    kernel = sghmc(Minibatch(MODEL, Given(8)), 1e-2, word="BABAO")
    with pytest.warns(UserWarning, match="moves 2 times by each batch"):
        run(data=lambda i: X[i % 4 : i % 4 + 4], kernel=kernel, num_steps=2)


@pytest.mark.parametrize("wrap", [lambda kernel: kernel, lambda kernel: cycle(kernel)])
def test_noise_of_passes_is_not_subtracted(wrap):
    """That of a pass adds up to nearly nothing, as that of an epoch does."""
    passes = lambda: iter([X[:4], X[4:]])
    kernel = wrap(sgld(EmpiricalFisher(Minibatch(MODEL, Given(8))), 1e-2))
    with pytest.raises(ValueError, match="independent batches"):
        run(data=passes, kernel=kernel)
    assert run(data=lambda i: X[:4], kernel=kernel).num_steps == 10
    run(data=passes, kernel=wrap(sgld(Minibatch(MODEL, Given(8)), 1e-2)))


def test_a_batch_is_no_larger_than_all_items():
    with pytest.raises(ValueError, match="total must be the number of all items, got 5 and a"):
        run(kernel=sgld(Minibatch(MODEL, Given(5)), 1e-2))


def test_a_batch_of_all_items_has_no_noise():
    """Five items given whole: nothing is to be subtracted."""
    grad = EmpiricalFisher(Minibatch(MODEL, Given(5)))
    state = grad.init(KEY, jnp.zeros(2), X[:5])
    for _ in range(2):
        estimate, state = grad.estimate(KEY, state, jnp.zeros(2), X[:5])
    np.testing.assert_array_equal(estimate.covariance, jnp.zeros(2))


@pytest.mark.parametrize(
    "make, word, message",
    [
        (sghmc, "ABFBA", "word must have O or E or R or F and N, got 'ABFBA'"),
        (sghmc, "ABNBA", "word must have O or E or R or F and N"),
        (sghmc, "AOA", "word must have B or E, got 'AOA'"),
        (sghmc, "BOB", "word must have A, got 'BOB'"),
        (sghmc, "ABEA", "word must have B or E, which both add the force, got both in 'ABEA'"),
        (sghmc, "ABOFA", "word must have both F and N or neither, got 'ABOFA'"),
        (sghmc, "ABNOA", "word must have both F and N or neither"),
        (sgnht, "ATBETA", "which both add the force"),
        (sgnht, "ATFBFTA", "word must have E or B and F and N"),
        (sgnht, "AFBNFA", "word must have T, got"),
    ],
)
def test_words_of_no_such_law(make, word, message):
    with pytest.raises(ValueError, match=message):
        make(Minibatch(MODEL, Full()), 0.1, word=word)


class Keyed(NamedTuple):
    position: jax.Array
    key: jax.Array


class KeepsAKey(Kernel):
    """A key in the state, which is no array of the host's."""

    def init(self, key, position, data):
        return Keyed(position, as_keys(key).noise)

    def step(self, key, state, data):
        return Keyed(state.position + 1, jax.random.split(state.key)[0]), None


def test_a_state_that_keeps_a_key_stays_on_the_device(tmp_path):
    made = run(kernel=KeepsAKey())
    np.testing.assert_array_equal(made.trace[:, 0], np.arange(1, 11))
    with pytest.raises(TypeError, match="keep jax.random.key_data"):
        run(kernel=KeepsAKey(), checkpoint=tmp_path)
    with pytest.raises(TypeError, match="keep jax.random.key_data"):
        run(kernel=KeepsAKey(), engine=Vmap(2), num_chains=2)
    with pytest.raises(TypeError, match="keep jax.random.key_data"):
        run(made, kernel=KeepsAKey())
