"""Sphinx configuration: `make docs`."""

import os
import shutil
import sys
from collections import namedtuple
from importlib.metadata import version as _version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from docstrings import escape_bars, show_formulas  # noqa: E402

os.environ.setdefault("JAX_PLATFORMS", "cpu")

project = "sgmc_jax"
author = "The sgmc_jax developers"
version = release = _version("sgmc_jax")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build", "templates"]
templates_path = ["templates"]

autosummary_generate = True
autosummary_imported_members = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_custom_sections = [
    ("Targets", "notes_style"),
    ("State", "notes_style"),
    ("Info", "notes_style"),
    ("Reference", "notes_style"),
]

myst_enable_extensions = ["amsmath", "dollarmath"]
nb_execution_mode = "off"

smartquotes = False  # Z'Z is no quotation

html_theme = "furo"
html_title = "sgmc_jax"


# The notebooks are pages too. They lie beside this folder, where they are run and linked to;
# Sphinx reads a copy.
_COPY = Path(__file__).parent / "notebooks"
shutil.rmtree(_COPY, ignore_errors=True)
shutil.copytree(_COPY.parents[1] / "notebooks", _COPY, ignore=shutil.ignore_patterns("*.py"))


_Field = type(namedtuple("_Field", "x").x)


def setup(app):
    app.connect("autodoc-process-docstring", _of_lines(show_formulas), priority=400)
    app.connect("autodoc-process-docstring", _of_lines(escape_bars), priority=900)
    app.connect("autodoc-skip-member", _skip_fields)
    app.connect("source-read", _links_to_the_copy)


def _links_to_the_copy(app, name, source):
    """Links between pages and notebooks as they are in the repository, for where the copy is."""
    if name.startswith("notebooks/"):
        source[0] = source[0].replace("(../docs/", "(../")
    else:
        source[0] = source[0].replace("../notebooks/", "notebooks/")


def _of_lines(change):
    def process(app, what, name, obj, options, lines):
        lines[:] = change(lines)

    return process


def _skip_fields(app, what, name, obj, skip, options):
    """What a named tuple says of its fields is which number they have."""
    return True if isinstance(obj, _Field) else None
