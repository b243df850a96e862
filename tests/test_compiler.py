"""Options of compilation change how long a program takes to compile, and nothing else."""

import jax.numpy as jnp
import pytest

from sgmc_jax import Pmap, ShardMap, Vmap, _compiler
from sgmc_jax.runner.programs import Layout, Role


@pytest.fixture
def no_flags(monkeypatch):
    """The environment of a user who has set nothing."""
    monkeypatch.setenv("XLA_FLAGS", "")


def _names():
    return set(_compiler.quick_options() or {})


def _compiled(engine, large):
    layout = Layout(engine, "chains" if engine else None, None, False, large)
    return layout.compile(lambda x: jnp.cumsum(jnp.sin(x)), Role.CARRY)


@pytest.mark.parametrize("engine", [None, Vmap(2), Pmap(2), ShardMap(2)], ids=str)
def test_a_large_program_computes_what_a_small_one_does(engine, no_flags):
    x = jnp.arange(8.0) if engine is None else engine.put(jnp.arange(8.0).reshape(2, 4))
    want, got = (_compiled(engine, large)(x) for large in (False, True))
    assert jnp.allclose(want, got, rtol=1e-6)


def test_a_function_of_modules_too(no_flags):
    """Arrays are traced, all else is static; one program is for all values."""
    traces = []

    def scaled(x, power):
        traces.append(power)
        return x**power

    quick = _compiler.quick_jit(scaled)
    got = [quick(jnp.array([1.0, n]), 2)[1].item() for n in (3.0, 4.0)]
    assert got == [9.0, 16.0] and traces == [2]


def test_the_environment_has_the_last_word(no_flags, monkeypatch):
    known = _names()
    assert "xla_cpu_parallel_codegen_split_count" in known
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_parallel_codegen_split_count=4")
    assert _names() == known - {"xla_cpu_parallel_codegen_split_count"}


def test_an_option_that_this_xla_does_not_know_is_left_out(no_flags, monkeypatch):
    known = _names()
    monkeypatch.setitem(_compiler._QUICK, "xla_cpu_no_such_option", True)
    assert _names() == known
