"""What experiments share: a part whose data are missing does not stop the others."""

import sys
import types

import pytest

common = pytest.importorskip("experiments.common")


@pytest.fixture
def package(monkeypatch):
    """An experiment of two parts, of which the first wants data."""

    def wants(options):
        return str(common.load(options, "words.npz", "rows of counts"))

    for name, run in [("wants", wants), ("needs_none", lambda options: "all is well\n")]:
        part = types.ModuleType(f"two_parts.{name}")
        part.run = run
        monkeypatch.setitem(sys.modules, part.__name__, part)
    monkeypatch.setitem(sys.modules, "two_parts", types.ModuleType("two_parts"))
    return "two_parts"


def test_parts_go_on_after_one_whose_data_are_missing(package, tmp_path, capsys):
    where = ["--out", str(tmp_path), "--data-dir", str(tmp_path)]
    assert common.main(("wants", "needs_none"), package, "", where) == 1
    assert (tmp_path / "needs_none.md").read_text() == "all is well\n"
    assert "words.npz is missing: put rows of counts there" in capsys.readouterr().err
    assert common.main(("wants", "needs_none"), package, "", ["needs_none", *where]) == 0
