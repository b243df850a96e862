"""How XLA compiles: without what a version of it gets wrong, and large programs on CPUs in half the
time that it takes by default."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import cache, wraps
from importlib.metadata import version
from typing import Any

import equinox as eqx
import jax

# By default every fused loop goes through MLIR, 40 ms each, and a nonparametric step has hundreds;
# the older emitter, right into LLVM, needs a tenth of that. Code split over many modules is
# compiled at once where processors are idle, but what the parts share, once for each. The level of
# optimisation stays: at level 1, a fifth quicker still, LLVM has ended a process ("Cannot select").
_QUICK = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
}

# On CPUs jaxlib 0.10.2 has another library reduce, which takes sums of products over a short last
# axis, jnp.sum(w * x, -1), from wrong places where there are some tens of thousands of numbers:
# https://github.com/jax-ml/jax/issues/39103
_WRONG = "0.10.2"
_RIGHT = "xla_cpu_experimental_ynn_fusion_type"


def reduce_rightly() -> None:
    """Have XLA reduce by itself where it is the version that is wrong otherwise.

    A flag of the process, since users compile sums of their own; it must be set before JAX starts.
    Where XLA_FLAGS in the environment names it, it stays as it is.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if version("jaxlib") != _WRONG or _RIGHT in flags:
        return
    from jax._src import xla_bridge  # of this one version

    if not xla_bridge.backends_are_initialized():
        os.environ["XLA_FLAGS"] = f"{flags} --{_RIGHT}=-reduce".strip()
    elif jax.default_backend() == "cpu":
        warnings.warn(
            f"jaxlib {_WRONG} gets some sums wrong on CPUs, and JAX had started before sgmc_jax "
            f"was imported: import that first, set XLA_FLAGS=--{_RIGHT}=-reduce, or take another "
            "version",
            stacklevel=3,
        )


def quick_options() -> dict[str, bool | int] | None:
    """The options of `jax.jit` that compile large programs quickly; `None` where there are none.

    What is set by XLA_FLAGS in the environment stays as it is.
    """
    if jax.default_backend() != "cpu":
        return None
    given = os.environ.get("XLA_FLAGS", "")
    missing = {name: value for name, value in _QUICK.items() if name not in given}
    return {name: value for name, value in missing.items() if _is_known(name, value)} or None


def quick_jit(function: Callable) -> Callable:
    """`eqx.filter_jit` with these options, which are those of the backend at the first call."""

    @cache
    def compiled() -> Callable:
        options: Any = {"compiler_options": quick_options()}
        return eqx.filter_jit(function, **options)

    @wraps(function)
    def call(*args: Any) -> Any:
        return compiled()(*args)

    return call


@cache
def _is_known(name: str, value: bool | int) -> bool:
    """Whether this XLA takes the option (from jaxlib 0.11 on there is one emitter alone)."""
    try:
        jax.jit(lambda: 0, compiler_options={name: value}).lower().compile()
    except Exception:  # versions of jax raise errors of different types
        return False
    return True
