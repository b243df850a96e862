"""Where chains of many features begin: with those that short chains of some items find.

With one device: their many small solves wait long for the threads that eight need.
"""

import jax
import numpy as np
import pytest

from sgmc_jax import sample
from sgmc_jax.bnp import BetaBernoulli, LinearGaussian, hybrid_features, slice_crm, slice_features
from sgmc_jax.processes import Bernoulli, StableBetaProcess, rejection
from tests.bnp.many_items import FEATURES, images

pytestmark = [pytest.mark.full, pytest.mark.one_device]
KEY = jax.random.key(0)


def any_measure(process, family):
    """The sampler of a measure that no process stands for, but one like it."""
    return slice_crm(rejection(StableBetaProcess(1.0, 1.0, 0.2)), Bernoulli(), family)


@pytest.mark.parametrize(
    "make, few", [(hybrid_features, 19), (slice_features, 19), (any_measure, 19)]
)
def test_many_items_begin_with_the_features_of_some(make, few):
    kernel = make(*FEATURES)
    features = np.asarray(kernel.starter(images(1_000))(KEY).local["features"])
    assert features.shape == (1_000, 16) and np.sum(features.any(1)) <= 100
    found = [np.flatnonzero(u) for u in features.T if u.sum() > 10]
    present = np.asarray(images(1_000))[:, :3] > 2.0
    assert len(found) == 3 and {int(present[rows].all(0).argmax()) for rows in found} == {0, 1, 2}
    assert kernel.starter(images(few)) is None


def test_slices_of_a_few_items_have_their_features():
    """In 36 dimensions a feature that is drawn from its prior hardly ever suits an item."""
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, (30, 4))
    x = z @ np.kron(np.eye(4), np.ones((1, 9))) + 0.5 * rng.normal(size=(30, 36))
    kernel = slice_features(FEATURES[0], LinearGaussian(36, 0.5, 1.0))
    args = {"num_steps": 100, "num_chains": 2, "position_axis": None}
    own, one = (sample(KEY, kernel, start, x, **args) for start in (None, np.ones((30, 1))))
    assert np.all(own.info.active >= 4) and np.all(one.info.active == 1)


@pytest.mark.at_length
def test_slots_do_not_change_where_slices_begin(x64):
    """More than 32 have a program of their own, and in float64 the same chain."""
    start = lambda n: slice_features(*FEATURES, capacity=n).starter(np.asarray(images(40)))(KEY)
    few, some, many = (start(n).local["features"] for n in (4, 16, 64))
    used = int(np.sum(many.any(axis=0)))
    assert used >= 3 and not many[:, used:].any()
    np.testing.assert_array_equal(few[:, :3], many[:, :3])
    np.testing.assert_array_equal(some, many[:, :16])


@pytest.mark.full
@pytest.mark.parametrize("num_items", [120, 900])
def test_features_of_fewer_items_are_found_from_none(num_items):
    """Five, of which chains find one or two from one that all items have."""
    rng = np.random.default_rng(1)
    values = 2 * rng.normal(size=(5, 16))
    z = rng.random((num_items, 5)) < 0.4
    items = (z @ values + 0.3 * rng.normal(size=(num_items, 16))).astype(np.float32)
    kernel = hybrid_features(BetaBernoulli(2.0), LinearGaussian(16, 0.3, 2.0), blocks=2)

    def found(start):
        run = sample(jax.random.key(1), kernel, start, items, num_steps=200)
        columns = np.asarray(run.state.position.local["features"]).T
        return sum(max(np.mean(own == other) for other in columns) > 0.99 for own in z.T)

    assert found(None) == 5 and found(np.ones((num_items, 1), bool)) < 3
