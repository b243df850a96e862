"""Notebooks: what is stored is what their scripts say, with outputs, and all run at a small size.

`make notebooks` runs them as they are.
"""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

jupytext = pytest.importorskip("jupytext")
nbformat = pytest.importorskip("nbformat")
from tests.strip_notebooks import strip  # noqa: E402

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
FAST = "quickstart"  # others wait for the full tier
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


def gallery():
    path = FOLDER.parent / "docs" / "gallery_pictures.py"
    spec = importlib.util.spec_from_file_location("gallery_pictures", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_gallery_shows_what_is_stored(script):
    image, pictures = pytest.importorskip("PIL.Image"), gallery()
    made = pictures.small(pictures.stored(script.stem, pictures.SHOWN[script.stem]))
    shown = image.open(pictures.ROOT / "docs" / "images" / "gallery" / f"{script.stem}.png")
    gap = np.asarray(made.convert("RGB"), float) - np.asarray(shown.convert("RGB"), float)
    assert made.size == shown.size and np.abs(gap).mean() < 1.0  # of 255: other versions of Pillow


def small(source):
    """A tenth of the steps, and a fiftieth of a million items."""
    tenth = lambda match: f"{match[1]}{max(int(match[2]) // 10, 1)}"
    source = re.sub(r"\b((?:num_steps|burn_in)(?:=|\": ))([\d_]+)", tenth, source)
    return source.replace("N = 1_000_000", "N = 20_000")


@pytest.mark.parametrize(
    "script",
    [pytest.param(path, marks=() if path.stem == FAST else pytest.mark.full) for path in SCRIPTS],
    ids=lambda path: path.stem,
)
def test_it_runs_at_a_small_size(script, monkeypatch):
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(FOLDER)
    monkeypatch.setattr(plt, "show", lambda: None)
    code = compile(small(script.read_text()), script.name, "exec")
    try:
        exec(code, {"__name__": "__main__"})
        assert plt.get_fignums()
    finally:
        plt.close("all")


@pytest.mark.full
def test_the_quickstart_runs_from_top_to_bottom():
    nbclient = pytest.importorskip("nbclient")
    notebook = jupytext.read(FOLDER / "quickstart.py")
    resources = {"metadata": {"path": str(FOLDER)}}
    nbclient.NotebookClient(notebook, timeout=600, resources=resources).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert any("image/png" in output.get("data", {}) for output in outputs)
