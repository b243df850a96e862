"""Spoilt calls are refused in words of the library's own; what was spoilt is a call it takes."""

import random

import pytest

from sgmc_jax import _tree
from tests.fuzz.calls import Call, calls
from tests.fuzz.fuzz import attempt, faults, spoil


@pytest.mark.full
@pytest.mark.parametrize("name", list(calls()))
def test_what_is_spoilt_was_good(name):
    call = calls()[name]
    call.use(call.function(**call.arguments), call.held)


@pytest.mark.full
def test_spoilt_calls_return_or_are_refused():
    found = [str(fault) for fault in faults(3_000, seed=0) if fault is not None]
    assert not found, "\n".join(found)


def test_an_error_in_nobodys_words_is_seen():
    """Planted: the library's own code fails on what it was given, and says nothing of it."""
    call, spoilt = spoil(random.Random(0), Call(_tree.size, {"x": [1.0]}), ["text"])
    assert attempt("size", call, spoilt).where.startswith("_tree.py")
