"""The check of planted faults: short where that is enough, and never satisfied by an honest law."""

import numpy as np
import pytest

from tests.laws import moments

RNG = np.random.default_rng(3)
DRAWS = RNG.normal(size=(400, 4_096))


@pytest.fixture(autouse=True)
def length_again():
    before = moments.at_length()
    yield
    moments.choose_length(before)


def check(shift, tolerance=1.0, seen=None):
    num = moments.fewer(DRAWS.shape[1])
    if seen is not None:
        seen.append(num)
    moments.check_law(1 + shift + DRAWS[:, :num].mean(1), 1.0, tolerance)


def test_a_large_fault_is_seen_soon():
    for length in (True, False):
        moments.choose_length(length)
        seen = []
        moments.fault_is_seen(check, 0.05, seen=seen)
        assert seen == [512] and moments.at_length() == length


def test_a_small_fault_is_seen_at_full_length_or_not_at_all():
    moments.choose_length(True)
    seen = []
    moments.fault_is_seen(check, 0.008, seen=seen)
    assert seen == [512, 4_096]
    moments.choose_length(False)
    with pytest.raises(pytest.fail.Exception, match="no fault seen at an eighth"):
        moments.fault_is_seen(check, 0.008)


@pytest.mark.parametrize("tolerance", [1.0, 1e-6], ids=["honest", "blind"])
def test_a_law_without_a_fault_is_not_one(tolerance):
    moments.choose_length(True)
    with pytest.raises(pytest.fail.Exception, match="no fault seen at full"):
        moments.fault_is_seen(check, 0.0, tolerance)
