"""The environment, set before jax is imported, and the fixtures every test may use."""

import os
from pathlib import Path

_COUNT = "--xla_force_host_platform_device_count"
_CACHE = Path(__file__).resolve().parent.parent / ".cache" / "jax"

# Forced host devices deadlock in collectives when the thread pool is smaller than they are many.
os.environ["NPROC"] = "64"
if _COUNT not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_COUNT}=8".strip()
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")

import jax  # noqa: E402
import pytest  # noqa: E402

if hasattr(jax, "enable_x64"):  # jax >= 0.8
    _enable_x64 = jax.enable_x64
else:
    from jax.experimental import enable_x64 as _enable_x64


@pytest.fixture
def x64():
    """Run the test in float64."""
    with _enable_x64(True):
        yield
