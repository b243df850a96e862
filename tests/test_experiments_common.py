"""What experiments share: what is on disk, what is timed, and which draws tell of mixing."""

import itertools
import sys
import types
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

common = pytest.importorskip("experiments.common")


@pytest.fixture
def package(monkeypatch):
    """An experiment of parts of which one wants data, one ends, one breaks, and one is silent."""

    def wants(options):
        yield str(common.load(options, "words.npz", "rows of counts", "`data` (3,)"))

    def breaks(options):
        yield "the first row\n"
        raise ArithmeticError

    parts = [("wants", wants), ("needs_none", lambda _: iter(["all is\n", "all is well\n"]))]
    parts.append(("is_silent", lambda _: iter([])))
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
    told = capsys.readouterr().err
    assert "words.npz is missing: put rows of counts there" in told
    assert "\nIt holds `data` (3,).\n" in told
    assert common.main(("wants", "needs_none"), package, "", ["needs_none", *where]) == 0


def test_what_was_known_before_a_part_broke_is_on_disk(package, tmp_path):
    with pytest.raises(ArithmeticError):
        common.main(("breaks",), package, "", ["--out", str(tmp_path)])
    assert (tmp_path / "breaks.md").read_text() == "the first row\n"


def test_a_part_that_yields_nothing_has_not_the_text_of_another(package, tmp_path, capsys):
    where = ["--out", str(tmp_path)]
    assert common.main(("needs_none", "is_silent"), package, "", where) == 1
    told = capsys.readouterr()
    assert told.out == "## needs_none\n\nall is well\n\n"
    assert told.err == "## is_silent\n\nnothing was measured\n\n"


def test_what_hardly_moves_is_not_said_to_mix():
    """Of draws that are independent, never change, change once a chain, and are at the clip."""
    rng, x = np.random.default_rng(0), np.zeros((2, 100, 4), np.float32)
    x[..., 0] = rng.normal(size=(2, 100))
    x[..., 3] = np.arange(100) % 2
    x[:, :, 2] = np.where(np.arange(100) < 50, 0, 1)  # a change a chain
    for kind in ("bulk", "mean", "batch_means"):
        size = common.effective(x, kind=kind)
        assert 100 < size[0] < 500 and np.isnan(size[1:]).all(), kind
    assert np.isnan(common.effective(x[..., 1]))
    assert common.shown(size[1]) == "-" and common.shown(1.234) == "1.23"


def test_chains_of_few_autocorrelation_times_tell_no_effective_size():
    noise = np.random.default_rng(0).normal(size=(4, 4_000))
    slow = np.zeros_like(noise)
    for i in range(1, noise.shape[1]):
        slow[:, i] = 0.95 * slow[:, i - 1] + noise[:, i]  # of an autocorrelation time of 39
    assert 250 < common.effective(slow, times=50) < 700
    assert common.effective(slow[:, :400]) > 20
    assert np.isnan(common.effective(slow[:, :400], times=50))


def test_the_clock_counts_neither_compilation_nor_growth():
    """A step takes one second, a program a hundred, and slots are added in the eighth step."""
    now, compiled = [0.0], set()

    def go(position, num_steps):
        capacity, at = position.capacity, position.num_steps
        if at < 8 <= at + num_steps:
            capacity *= 2
        now[0] += num_steps + 100 * len({position.capacity, capacity} - compiled)
        compiled.update({position.capacity, capacity})
        return types.SimpleNamespace(capacity=capacity, num_steps=at + num_steps)

    begun = types.SimpleNamespace(capacity=16, num_steps=4)
    run, seconds = common.clocked(go, begun, 6, lambda: now[0])
    assert (seconds, run.capacity, run.num_steps) == (6, 32, 16)
    compiled.clear()
    run, seconds = common.clocked(go, run, 6, lambda: now[0])
    assert (seconds, run.num_steps) == (6, 22)


@pytest.mark.parametrize("thin", [5, pytest.param(1, marks=pytest.mark.full)])
def test_what_is_timed_goes_on_from_the_run(thin):
    """The draws are those of one longer run; the 37th step of it wants a seventeenth slot."""
    from sgmc_jax import sample
    from sgmc_jax.bnp import DirichletProcess, NormalKnownCovariance, collapsed_mixture

    flat = NormalKnownCovariance(np.zeros(1), 1e8 * np.eye(1), np.eye(1))
    kernel = collapsed_mixture(DirichletProcess(3.0), flat, capacity=8)
    args = {"data": jnp.zeros((60, 1)), "record": common.active, "chunk": 5, "thin": thin}
    go, start = partial(sample, jax.random.key(0), kernel, **args), jnp.zeros(60, jnp.int32)
    ticks = itertools.count()
    run, seconds = common.clocked(go, go(position=start, num_steps=35), 10, lambda: next(ticks))
    whole = go(position=start, num_steps=55)
    assert seconds == 1 and run.num_steps == 55 and len(run.trace) == 10 // thin
    assert np.array_equal(run.trace, whole.trace[-len(run.trace) :])


def test_a_picture_that_is_saved_is_let_go(tmp_path):
    figure, _ = common.plt.subplots()
    common.save(figure, tmp_path / "a.png")
    assert (tmp_path / "a.png").is_file() and figure.number not in common.plt.get_fignums()
