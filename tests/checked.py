"""What checks annotations as the library runs: `python -m pytest -p tests.checked sgmc_jax`."""

from beartype import BeartypeConf, beartype
from jaxtyping import install_import_hook

# an int may stand where a float is promised, as in Python's typing
checked = beartype(conf=BeartypeConf(is_pep484_tower=True))


def install() -> None:
    """Before the library is imported: from then on all of its annotations are checked."""
    install_import_hook("sgmc_jax", "tests.checked.checked")


def must_check() -> None:
    """Raise where a broken annotation passes: then nothing has been checked at all."""
    from sgmc_jax.arrays import product

    try:
        product("no", "numbers")
    except Exception as error:
        if "check" in type(error).__name__.lower():
            return
    raise RuntimeError("annotations are not checked")


def pytest_configure() -> None:
    install()
    must_check()
