"""The version of the library, and what else a chain's bits depend on."""

from importlib.metadata import version

VERSION = "0.1.0"


def versions() -> str:
    """Of what draws a run."""
    return f"sgmc_jax {VERSION}, jax {version('jax')}, jaxlib {version('jaxlib')}"
