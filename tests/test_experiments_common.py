"""What experiments share: what is known is on disk, and missing data do not stop other parts."""

import sys
import types

import pytest

common = pytest.importorskip("experiments.common")


@pytest.fixture
def package(monkeypatch):
    """An experiment of three parts: one wants data, one ends, and one breaks."""

    def wants(options):
        yield str(common.load(options, "words.npz", "rows of counts"))

    def breaks(options):
        yield "the first row\n"
        raise ArithmeticError

    parts = [("wants", wants), ("needs_none", lambda _: iter(["all is\n", "all is well\n"]))]
    for name, run in [*parts, ("breaks", breaks)]:
        part = types.ModuleType(f"three_parts.{name}")
        part.run = run
        monkeypatch.setitem(sys.modules, part.__name__, part)
    monkeypatch.setitem(sys.modules, "three_parts", types.ModuleType("three_parts"))
    return "three_parts"


def test_parts_go_on_after_one_whose_data_are_missing(package, tmp_path, capsys):
    where = ["--out", str(tmp_path), "--data-dir", str(tmp_path)]
    assert common.main(("wants", "needs_none"), package, "", where) == 1
    assert (tmp_path / "needs_none.md").read_text() == "all is well\n"
    assert "words.npz is missing: put rows of counts there" in capsys.readouterr().err
    assert common.main(("wants", "needs_none"), package, "", ["needs_none", *where]) == 0


def test_what_was_known_before_a_part_broke_is_on_disk(package, tmp_path):
    with pytest.raises(ArithmeticError):
        common.main(("breaks",), package, "", ["--out", str(tmp_path)])
    assert (tmp_path / "breaks.md").read_text() == "the first row\n"
