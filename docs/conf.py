"""Sphinx configuration: `make docs`."""

import os
import shutil
from importlib.metadata import version as _version
from pathlib import Path

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
exclude_patterns = ["_build"]

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

html_theme = "furo"
html_title = "sgmc_jax"


# The notebooks are pages too. They lie beside this folder, where they are run and linked to;
# Sphinx reads a copy.
_COPY = Path(__file__).parent / "notebooks"
shutil.rmtree(_COPY, ignore_errors=True)
shutil.copytree(_COPY.parents[1] / "notebooks", _COPY, ignore=shutil.ignore_patterns("*.py"))


def setup(app):
    app.connect("autodoc-process-docstring", _escape_bars, priority=900)
    app.connect("source-read", _links_to_the_copy)


def _links_to_the_copy(app, name, source):
    """Links between pages and notebooks as they are in the repository, for where the copy is."""
    if name.startswith("notebooks/"):
        source[0] = source[0].replace("(../docs/", "(../")
    else:
        source[0] = source[0].replace("../notebooks/", "notebooks/")


def _escape_bars(app, what, name, obj, options, lines):
    """|x| is an absolute value in these docstrings, not a substitution."""
    code = (">>>", "...")
    lines[:] = [
        line if line.lstrip().startswith(code) else line.replace("|", r"\|") for line in lines
    ]
