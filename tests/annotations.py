"""Every kernel of the registry, traced with all annotations checked: `python -m tests.annotations`.

Run by `tests/test_annotations.py` in a process of its own: the hook must come before the library,
and the tests of wrong input are for the library as users have it.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

from tests import checked  # noqa: E402

if __name__ == "__main__":  # and not where this module is searched for doctests
    checked.install()

import jax  # noqa: E402

from tests.laws import registry  # noqa: E402
from tests.wrong import trace  # noqa: E402


def main() -> None:
    """Print the cases whose trace breaks what an annotation promises."""
    checked.must_check()
    for case in registry.CASES:
        data = jax.tree.map(jax.numpy.asarray, case.data)
        try:
            trace(case.make(case.step_size), case.position, data)
        except Exception as error:
            print(f"{case.name}: {type(error).__name__}: {str(error)[:400]}")
    print(f"traced {len(registry.CASES)} kernels")


if __name__ == "__main__":
    main()
