"""How XLA compiles large programs: on CPUs, in half the time that it takes by default."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, wraps
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
