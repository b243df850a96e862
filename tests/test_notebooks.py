"""Notebooks: what is stored is what their scripts say, with outputs; the first one runs here.

`make notebooks` runs them all.
"""

from pathlib import Path

import pytest

jupytext = pytest.importorskip("jupytext")
nbformat = pytest.importorskip("nbformat")
from tests.strip_notebooks import strip  # noqa: E402

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
SCRIPTS = sorted(FOLDER.glob("*.py"))


def sources(path):
    return [(cell.cell_type, cell.source.strip()) for cell in jupytext.read(path).cells]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_what_is_stored_is_what_the_script_says(script):
    stored = script.with_suffix(".ipynb")
    assert sources(stored) == sources(script)
    assert any(cell.get("outputs") for cell in jupytext.read(stored).cells)


def test_what_is_of_one_run_alone_is_not_stored():
    place = "/scratch/ipykernel_12/345.py:6: UserWarning: chains are hot\n"
    output = nbformat.v4.new_output("stream", name="stderr", text=place)
    cell = nbformat.v4.new_code_cell("1", metadata={"execution": {}}, outputs=[output])
    strip(nbformat.v4.new_notebook(cells=[cell]))
    assert output.text == "UserWarning: chains are hot\n" and not cell.metadata
    assert not any("ipykernel_" in path.read_text() for path in FOLDER.glob("*.ipynb"))


def test_a_script_with_another_line_is_told(tmp_path):
    other = tmp_path / "quickstart.py"
    other.write_text((FOLDER / "quickstart.py").read_text() + "1 + 1\n")
    assert sources(other) != sources(FOLDER / "quickstart.ipynb")


@pytest.mark.full
def test_the_quickstart_runs_from_top_to_bottom():
    nbclient = pytest.importorskip("nbclient")
    notebook = jupytext.read(FOLDER / "quickstart.py")
    resources = {"metadata": {"path": str(FOLDER)}}
    nbclient.NotebookClient(notebook, timeout=600, resources=resources).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert any("image/png" in output.get("data", {}) for output in outputs)
