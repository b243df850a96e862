"""The lists of what waits for the full tier and the long one name tests that exist."""

from itertools import combinations, product
from pathlib import Path

import pytest

import sgmc_jax
from sgmc_jax import bnp, evaluation, models, pictures, tune
from tests.full_tier import SLOW_EXAMPLES, SLOW_TESTS
from tests.long_tier import TABLES, cover

ROOT = Path(__file__).parent


@pytest.mark.parametrize("lists", [SLOW_TESTS, TABLES], ids=["full", "long"])
def test_every_test_exists(lists):
    for file, names in lists.items():
        source = (ROOT / file).read_text()
        for name in names:
            assert f"def {name.split('[')[0]}(" in source, (file, name)


def test_every_example_is_one_of_a_public_name():
    modules = sgmc_jax, bnp, evaluation, models, pictures, tune
    for name in SLOW_EXAMPLES:
        first = name.split(".")[0]
        assert any(hasattr(module, first) for module in modules), name


@pytest.mark.parametrize("sizes,most", [((4, 3), 4), ((4, 3, 2), 12)])
@pytest.mark.parametrize("fast", [0, 2])
def test_no_value_waits_for_the_long_tier(sizes, most, fast):
    """Each value of two factors, each two values of three, is that of a row which is held."""
    rows = list(product(*map(range, sizes)))
    held, waits = rows[:fast], rows[fast:]
    chosen = held + [waits[i] for i in cover(waits, held)]
    of = lambda rows: {part for row in rows for part in combinations(enumerate(row), len(row) - 1)}
    assert of(chosen) == of(rows)
    assert len(chosen) <= most + fast
