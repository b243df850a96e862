"""The version of the library, and what else a chain's bits depend on."""

import jax
import jaxlib

VERSION = "0.1.0"


def versions() -> str:
    """Of what draws a run."""
    return f"sgmc_jax {VERSION}, jax {jax.__version__}, jaxlib {jaxlib.__version__}"
