"""The order of a step's draws: weights are drawn by the hyper-parameters that it has just drawn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax.bnp import (
    BetaBernoulli,
    BetaProcess,
    GammaPoisson,
    Groups,
    HierarchicalDirichletProcess,
    LinearGaussian,
    NormalKnownCovariance,
    PitmanYor,
    auxiliary_mixture,
    hybrid_features,
    hybrid_hdp,
    hybrid_mixture,
    slice_bnb,
    slice_features,
    slice_mixture,
)
from sgmc_jax.processes import bondesson

KEY, NEW = jax.random.key(0), jnp.float32(0.625)
NORMAL, LINEAR = NormalKnownCovariance(0.0, 1.0, 4.0), LinearGaussian(1)
PROCESS = PitmanYor(1.0, 0.3)
CASES = {
    "hybrid mixture": (hybrid_mixture(PROCESS, NORMAL, blocks=2), "draw_weights"),
    "slice mixture": (slice_mixture(PROCESS, NORMAL), "draw_atoms"),
    "hybrid features": (hybrid_features(BetaBernoulli(1.0), LINEAR, blocks=2), "draw_weights"),
    "counts": (hybrid_features(GammaPoisson(1.0), LINEAR), "draw_weights"),
    "slice features": (slice_features(BetaBernoulli(1.0), LINEAR), "draw_weights"),
}


def step(kernel, data):
    """A step that is traced, not run."""
    return jax.eval_shape(lambda data: kernel.step(KEY, kernel.init(KEY, None, data), data), data)


@pytest.mark.parametrize("name", CASES)
def test_weights_know_the_new_hyper_parameters(name, monkeypatch):
    kernel, method = CASES[name]
    process = kernel.process if hasattr(kernel, "process") else kernel.model.process
    process = getattr(process, "process", process)
    kind, changed = type(process), list(process.start())[0]
    honest, told = getattr(kind, method), []

    def redraw(self, key, hyper, *args):
        return hyper | {changed: NEW}

    def spied(self, key, hyper, *args):
        told.append(hyper[changed] is NEW)
        return honest(self, key, hyper, *args)

    monkeypatch.setattr(kind, "redraw", redraw)
    monkeypatch.setattr(kind, method, spied)
    step(kernel, np.zeros((5, 1), np.float32))
    assert told and all(told)


def test_places_know_the_new_hyper_parameters(monkeypatch):
    """Those of the features in use, and those of the empty ones."""
    kernel, told = slice_features(BetaBernoulli(1.0, 2.0), LINEAR), []
    kind = type(bondesson(BetaBernoulli(1.0, 2.0).measure(BetaBernoulli(1.0, 2.0).start())))

    def spied(honest):
        def method(self, *args):
            told.append(float(self.measure.mass))
            return honest(self, *args)

        return method

    new = lambda self, key, hyper, *args: hyper | {"mass": NEW}
    monkeypatch.setattr(BetaBernoulli, "redraw", new)
    for name in ("lift", "log_tau"):
        monkeypatch.setattr(kind, name, spied(getattr(kind, name)))
    step(kernel, np.zeros((5, 1), np.float32))
    assert len(told) >= 2 and set(told) == {0.625}


def test_weights_of_groups_know_the_new_concentration(monkeypatch):
    kind, told = HierarchicalDirichletProcess, []
    honest = kind.draw_weights

    def spied(self, key, a, tables):
        told.append(a is NEW)
        return honest(self, key, a, tables)

    monkeypatch.setattr(kind, "redraw", lambda self, key, h, *args: h | {"concentration": NEW})
    monkeypatch.setattr(kind, "draw_weights", spied)
    kernel = hybrid_hdp(kind(1.0, 1.0), NORMAL)
    groups = Groups(np.zeros((3, 2, 1), np.float32), np.array([2, 1, 2]))
    step(kernel, groups)
    assert told and all(told)


def test_weights_of_failures_know_the_new_mass(monkeypatch):
    kernel, told = slice_bnb(BetaProcess(0.9, 2.0), NORMAL), []
    honest = type(kernel)._weights

    def spied(self, shared, shard):
        told.append(shared["mass"] is NEW)
        return honest(self, shared, shard)

    new = lambda self, key, shared, *args: shared | {"mass": NEW}
    groups = Groups(jnp.zeros((3, 2, 1)), jnp.array([2, 1, 2]))
    state = jax.eval_shape(lambda: kernel.init(KEY, None, groups))
    monkeypatch.setattr(type(kernel), "_redraw_mass", new)
    monkeypatch.setattr(type(kernel), "_weights", spied)
    jax.eval_shape(lambda state: kernel.step(KEY, state, groups), state)
    assert told and all(told)


def test_visits_know_the_new_concentration(monkeypatch):
    kernel, told = auxiliary_mixture(PROCESS, NORMAL), []
    honest = type(kernel)._visit

    def spied(self, key, family, hyper, *args):
        told.append(hyper["concentration"] is NEW)
        return honest(self, key, family, hyper, *args)

    new = lambda self, key, hyper, *args: hyper | {"concentration": NEW}
    monkeypatch.setattr(PitmanYor, "redraw", new)
    monkeypatch.setattr(type(kernel), "_visit", spied)
    step(kernel, np.zeros((5, 1), np.float32))
    assert told and all(told)
