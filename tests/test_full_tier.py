"""The lists of what waits for the full tier and the long one name tests that exist."""

from itertools import product
from operator import attrgetter
from pathlib import Path

import pytest

import sgmc_jax
from sgmc_jax import bnp, evaluation, models, pictures, tune
from tests.full_tier import COLLECTED, SLOW_EXAMPLES, SLOW_TESTS
from tests.long_tier import OF_OTHERS, TABLES, staying

ROOT = Path(__file__).parent


@pytest.mark.parametrize("lists", [SLOW_TESTS, TABLES], ids=["full", "long"])
def test_every_test_exists(lists):
    for file, names in lists.items():
        source = (ROOT / file).read_text()
        for name in names:
            assert f"def {name.split('[')[0]}(" in source, (file, name)


def test_every_row_exists(pytestconfig):
    """Of the files that pytest has read: a row of another name is back in the fast tier unseen."""
    if any("::" in argument for argument in pytestconfig.args):
        pytest.skip("not all tests of a file are read")
    read = pytestconfig.stash[COLLECTED]
    read |= {row.partition("[")[0] for row in read}
    for file in {name.partition("::")[0] for name in read} & SLOW_TESTS.keys():
        for name in SLOW_TESTS[file]:
            assert f"{file}::{name}" in read, (file, name)


def test_every_example_is_one_of_a_public_name():
    modules = sgmc_jax, bnp, evaluation, models, pictures, tune
    for name in SLOW_EXAMPLES:
        first = name.partition(".")[0]
        assert [attrgetter(name)(module) for module in modules if hasattr(module, first)], name


@pytest.mark.parametrize("sizes", [(4, 3), (4, 3, 2)])
@pytest.mark.parametrize("fast", [0, 2])
def test_no_value_waits_for_the_long_tier(sizes, fast):
    """Each value of several factors is that of a row which is held, by as few rows as can be."""
    rows = list(product(*map(range, sizes)))
    held, waits = rows[:fast], rows[fast:]
    stay = [waits[i] for i in staying(waits, held, 0)]
    of = lambda rows: {value for row in rows for value in enumerate(row)}
    assert of(held + stay) == of(rows)
    assert len(stay) <= max(sizes)


@pytest.mark.parametrize("num", range(1, 18))
def test_of_eight_tables_without_a_factor_the_full_tier_has_every_row_once(num):
    rows = [()] * num
    stay = [staying(rows, [], place) for place in range(8)]
    assert all(stay) and set.union(*stay) == set(range(num))
    assert num < 8 or sum(map(len, stay)) == num


def test_tables_whose_values_others_have_are_tables():
    for file, names in OF_OTHERS.items():
        assert set(names.split()) <= TABLES[file], file
