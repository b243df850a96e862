"""Good calls of the public surface, each a table of arguments for the fuzzer to spoil."""

from __future__ import annotations

from tests.fuzz.rows.combinators import combinators
from tests.fuzz.rows.common import Call
from tests.fuzz.rows.drawings import drawings
from tests.fuzz.rows.draws import draws
from tests.fuzz.rows.estimators import estimators
from tests.fuzz.rows.geometry import spaces, supports
from tests.fuzz.rows.kernels import kernels
from tests.fuzz.rows.letters import letters
from tests.fuzz.rows.mixtures import families, nonparametrics
from tests.fuzz.rows.models import of_models, of_numpyro, of_series
from tests.fuzz.rows.numbers import numbers
from tests.fuzz.rows.parts import parts
from tests.fuzz.rows.processes import measures, slices
from tests.fuzz.rows.topics import topics

TABLES = (
    kernels,
    letters,
    combinators,
    parts,
    estimators,
    of_models,
    of_series,
    of_numpyro,
    spaces,
    supports,
    nonparametrics,
    families,
    draws,
    topics,
    measures,
    slices,
    numbers,
    drawings,
)


def calls() -> dict[str, Call]:
    """All of them, by names of which none is taken twice."""
    rows = [row for table in TABLES for row in table().items()]
    assert len(dict(rows)) == len(rows), "a name is taken twice"
    return dict(rows)
