"""Options of compilation change how long a program takes to compile, and nothing else."""

import os
import subprocess
import sys
from importlib.metadata import version

import jax
import jax.numpy as jnp
import pytest

from sgmc_jax import ShardMap, Vmap, _compiler
from sgmc_jax.random import von_mises_fisher
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


@pytest.mark.parametrize("engine", [None, Vmap(2), ShardMap(2)], ids=str)
def test_a_large_program_computes_what_a_small_one_does(engine, no_flags):
    """`Pmap` has no options."""
    assert _names()
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


_SUM = """
import os, sys, warnings
{first}
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    import sgmc_jax
import jax, numpy as np
x, w = np.random.default_rng(0).integers(9, size=(20_000, 3)).astype("f"), np.array([1, 2, 3], "f")
right = jax.jit(lambda x, w: x * (w * x).sum(-1, keepdims=True))(x, w) == x * (x @ w)[:, None]
print(bool(np.all(right)), [str(w.message)[:15] for w in told], os.environ.get("XLA_FLAGS"))
"""
_NAMED = "--xla_cpu_experimental_ynn_fusion_type="


def _sums(first="", **environment):
    """Whether sums are right in a process that begins with `first`, and what it says."""
    env = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"} | environment
    program = [sys.executable, "-c", _SUM.format(first=first)]
    return subprocess.run(
        program, env=env, capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.mark.full
def test_sums_of_products_are_right_from_the_import_on():
    """Those of jaxlib 0.10.2 are wrong by itself from some row on."""
    wrong = version("jaxlib") == "0.10.2"
    assert _sums() == f"True [] {_NAMED + '-reduce' if wrong else None}"
    if wrong:
        assert _sums("import jax; jax.devices()") == "False ['jaxlib 0.10.2 g'] None"
        # what the environment names stays
        assert _sums(XLA_FLAGS=_NAMED) == f"True [] {_NAMED}"


def test_directions_of_any_number_have_unit_length():
    """They had not in 3, 5 and 7 dimensions where jaxlib is wrong."""
    for d in (3, 5, 7):
        x = von_mises_fisher(jax.random.key(0), jnp.eye(d)[0], 0.5, (60_000 // d,))
        assert jnp.allclose(jnp.linalg.norm(x, axis=1), 1, atol=1e-5)
