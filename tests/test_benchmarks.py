"""The benchmarks run: their machinery on sizes too small to time anything."""

import numpy as np
import pytest

pytest.importorskip("blackjax")

from benchmarks.__main__ import main, run_suite  # noqa: E402
from benchmarks.table import Line, compare  # noqa: E402
from benchmarks.timing import Case, Timing, race, ratio  # noqa: E402
from experiments.sgmcmc_review.table2 import Size  # noqa: E402


def test_every_case_of_suite_c_is_a_row_with_its_bars():
    (table,) = run_suite("c", scale=1e-4, rounds=2)
    cases = [row[0] for row in table.rows]
    assert cases == ["floor", "blackjax sgld", "sgld by sample", "sgld by scan_kernel"]
    assert all(row[5] in ("yes", "**no**") for row in table.rows[2:])


@pytest.mark.full
def test_topics_are_found_on_a_corpus_or_the_corpus_is_said_to_be_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("SGMC_JAX_DATA", str(tmp_path))
    (table,) = run_suite("topics", scale=1e-4, rounds=1, topics=3)
    assert not table.rows and "reuters395.npz" in table.note
    counts = np.random.default_rng(0).poisson(1.0, (90, 4)).astype(np.uint8)
    rows, columns = np.nonzero(counts)
    starts = np.searchsorted(rows, np.arange(91))
    parts = {"data": counts[rows, columns], "indices": columns, "indptr": starts}
    np.savez(tmp_path / "reuters395.npz", shape=(90, 4), **parts)
    (table,) = run_suite("topics", scale=1e-4, rounds=1, topics=3)
    assert [row[0] for row in table.rows][:3] == ["unigram", "tomotopy", "warm_start, gibbs"]


@pytest.mark.at_length
@pytest.mark.full
def test_every_sampler_of_suite_e_is_a_row(monkeypatch):
    tiny = Size((10,), 400, (60, 80), 2_000, 40, (40, 40))
    monkeypatch.setattr("benchmarks.suite_e.SIZES", {False: tiny})
    (table,) = run_suite("e", 0.5, 1)
    cases = [row[0] for row in table.rows]
    assert cases[0] == "NUTS" and cases[-1] == "ULA, whitened" and len(cases) == 9
    assert [row[-2] for row in table.rows if row[0].endswith("-CV")] == ["50"] * 3


def test_the_command_writes_its_tables(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.__main__._QUICK", (1e-4, 1))
    out = tmp_path / "results.md"
    assert main(["--quick", "--suite", "c", "--all-cores", "--out", str(out)]) == 0
    text = out.read_text()
    assert "--quick" in text and "| sgld by sample |" in text


def test_an_unknown_suite_is_named():
    with pytest.raises(ValueError, match="nothing"):
        run_suite("nothing", 1.0, 1)


def test_a_bar_is_met_or_missed_by_the_median_ratio():
    fast, slow = Timing(np.array([1.0, 1.0, 9.0]), 0.0), Timing(np.array([2.0, 3.0, 9.0]), 0.0)
    timings = {"fast": fast, "slow": slow}
    lines = [Line("slow", "fast", None, {"fast": 2.1}), Line("slow", "fast", None, {"fast": 1.9})]
    table = compare("t", "n", "s", "step", timings, lines)
    assert [row[5] for row in table.rows] == ["yes", "**no**"]
    assert ratio(slow, fast).median == 2.0


def test_rounds_take_the_cases_in_turn():
    calls = []
    cases = {name: Case(lambda name=name: calls.append(name), 1) for name in "ab"}
    race(cases, 2)
    assert calls == list("ababab")
