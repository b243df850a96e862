"""Nonparametric samplers on shards that grow, against one device with room: the fast tier's law.

Each sampler's own file has it for every engine, and for numbers of items that do not divide.
"""

import jax
import numpy as np
import pytest

from sgmc_jax import Dist, Vmap, sample
from sgmc_jax.bnp import (
    BetaBernoulli,
    DirichletProcess,
    LinearGaussian,
    NormalKnownCovariance,
    hybrid_features,
    hybrid_mixture,
    slice_mixture,
)
from sgmc_jax.collective import Collective

KEY = jax.random.key(5)
ITEMS = np.array([-9.0, -8.5, 0.0, 0.4, 9.0, 8.0, 0.2])[:, None]  # of two shards one is padded
DP, NORMAL = DirichletProcess(4.0), NormalKnownCovariance(0.0, 1.0, 25.0)
SAMPLERS = {
    "mixture": lambda slots: hybrid_mixture(DP, NORMAL, blocks=2, capacity=slots),
    "slices": lambda slots: slice_mixture(DP, NORMAL, capacity=slots),
    "features": lambda slots: hybrid_features(
        BetaBernoulli(3.0), LinearGaussian(1, 1.0, 3.0), blocks=2, capacity=slots
    ),
}


def check(name):
    none, one = {"features": np.zeros((7, 1), bool)}, {"assignment": np.zeros(7, np.int32)}
    start = Dist({}, none if name == "features" else one)
    args = {"num_steps": 12}
    roomy = sample(KEY, SAMPLERS[name](16), start, ITEMS, **args)
    grown = sample(KEY, SAMPLERS[name](4), start, ITEMS, engine=Vmap(2), **args)
    (here,), (there,) = (run.trace.local.values() for run in (roomy, grown))
    width = min(here.shape[-1], there.shape[-1])
    assert np.array_equal(here[..., :width], there[..., :width]), name
    assert len(np.unique(here, axis=0)) > 3 and grown.capacity > 4 and roomy.capacity == 16


@pytest.mark.parametrize(
    "name", ["mixture", "slices", pytest.param("features", marks=pytest.mark.full)]
)
def test_shards_that_grow_are_one_device_with_room(name, x64):
    check(name)


@pytest.mark.full
def test_shards_that_never_meet_are_seen(x64, monkeypatch):
    monkeypatch.setattr(Collective, "sum", lambda self, x: x)
    with pytest.raises(AssertionError, match="mixture"):
        check("mixture")
