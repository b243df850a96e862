"""Formulas of docstrings are shown as they are written, on the pages of the API too."""

import importlib.util
import inspect
from pathlib import Path

import sgmc_jax
from sgmc_jax.families import Family

_PATH = Path(__file__).parents[1] / "docs" / "docstrings.py"
_spec = importlib.util.spec_from_file_location("docstrings", _PATH)
docstrings = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(docstrings)

DOCSTRING = """A step:

    x <- x + h v,
    v <- |v|,   of all

    y

With |x|. An example:

    >>> abs(x) | 1

Targets:
    One law, with

        p(|x|) + 1

    and no other.

A list::

    |a|
"""
PAGE = r"""A step:

.. code-block:: text

    x <- x + h v,
    v <- |v|,   of all

    y

With \|x\|. An example:

    >>> abs(x) | 1

Targets:
    One law, with

    .. code-block:: text

        p(|x|) + 1

    and no other.

A list::

    |a|
"""


def page(docstring):
    return docstrings.escape_bars(docstrings.show_formulas(docstring.split("\n")))


def test_formulas_are_literal():
    assert page(DOCSTRING) == PAGE.split("\n")


def test_those_of_a_sampler_are_line_by_line():
    lines = page(inspect.getdoc(sgmc_jax.sghmc))
    first = lines.index("    x <- x + h v / 2")
    assert lines[first - 2 : first] == [".. code-block:: text", ""]
    assert lines[first + 4] == "    x <- x + h v / 2"


def test_what_is_literal_already_is_left():
    assert ".. code-block:: text" not in page(inspect.getdoc(Family))
