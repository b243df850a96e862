"""What several processes settle, seen from one of them; on two real ones in the full tier."""

import os
import signal

import pytest

from sgmc_jax import ShardMap, Vmap
from sgmc_jax.runner.processes import Processes


def one_of(monkeypatch, of_others=0, numbers=()):
    """This process beside others, the worst of which has that outcome: 0 is well, 3 has failed."""
    monkeypatch.setattr(ShardMap, "processes", frozenset({0, 1}))
    found = Processes(ShardMap(1))
    found.least = lambda number: min(number, -of_others)
    found._numbers = lambda number: {number, *numbers}
    return found


def fails(error):
    raise error


def test_what_is_well_everywhere_is_returned(monkeypatch):
    assert one_of(monkeypatch).together(lambda: 3) == 3


@pytest.mark.parametrize(
    "outcome, kind", [(1, StopIteration), (2, KeyboardInterrupt), (3, RuntimeError)]
)
def test_what_happens_to_another_happens_here(outcome, kind, monkeypatch):
    processes = one_of(monkeypatch, outcome)
    with pytest.raises(kind):
        processes.together(lambda: 3)
    assert processes.agreed


@pytest.mark.parametrize("error", [StopIteration(), OSError("the disk is full")])
def test_what_happens_here_is_raised_as_it_is(error, monkeypatch):
    processes = one_of(monkeypatch)
    with pytest.raises(type(error)) as raised:
        processes.together(lambda: fails(error))
    assert raised.value is error and processes.agreed


@pytest.fixture
def heeded():
    """Ctrl-C, which shells let processes in the background ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_waits_for_the_others(monkeypatch, heeded):
    processes = one_of(monkeypatch)
    with processes.interrupts():
        os.kill(os.getpid(), signal.SIGINT)
        assert not processes.agreed
        with pytest.raises(KeyboardInterrupt):
            processes.together(lambda: 3)
    assert processes.agreed and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_does_not_wait(monkeypatch, heeded):
    processes = one_of(monkeypatch)
    with pytest.raises(KeyboardInterrupt), processes.interrupts():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
    assert not processes.agreed


def test_an_interrupt_that_is_ignored_stays_so(monkeypatch, heeded):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    processes = one_of(monkeypatch)
    with processes.interrupts():
        os.kill(os.getpid(), signal.SIGINT)
        assert processes.together(lambda: 3) == 3


def test_other_arguments_are_named(monkeypatch):
    processes = one_of(monkeypatch, numbers=[5])
    with pytest.raises(ValueError, match="have another key, num_steps, chunk"):
        processes.require_same({"data": "0000005" + 9 * "a", "key": 16 * "b"}, 3)


def test_an_engine_elsewhere_is_refused(monkeypatch):
    monkeypatch.setattr(ShardMap, "processes", frozenset({2}))
    with pytest.raises(ValueError, match=r"got none of process 0, but of \[2\]"):
        Processes(ShardMap(1))


@pytest.mark.parametrize("engine", [None, Vmap(2)])
def test_one_process_has_nobody_to_ask(engine):
    processes = Processes(engine)
    assert not processes.several and processes.first and processes.agreed
    with pytest.raises(OSError), processes.interrupts():
        processes.together(lambda: fails(OSError()))
