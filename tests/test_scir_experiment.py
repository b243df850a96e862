"""Figures 1 and 2 of the SCIR paper: the distances that its experiment finds."""

import jax
import numpy as np
import pytest


@pytest.mark.full
def test_distances_from_a_sparse_dirichlet():
    """At most .09, .06 and .04 for batches of 10, 100 and 500; SGRLD's several times larger."""
    pytest.importorskip("matplotlib")
    from experiments.scir import dirichlet

    counts, size = dirichlet.COUNTS["sparse"], dirichlet.SIZES["small"]
    for i, (n, bar) in enumerate([(10, 0.09), (100, 0.06), (500, 0.04)]):
        key = jax.random.fold_in(jax.random.key(0), i)
        scir = dirichlet.run(key, "scir", counts, n, size)
        sgrld = dirichlet.run(key, "sgrld", counts, n, size)
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

    curves = np.array([[0, 0, 0, 0, 0, 5, 5, 5], [0, 9, 0, 0, 0, 0, 0, 5]], float)
    assert passes_to(1.0, curves) == (6 + 5) / 2
    assert np.isnan(passes_to(2.0, curves))
