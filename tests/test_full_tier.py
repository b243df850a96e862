"""The lists of what waits for the full tier name tests that exist."""

from pathlib import Path

import sgmc_jax
from sgmc_jax import bnp, evaluation, models, pictures, tune
from tests.full_tier import SLOW_EXAMPLES, SLOW_TESTS

ROOT = Path(__file__).parent


def test_every_test_exists():
    for file, names in SLOW_TESTS.items():
        source = (ROOT / file).read_text()
        for name in names:
            assert f"def {name.split('[')[0]}(" in source, (file, name)


def test_every_example_is_one_of_a_public_name():
    modules = sgmc_jax, bnp, evaluation, models, pictures, tune
    for name in SLOW_EXAMPLES:
        first = name.split(".")[0]
        assert any(hasattr(module, first) for module in modules), name
