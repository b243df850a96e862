"""Figures of the SCIR paper: the distances that its experiments find, and their corpora."""

import sys

import jax
import numpy as np
import pytest


def command(*arguments):
    """`python -m experiments.scir`, at small size."""
    from experiments.common import main
    from experiments.scir.__main__ import PARTS, SIZES, add_arguments

    return main(PARTS, "experiments.scir", "", arguments, sizes=SIZES, add=add_arguments)


@pytest.mark.full
@pytest.mark.long
@pytest.mark.optimised
def test_distances_from_a_sparse_dirichlet():
    """At most .09, .06 and .04 for batches of 10, 100 and 500; SGRLD's several times larger."""
    pytest.importorskip("matplotlib")
    from experiments.scir import dirichlet

    counts, size = dirichlet.COUNTS["sparse"], dirichlet.SIZES["small"]
    for i, (n, bar) in enumerate([(10, 0.09), (100, 0.06), (500, 0.04)]):
        key = jax.random.fold_in(jax.random.key(0), i)
        scir = dirichlet.draw(key, "scir", counts, n, size)
        sgrld = dirichlet.draw(key, "sgrld", counts, n, size)
        assert scir.distances.mean() <= bar and scir.inside
        assert sgrld.distances.mean() > 3 * scir.distances.mean() and sgrld.inside
    exact = dirichlet.exact(jax.random.key(1), counts, size).distances
    assert abs(exact.mean() - 0.0275) < 0.004


def test_the_tuned_step_size_is_judged_by_other_seeds():
    from experiments.scir.dirichlet import SIZES, tune

    size = SIZES["small"]._replace(step_sizes=np.array([0.1, 0.2, 0.4]), seeds=2)
    distances = np.array([[3, 3, 0, 0], [1, 1, 5, 7], [2, np.nan, 0, 0]], float)
    best = tune(distances, np.zeros((3, 4, 5, 2)), size)
    assert best.step_size == 0.2 and best.inside and best.distances.tolist() == [5, 7]
    assert not tune(distances[[1, 0, 2]], np.zeros((3, 4, 5, 2)), size).inside


def test_the_passes_until_a_level_is_reached():
    from experiments.scir.msweb import passes_to

    curves = np.array([[0, 0, 3, 1], [0, 1, 1, 5]], float)
    assert passes_to(2.0, curves) == 3
    assert passes_to(4.0, curves) is None


@pytest.mark.full
def test_the_msweb_command_writes_its_tables_and_picture(tmp_path, monkeypatch):
    """Two kinds of users, of pages of their own; 30 of each learnt from, 20 held out."""
    pytest.importorskip("matplotlib")
    from experiments.scir import msweb

    rng = np.random.default_rng(0)
    parts = {}
    for part, users in (("train", 60), ("test", 40)):
        pages = np.sort(rng.permuted(np.tile(np.arange(100), (users, 1)), axis=1)[:, :3])
        pages[::2] += 100
        parts[f"{part}_shape"] = np.array([users, msweb.PAGES])
        parts[f"{part}_indptr"] = np.arange(0, 3 * users + 1, 3)
        parts[f"{part}_indices"] = pages.ravel()
        parts[f"{part}_data"] = np.ones(3 * users, np.uint8)
    np.savez(tmp_path / "msweb.npz", **parts)
    for name, value in {"USERS": 60, "BATCH": 20, "START": 3, "ROUNDS": 1}.items():
        monkeypatch.setattr(msweb, name, value)
    grids = {name: steps[:1] for name, steps in msweb.GRIDS.items()}
    monkeypatch.setitem(msweb.SIZES, "small", msweb.Size(12, 2, grids))
    assert command("msweb", "--data-dir", str(tmp_path), "--out", str(tmp_path)) == 0
    exact, batches, *stochastic = (tmp_path / "msweb.md").read_text().splitlines()[2:6]
    assert (tmp_path / "figure4b.png").exists() and len(stochastic) == 2
    found = [float(line.split("|")[5]) for line in (exact, batches)]
    assert abs(found[0] - found[1]) < 0.5 and all(f < 0 for f in found)
    assert all("NO" in line for line in stochastic)  # a grid of one has no inside


