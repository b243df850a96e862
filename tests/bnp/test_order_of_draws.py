"""The order of a step's draws: weights are drawn by the hyper-parameters that it has just drawn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax.bnp import (
    BetaBernoulli,
    GammaPoisson,
    LinearGaussian,
    NormalKnownCovariance,
    PitmanYor,
    hybrid_features,
    hybrid_mixture,
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
