"""What is not seconds: memory beyond the data's own, data in the program, and traces."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp

from sgmc_jax import ControlVariate, FunctionModel, Minibatch, Uniform, sample, scan_kernel, sgld

from .problems import FUNCTION, LINEAR, item_loglik, log_prior, logistic_data
from .table import Table, plain

_DIM = 19
_EXTRA_MB = 20.0
_PROGRAM_BYTES = 1_000_000


def run(scale: float, rounds: int) -> list[Table]:
    """One table; `scale` shrinks the data."""
    num_items = max(20_000, int(1_000_000 * scale))
    rows = [_memory_row(num_items), _program_row(), *_trace_rows()]
    note = "Resident memory is the peak of a process of its own, against one with 1,000 items."
    header = ["case", "measured", "bar", "met"]
    return [Table("Memory, programs and traces", note, header, rows)]


def _memory_row(num_items: int) -> list[str]:
    size = num_items * _DIM * 4 / 1e6
    extra = _peak_mb(num_items) - _peak_mb(1000) - size
    case = f"peak beyond the {size:.0f} MB of data, control variate"
    return plain(case, f"{extra:.1f} MB", f"< {_EXTRA_MB:g} MB", extra < _EXTRA_MB)


def _peak_mb(num_items: int) -> float:
    command = [sys.executable, "-m", "benchmarks.suite_memory", str(num_items)]
    root = Path(__file__).resolve().parent.parent
    result = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    return float(result.stdout)


def _sample_and_measure(num_items: int) -> float:
    """The peak of this process in MB, after a run on data made in place."""
    # one fused loop, so that nothing but the data itself is ever resident
    x = jax.jit(lambda: jnp.sin(jax.lax.iota(jnp.float32, num_items * _DIM)).reshape(-1, _DIM))()
    y = jax.jit(lambda: (jax.lax.iota(jnp.int32, num_items) % 2).astype(jnp.float32))()
    centre = jnp.zeros(_DIM)
    kernel = sgld(ControlVariate(Minibatch(LINEAR, Uniform(1000)), centre), 1e-6)
    sample(jax.random.key(0), kernel, centre, (x, y), num_steps=200)
    return high_water_mb()


def high_water_mb() -> float:
    """This process's peak resident memory."""
    status = Path("/proc/self/status")
    if status.exists():
        # getrusage would also count the parent, before the exec
        lines = status.read_text().splitlines()
        return next(int(x.split()[1]) for x in lines if x.startswith("VmHWM")) * 1024 / 1e6
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def _program_row() -> list[str]:
    data = logistic_data(100_000, 10)
    kernel = sgld(Minibatch(FUNCTION, Uniform(1000)), 1e-5)
    state = kernel.init(jax.random.key(0), jnp.zeros(10), data)
    scan = jax.jit(scan_kernel, static_argnums=4)
    size = len(scan.lower(jax.random.key(1), kernel, state, data, 10).compile().as_text())
    case = "text of a compiled program on 4.4 MB of data"
    met = size < _PROGRAM_BYTES
    return plain(case, f"{size / 1e6:.2f} MB", f"< {_PROGRAM_BYTES / 1e6:g} MB", met)


def _trace_rows() -> list[list[str]]:
    one, ten = _traces([1e-5]), _traces([1e-5 * i for i in range(1, 11)])
    sweep = _sweep_traces(10)
    return [
        plain(
            "traces of the likelihood, ten step sizes in turn", f"{ten}", f"<= {one}", ten <= one
        ),
        plain("the same, as one run of ten kernels", f"{sweep}", f"<= {one}", sweep <= one),
    ]


class _Counted:
    """A likelihood that counts how often Python calls it, and its data."""

    def __init__(self):
        self.calls = 0
        self.data = logistic_data(2000, 3)

    def estimator(self) -> Minibatch:
        def loglik(w, item):
            self.calls += 1
            return item_loglik(w, item)

        return Minibatch(FunctionModel(log_prior, loglik), Uniform(100))


def _traces(step_sizes: list[float]) -> int:
    """Calls of the likelihood in runs with one step size after the other."""
    counted = _Counted()
    grad = counted.estimator()
    for h in step_sizes:
        sample(jax.random.key(0), sgld(grad, h), jnp.zeros(3), counted.data, num_steps=20)
    return counted.calls


def _sweep_traces(num_kernels: int) -> int:
    """The same for all of them at once, as a stack of kernels."""
    counted = _Counted()
    grad = counted.estimator()
    step_sizes = 1e-5 * jnp.arange(1, num_kernels + 1)
    kernels = eqx.filter_vmap(lambda h: sgld(grad, h))(step_sizes)
    settings = {"num_steps": 20, "kernel_axis": 0}
    trace = sample(jax.random.key(0), kernels, jnp.zeros(3), counted.data, **settings).trace
    if trace.shape != (num_kernels, 20, 3):
        raise AssertionError(f"a sweep's trace must have a kernel axis, got {trace.shape}")
    return counted.calls


if __name__ == "__main__":
    print(_sample_and_measure(int(sys.argv[1])))
