"""What a first call of `sample` takes, by kernel and family, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sgmc_jax import Kernel, cycle, sample
from sgmc_jax.bnp import (
    BetaBernoulli,
    BetaProcess,
    Demotion,
    DirichletCategorical,
    DirichletProcess,
    FeatureLikelihood,
    Groups,
    HierarchicalDirichletProcess,
    LinearGaussian,
    NormalGamma,
    NormalInverseWishart,
    bondesson,
    collapsed_features,
    collapsed_hdp,
    collapsed_mixture,
    hybrid_features,
    hybrid_hdp,
    hybrid_mixture,
    slice_bnb,
    slice_crm,
    slice_features,
    slice_mixture,
    split_merge,
)
from sgmc_jax.processes import Bernoulli

from .table import Table

_NUM_STEPS = 4
_HEADER = ["case", "first call", "trace", "lower", "compile", "programs", "second call"]
_EVENTS = {
    "trace": "/jax/core/compile/jaxpr_trace_duration",
    "lower": "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "compile": "/jax/core/compile/backend_compile_duration",
}


class Problem(NamedTuple):
    """A kernel, where its chain begins, and the data."""

    kernel: Kernel
    position: Any
    data: Any


def run(scale: float, rounds: int, cases: tuple[str, ...] = ()) -> list[Table]:
    """One table; the sizes are such that compilation is nearly all, at any `scale`."""
    rows = [_row(name, _in_a_process(name)) for name in cases or CASES]
    note = (
        f"CPU seconds of `sample` for {_NUM_STEPS} steps in a fresh process, without any cache: "
        "the first call, of it (by their shares of the wall clock) the tracing of Python, the "
        "lowering to StableHLO and XLA's compilation, the programs compiled, and a second call, "
        "which compiles nothing."
    )
    return [Table("A first call", note, _HEADER, rows)]


def _row(name: str, measured: dict[str, float]) -> list[str]:
    seconds = [f"{measured[key]:.1f}" for key in _HEADER[1:5]]
    return [name, *seconds, f"{measured['programs']:.0f}", f"{measured['second call']:.2f}"]


def _in_a_process(name: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.suite_compile", name]
    root = Path(__file__).resolve().parent.parent
    result = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    return json.loads(result.stdout)


# ------------------------------------------------------------------------------------ problems


def _points(num: int, dim: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(0).standard_normal((num, dim), dtype=np.float32))


def _mixture(make: Callable, num: int = 500, dim: int = 2, **settings: Any) -> Problem:
    kernel = make(DirichletProcess(1.0), NormalInverseWishart(dim), capacity=16, **settings)
    return Problem(kernel, None, _points(num, dim))


def _stochastic() -> Problem:
    """Words, as the Cox-Ingersoll-Ross transitions of stochastic slices are of counts."""
    family = DirichletCategorical(0.5, size=50)
    kernel = slice_mixture(
        DirichletProcess(1.0), family, capacity=16, weights="scir", step_size=1.0
    )
    return Problem(kernel, None, jnp.asarray(np.random.default_rng(0).integers(0, 50, 500)))


def _diagonal(**settings: Any) -> Problem:
    kernel = hybrid_mixture(DirichletProcess(1.0, (1.0, 1.0)), NormalGamma(2), **settings)
    return Problem(kernel, None, _points(500, 2))


def _split_merge() -> Problem:
    return _mixture(split_merge)._replace(position=jnp.zeros(500, jnp.int32))


def _features(family: Any, make: Callable = hybrid_features, **settings: Any) -> Problem:
    kernel = make(BetaBernoulli(1.0), family, capacity=16, **settings)
    return Problem(kernel, None, _points(200, 6))


def _sliced() -> Problem:
    """From one feature: a start by `seed_features` compiles a hybrid sampler besides."""
    kernel = slice_features(BetaBernoulli(1.0), LinearGaussian(6, 0.5, 1.0), capacity=64)
    return Problem(kernel, jnp.ones((200, 1)), _points(200, 6))


def _measured() -> Problem:
    family = LinearGaussian(6, 0.5, 1.0)
    kernel = slice_crm(bondesson(BetaProcess(1.0, 2.0)), Bernoulli(), family, capacity=64)
    return Problem(kernel, jnp.ones((200, 1)), _points(200, 6))


def _likelihood() -> FeatureLikelihood:
    return FeatureLikelihood(
        lambda theta, z, x: -0.5 * jnp.sum((x - z @ theta) ** 2),
        lambda theta: -0.5 * jnp.sum(theta**2),
        lambda key: jax.random.normal(key, (6,)),
    )


def _words(make: Callable, process: Any, **settings: Any) -> Problem:
    words = np.random.default_rng(0).integers(0, 50, (20, 30)).astype(np.int32)
    kernel = make(process, DirichletCategorical(0.5, size=50), **settings)
    return Problem(kernel, None, Groups(words, np.full(20, 30, np.int32)))


def _hdp(make: Callable, **settings: Any) -> Problem:
    process = HierarchicalDirichletProcess(1.0, 1.0, (1.0, 1.0), (1.0, 1.0))
    return _words(make, process, capacity=16, **settings)


def _growth() -> Problem:
    """Fifteen clusters in sixteen slots, for which the runner makes room after the first step."""
    problem = _mixture(hybrid_mixture, blocks=4)
    return problem._replace(position=jnp.arange(500, dtype=jnp.int32) % 15)


def _cycle() -> Problem:
    parts = DirichletProcess(1.0), NormalInverseWishart(8)
    kernel = cycle(
        hybrid_mixture(*parts, blocks=100, capacity=32), split_merge(*parts, capacity=32)
    )
    return Problem(kernel, None, _points(20_000, 8))


CASES: dict[str, Callable[[], Problem]] = {
    "hybrid_mixture, anchored": lambda: _mixture(hybrid_mixture, blocks=4),
    "hybrid_mixture, demotion": lambda: _mixture(hybrid_mixture, schedule=Demotion()),
    "hybrid_mixture, NormalGamma, prior": lambda: _diagonal(blocks=4),
    "hybrid_mixture, growing once": _growth,
    "hybrid_mixture, one block of 2e5": lambda: _mixture(hybrid_mixture, 200_000),
    "collapsed_mixture": lambda: _mixture(collapsed_mixture),
    "split_merge": _split_merge,
    "slice_mixture": lambda: _mixture(slice_mixture),
    "slice_mixture, scir weights": _stochastic,
    "hybrid_features, LinearGaussian": lambda: _features(LinearGaussian(6), blocks=4),
    "hybrid_features, FeatureLikelihood": lambda: _features(_likelihood(), blocks=4),
    "collapsed_features, LinearGaussian": lambda: _features(LinearGaussian(6), collapsed_features),
    "slice_features, LinearGaussian": _sliced,
    "slice_crm, LinearGaussian": _measured,
    "hybrid_hdp": lambda: _hdp(hybrid_hdp, blocks=4),
    "collapsed_hdp": lambda: _hdp(collapsed_hdp),
    "slice_bnb": lambda: _words(slice_bnb, BetaProcess(1.0, 2.0), capacity=64),
    "cycle, 2e4 items in 8 dimensions": _cycle,
}


# ------------------------------------------------------------------------------------- measures


class Compilations:
    """The stages of compilation, as jax reports each when it ends."""

    def __init__(self):
        self.spans: dict[str, list[tuple[float, float]]] = {name: [] for name in _EVENTS}
        jax.monitoring.register_event_duration_secs_listener(self._heard)

    def _heard(self, event: str, seconds: float, **_: Any) -> None:
        now = time.perf_counter()
        for name, known in _EVENTS.items():
            if event == known:
                self.spans[name].append((now - seconds, now))

    def seconds(self, name: str) -> float:
        """The time within any span of a stage: functions are traced inside others."""
        total, until = 0.0, -np.inf
        for begin, end in sorted(self.spans[name]):
            total += max(end - max(begin, until), 0.0)
            until = max(until, end)
        return total


def _measure(name: str) -> dict[str, float]:
    """The figures of a case, in this process."""
    jax.config.update("jax_enable_compilation_cache", False)
    problem, key = CASES[name](), jax.random.key(0)
    chunk = 1 if problem.position is not None else None

    def call() -> tuple[float, float]:
        cpu, wall = time.process_time(), time.perf_counter()
        sample(key, *problem, num_steps=_NUM_STEPS, chunk=chunk)
        return time.process_time() - cpu, time.perf_counter() - wall

    heard = Compilations()
    first, wall = call()
    shares = {stage: heard.seconds(stage) * first / wall for stage in _EVENTS}
    programs = len(heard.spans["compile"])
    return {"first call": first, **shares, "programs": programs, "second call": call()[0]}


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1])))
