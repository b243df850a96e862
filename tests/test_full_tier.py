"""The lists of what waits for the full tier name tests that exist."""

from pathlib import Path

import sgmc_jax
from sgmc_jax import bnp
from sgmc_jax.tune import default_kernel
from tests.full_tier import SLOW_EXAMPLES, SLOW_ROWS

ROOT = Path(__file__).parent


def test_every_row_is_one_of_a_test():
    for row in SLOW_ROWS:
        file, name = row.split("[")[0].split("::")
        assert f"def {name}(" in (ROOT / file).read_text() and row.endswith("]"), row


def test_every_example_is_one_of_a_public_name():
    public = {*dir(sgmc_jax), *dir(bnp), default_kernel.__name__}
    assert not SLOW_EXAMPLES - public, SLOW_EXAMPLES - public
