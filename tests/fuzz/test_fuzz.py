"""Spoilt calls are refused in words of the library's own; what was spoilt is a call it takes."""

import inspect
import random
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import jax
import numpy as np
import pytest

from sgmc_jax import FunctionModel, _tree
from tests.fuzz import fuzz
from tests.fuzz.calls import Call, calls
from tests.fuzz.fuzz import attempt, faults, spoil
from tests.fuzz.left_out import LEFT_OUT
from tests.test_public import documented, exports

CALLS = calls()


def public() -> Iterator[tuple[str, Any]]:
    """What is called of the modules that the pages speak of; an abstract class is not."""
    names, whole = documented()
    for module in sorted({name.rpartition(".")[0] for name in names} | whole):
        for name in sorted(exports(module)):
            made = getattr(import_module(module), name)
            if callable(made) and not inspect.isabstract(made):
                yield f"{module}.{name}", made


def without_row(called: list[Any]) -> list[str]:
    """The public names of what is not called; by identity, as a name may be of another thing."""
    known = {id(made) for made in called}
    return [name for name, made in public() if id(made) not in known]


def test_every_public_name_has_a_row_or_a_reason():
    called = [call.called for call in CALLS.values()]
    left_out = [made for some in LEFT_OUT.values() for made in some]
    missing = without_row(called + left_out)
    assert not missing, f"no row in tests/fuzz/rows calls {missing}"
    known = {id(made) for _, made in public()}
    for made in left_out:
        assert id(made) in known, f"{made.__name__} is left out, but not public"
        assert not any(made is other for other in called), f"{made.__name__} has a row"


def test_a_name_without_a_row_is_seen():
    """Planted: one of the rows is missing."""
    rest = [call.called for name, call in CALLS.items() if name != "ess"]
    assert "sgmc_jax.ess" in without_row(rest)


@pytest.mark.full
@pytest.mark.parametrize("name", list(CALLS))
def test_what_is_spoilt_was_good(name):
    call = CALLS[name]
    call.use(call.function(**call.arguments), call.held)


@pytest.mark.parametrize(
    "name, argument, value",
    [
        ("Groups.from_counts", "counts", (np.ones((20, 2)), np.ones((3, 2)))),
        ("seed_features", "data", np.array([None, 1], object)),
        ("tune_decay", "decays", lambda x: x),
        ("LDA", "counts", jax.random.key(0)),
        ("held_out_error", "parameters", np.zeros((0, 2), np.float32)),
        ("perplexity", "topics", (np.ones((20, 2)), np.ones((3, 2)))),
        ("topic_counts", "size", (1.0, 2.0)),
        ("successive_halving", "position", 1),
        ("successive_halving", "scale", print),
        ("PoissonEmission", "data", np.ones((20, 2), complex)),
        ("ExpandedMean", "prior", lambda x: x),
        ("CountLikelihood.from_function", "log_prob", print),
        ("tune_decay", "position", object),
        ("default_sampler", "data", (np.ones((20, 2)), np.ones((3, 2)))),
        ("TwoLayerNetwork", "activation", object),
        ("metropolis", "redraw", print),
        ("tune_decay", "decays", np.ones((30, 3, 2))),
        ("Summand", "prior", jax.random.key(0)),
    ],
)
def test_what_was_found_is_refused(name, argument, value):
    call = CALLS[name]
    known = call.arguments if argument in call.arguments else call.held
    assert argument in known
    fresh = lambda table: {key: value if key == argument else x for key, x in table.items()}
    spoilt = call._replace(arguments=fresh(call.arguments), held=fresh(call.held))
    refused = pytest.raises((TypeError, ValueError), match=rf"({argument}|series) (must|returns)")
    with refused as error:
        spoilt.use(spoilt.function(**spoilt.arguments), spoilt.held)
    assert len(str(error.value)) < 600


@pytest.mark.full
def test_spoilt_calls_return_or_are_refused():
    found = [str(fault) for fault in faults(3_000, seed=0) if fault is not None]
    assert not found, "\n".join(found)


def test_an_error_in_nobodys_words_is_seen():
    """Planted: the library's own code fails on what it was given, and says nothing of it."""
    call, spoilt = spoil(random.Random(0), Call(_tree.size, {"x": [1.0]}), ["text"])
    assert attempt("size", call, spoilt).where.startswith("_tree.py")


def sleep(x):
    time.sleep(5)
    return x


@pytest.mark.parametrize("function", [sleep, lambda x: FunctionModel(sleep).logprior(x)])
def test_a_call_that_hangs_is_seen(function, monkeypatch):
    """Planted: it sleeps, in the library and outside of it."""
    monkeypatch.setattr(fuzz, "SECONDS", 1)
    found = attempt("sleep", Call(function, {"x": 1.0}), {})
    assert found is not None and "no answer" in found.error
