"""The same values as lists or of another type have one answer."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests.fuzz.calls import Call, calls
from tests.fuzz.respelled import differences

CALLS = calls()


@pytest.mark.parametrize("name", ["ess", "ksd", "log_bessel_i", "counts_variance", "topic_counts"])
def test_another_form_has_the_same_answer(name):
    assert not list(differences(name, CALLS[name]))


def times_a_hundred(counts):
    return jnp.asarray(counts) * 100


def test_a_type_that_wraps_around_is_seen():
    """Planted: 300 is 44 in one byte, and short in two."""
    found = list(differences("hundred", Call(times_a_hundred, {"counts": np.array([3, 1])})))
    assert [line.split(":")[1] for line in found] == [" counts as int8", " counts as uint8"]
