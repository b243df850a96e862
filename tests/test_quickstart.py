"""The quickstart: it runs, and its control variates meet the bars."""

import pytest


@pytest.mark.at_length
@pytest.mark.full
@pytest.mark.optimised
def test_the_small_demo_meets_the_bars(tmp_path, capsys):
    """Errors of the means and sds are 3 standard errors or more inside the bars."""
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    from experiments.quickstart.__main__ import main

    assert main(["--size", "small", "--out", str(tmp_path)]) == 0
    table = (tmp_path / "table.md").read_text()
    lines = [line for line in table.splitlines() if line.startswith(("| sg", "| hmc"))]
    assert len(lines) == 10
    assert all("| yes |" in " ".join(line.split()) for line in lines[:7] if "control" in line)
    assert "DOES NOT AGREE" not in table
    ratios = [line.split("|")[6] for line in table.splitlines() if "`default_kernel`" in line]
    assert len(ratios) == 1 and float(ratios[0]) > 2  # times NUTS's effective samples a second
    assert table in capsys.readouterr().out
    for name in ("posteriors.png", "runs.png"):
        assert (tmp_path / name).stat().st_size > 10_000


def test_a_biased_sampler_is_outside_the_bars():
    from experiments.quickstart.compare import Row

    good = Row("x", 0.05, 0.97, 1.03, 0.2, 1.0, 0.1, 1.0, 1.0)
    assert good.passes
    bad = ({"mean_error": 0.11}, {"sd_low": 0.94}, {"sd_high": 1.06}, {"sd_high": float("nan")})
    assert not any(good._replace(**change).passes for change in bad)
