"""Sphinx configuration: `make docs`."""

import os
from importlib.metadata import version as _version

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


def setup(app):
    app.connect("autodoc-process-docstring", _escape_bars, priority=900)


def _escape_bars(app, what, name, obj, options, lines):
    """|x| is an absolute value in these docstrings, not a substitution."""
    code = (">>>", "...")
    lines[:] = [
        line if line.lstrip().startswith(code) else line.replace("|", r"\|") for line in lines
    ]