@pytest.mark.full
def test_the_dirichlet_command_writes_its_table_and_pictures(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    from experiments.scir import dirichlet

    size = dirichlet.Size((10, 100), np.array([0.03, 0.1, 0.3]), 2)
    monkeypatch.setitem(dirichlet.SIZES, "small", size)
    assert command("dirichlet", "--out", str(tmp_path)) == 0
    table = (tmp_path / "dirichlet.md").read_text().splitlines()
    assert len(table) == 2 + 2 * 2 * 3 and [line.count("|") for line in table] == [8] * 14
    assert (tmp_path / "figure1.png").exists() and (tmp_path / "figure2.png").exists()


def corpora(folder):
    """Small corpora under the names of the large ones: 60 documents, 12 words, two topics."""
    topics = np.kron(np.eye(2), np.full(6, 1 / 6))
    rng = np.random.default_rng(0)
    counts = rng.multinomial(rng.integers(10, 20, 60), topics[rng.integers(0, 2, 60)])
    counts[:, 11] = 0
    counts[0, 11] = 1  # a rare word
    rows, columns = np.nonzero(counts)
    parts = {
        "data": counts[rows, columns].astype(np.uint8),
        "indices": columns.astype(np.uint16),
        "indptr": np.searchsorted(rows, np.arange(61)),
        "shape": np.array([60, 12]),
    }
    both = {part + name: value for part in ("train_", "test_") for name, value in parts.items()}
    words = [f"word{i}" for i in range(12)]
    vocab = np.frombuffer("\n".join(words).encode(), np.uint8)
    groups = {part + "label": np.zeros(60, int) for part in ("train_", "test_")}
    np.savez(folder / "newsgroups20.npz", vocab=vocab, **both, **groups)
    np.savez(folder / "cs_abstracts_2015_2020.npz", vocab=np.array(words), **parts)
    (folder / "vocab_gutenberg_7702.txt").write_text("\n".join(words[1:]))
    return counts


def test_the_corpora_keep_their_words_but_for_rare_and_unknown_ones(tmp_path):
    from experiments.scir.corpora import abstracts, newsgroups

    counts = corpora(tmp_path)
    news = newsgroups(tmp_path, None, 10)
    assert news.vocabulary == 10 and (news.train >= 0).sum() == counts[:, 1:11].sum()
    assert len(news.train) == 60 and len(news.tune) == len(news.test) == 10
    papers = abstracts(tmp_path, 30, 10)
    assert papers.vocabulary == 11 and len(papers.train) == 30
    order = np.random.default_rng(0).permutation(60)
    for row, i in zip(papers.test, order[10:20]):
        assert np.array_equal(np.bincount(row[row >= 0], minlength=11), counts[i, :11])


def test_topics_without_any_of_the_samplers_are_missing(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    from experiments.scir import topics

    corpora(tmp_path)
    monkeypatch.setitem(topics.SIZES, "small", topics.Size(None, 10, 2, 20, (1, 4), 2, 2))
    monkeypatch.setitem(sys.modules, "tomotopy", None)  # not installed
    arguments = ["--data-dir", str(tmp_path), "--out", str(tmp_path / "out")]
    assert command("topics", *arguments, "--samplers", "tomotopy") == 1
    told = capsys.readouterr()
    assert "## topics" not in told.out and "pip install tomotopy" in told.err
    assert told.err.endswith("none of these samplers is there\n\n")


@pytest.mark.full
def test_the_topics_command_writes_its_table_and_picture(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    from experiments.scir import topics

    corpora(tmp_path)
    monkeypatch.setitem(topics.SIZES, "small", topics.Size(None, 10, 2, 20, (1, 4), 2, 2))
    arguments = ["--data-dir", str(tmp_path), "--out", str(tmp_path / "out")]
    arguments += ["--corpus", "abstracts", "--samplers", "scir", "collapsed"]
    assert command("topics", *arguments) == 0
    table = (tmp_path / "out" / "topics.md").read_text().splitlines()
    assert len(table) == 2 + 2 and (tmp_path / "out" / "topics.png").exists()
    assert all(float(line.split("|")[-2]) < 1.3 for line in table[2:])
