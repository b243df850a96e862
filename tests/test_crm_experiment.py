"""What the experiments with slice samplers measure by."""

import jax
import numpy as np
import pytest

pytest.importorskip("matplotlib")
common = pytest.importorskip("experiments.common")

KEY = jax.random.key(0)


def test_a_problem_has_the_sizes_of_the_paper():
    from experiments.crm_slice.features import planted

    problem = planted(10_000, 0.2)
    assert problem.items.shape == (10_000, 20) and problem.features.shape == (10_000, 20)


def corpus(folder, num):
    from experiments.crm_slice.documents import corpus

    return corpus(common.Options(KEY, "small", folder, folder), "nips_1987_1999", num)


def test_words_of_documents_are_held_out(tmp_path):
    """Of 40 documents of five words, each 6, 5, 4, 3 and 0 times; the rarest is left out."""
    counts, vocab = np.tile(np.array([6, 5, 4, 3], np.uint8), 40), np.array(list("abcde"))
    indices = np.tile(np.arange(4, dtype=np.uint16), 40)
    begins = np.arange(0, 161, 4, dtype=np.int32)
    np.savez(
        tmp_path / "nips_1987_1999.npz", data=counts, indices=indices, indptr=begins, vocab=vocab
    )
    made = corpus(tmp_path, 40)
    assert made.words.tolist() == ["a", "b", "c", "d"]
    assert set(np.asarray(made.train.size)) == {12} and set(np.asarray(made.test.size)) == {6}
    both = np.concatenate([np.asarray(made.train.items)[:, :12], np.asarray(made.test.items)], 1)
    assert all(np.bincount(row).tolist() == [6, 5, 4, 3] for row in both)


def test_a_corpus_that_is_missing(tmp_path):
    told = "nips_1987_1999.npz is missing: put the 1,740 papers of NIPS.*\n.*`vocab` \\(13649,\\)"
    with pytest.raises(SystemExit, match=told):
        corpus(tmp_path, 1)


@pytest.mark.full
def test_topics_that_never_change_have_no_effective_samples(tmp_path, monkeypatch):
    """Forty documents of the same four words; without it the number is said to mix perfectly."""
    from experiments.crm_slice import documents

    counts, vocab = np.tile(np.array([6, 5, 4, 3], np.uint8), 40), np.array(list("abcd"))
    indices = np.tile(np.arange(4, dtype=np.uint16), 40)
    begins = np.arange(0, 161, 4, dtype=np.int32)
    np.savez(
        tmp_path / "nips_1987_1999.npz", data=counts, indices=indices, indptr=begins, vocab=vocab
    )
    still = documents.Kept(np.array(True), np.array(7), np.array(4.0))
    monkeypatch.setattr(documents, "recorder", lambda *_: lambda state, info: still)
    curve = documents.measure(KEY, "slice", corpus(tmp_path, 40), 24, 4)
    assert np.isnan([curve.parity, curve.number]).all()
    assert curve.active == 7 and curve.seconds > 0 and curve.perplexity.tolist() == [4.0] * 6


def test_effective_samples_of_short_chains_are_left_out():
    """Of two numbers, of which one is an average of thirty draws, and the other of none."""
    from experiments.crm_slice.choosing import _found

    noise = np.random.default_rng(0).normal(size=(4, 159))
    slow = np.stack([np.convolve(row, np.ones(30), "valid") for row in noise])
    found = _found(np.stack([slow, noise[:, :130]], axis=-1), seconds=1.0)
    assert np.isnan([found.speeds[0], found.errors[0]]).all()
    assert 200 < found.speeds[1] < 1_500 and np.isfinite(found.errors[1])
