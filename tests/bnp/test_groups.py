"""Groups of words from matrices of counts."""

import jax
import numpy as np
import pytest
from scipy import sparse

from sgmc_jax.bnp import (
    DirichletCategorical,
    Groups,
    HierarchicalDirichletProcess,
    default_sampler,
)

COUNTS = np.random.default_rng(0).poisson(0.4, (7, 5))
COUNTS[3] = 0


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, sparse.coo_array, np.float32])
def test_words_are_as_often_as_they_are_counted(form):
    groups = Groups.from_counts(form(COUNTS))
    assert groups.size.tolist() == COUNTS.sum(1).tolist() and groups.size[3] == 0
    for row, size, counts in zip(groups.items, groups.size, COUNTS):
        assert np.bincount(row[:size], minlength=5).tolist() == counts.tolist()
    assert groups.items.shape == (7, COUNTS.sum(1).max())


def test_documents_that_all_have_the_vocabulary_s_length():
    assert Groups.from_counts(np.ones((2, 3), int)).items.tolist() == [[0, 1, 2]] * 2


def test_no_group_at_all_is_told():
    with pytest.raises(ValueError, match="a group at least, got none"):
        Groups.from_list([])
    with pytest.raises(ValueError, match="arrays of items, one a group, got a single number"):
        Groups.from_list(np.array([3, 1]))
    with pytest.raises(ValueError, match=r"items of one shape, got \(3,\) and \(\)"):
        Groups.from_list([np.zeros((2, 3)), np.arange(3.0)])
    parts = HierarchicalDirichletProcess(1.0, 1.0), DirichletCategorical(np.ones(5))
    with pytest.raises(ValueError, match="a group at least, got none"):
        default_sampler(jax.random.key(0), *parts, Groups.from_counts(COUNTS[:0]))


def test_unfit_counts_are_told():
    for wrong, said in [
        (np.zeros(3), "must be a matrix"),
        ([[1.5]], "must be whole numbers"),
        ([[-1]], "must not be negative"),
        ([[np.nan]], "must be finite"),
    ]:
        with pytest.raises(ValueError, match=f"counts {said}"):
            Groups.from_counts(wrong)
