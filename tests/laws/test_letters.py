"""Letters that keep something beside position and momentum."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import Euclidean, Full, FunctionModel, Minibatch, Splitting, sample
from sgmc_jax.transitions import EulerLangevin, Friction, GeodesicFlow, Thermostat, Transition

KEY = jax.random.key(21)
CURVATURE = jnp.array([0.5, 40.0])
GRAD = Minibatch(FunctionModel(lambda x: -0.5 * CURVATURE @ x**2), Full())
DECAY, STEP = 0.9, 0.1


class MeanSquare(Transition):
    """P: a running mean of squared gradients, which starts at 1."""

    uses_field: ClassVar[bool] = True
    uses_momentum: ClassVar[bool] = False

    def auxiliary(self, position):
        return {"mean_square": jax.tree.map(jnp.ones_like, position)}

    def __call__(self, key, phase, h, field):
        mean = DECAY * phase.auxiliary["mean_square"] + (1 - DECAY) * field**2
        return phase._replace(auxiliary=phase.auxiliary | {"mean_square": mean})


class Preconditioned(EulerLangevin):
    """L: the Euler step at a step size for each coordinate, less where gradients are large."""

    def __call__(self, key, phase, h, field):
        h = h / jnp.sqrt(phase.auxiliary["mean_square"])
        noise = jnp.sqrt(2 * self.temperature * h) * Euclidean().normal(key, phase.position)
        return phase._replace(position=phase.position + h * field + noise)


def preconditioned(temperature=1.0):
    pieces = {"P": MeanSquare(), "L": Preconditioned(temperature)}
    return Splitting("PL", pieces, GRAD, STEP, temperature=temperature)


def test_a_preconditioner_is_carried_from_step_to_step():
    """Without noise the word is a recursion in numpy: the root mean square's."""
    start = np.array([1.0, 1.0], np.float32)
    record = lambda state, info: (state.position, state.auxiliary["mean_square"])
    trace = sample(KEY, preconditioned(0.0), start, None, num_steps=5, record=record).trace
    x, square, expected = start.astype(float), np.ones(2), []
    for _ in range(5):
        gradient = -np.asarray(CURVATURE) * x
        square = DECAY * square + (1 - DECAY) * gradient**2
        x = x + STEP / np.sqrt(square) * gradient
        expected.append((x, square))
    for got, wanted in zip(trace, zip(*expected, strict=True), strict=True):
        np.testing.assert_allclose(got, np.stack(wanted), rtol=1e-4)


def forgetful():
    """The fault: a preconditioner that begins anew in each step."""
    honest = MeanSquare.__call__

    def step(self, key, phase, h, field):
        anew = phase._replace(auxiliary=self.auxiliary(phase.position))
        return honest(self, key, anew, h, field)

    return step


def test_a_preconditioner_that_is_lost_is_seen(monkeypatch):
    monkeypatch.setattr(MeanSquare, "__call__", forgetful())
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        test_a_preconditioner_is_carried_from_step_to_step()


def test_two_letters_may_not_keep_one_name():
    pieces = {"P": MeanSquare(), "Q": MeanSquare()}
    kernel = Splitting("PQ", pieces, GRAD, STEP)
    with pytest.raises(ValueError, match=r"piece 'Q' keeps \['mean_square'\], as another piece"):
        kernel.init(KEY, jnp.zeros(2), None)


def test_friction_without_a_thermostat_is_refused():
    pieces = {"A": GeodesicFlow(), "F": Friction(), "T": Thermostat(2.0)}
    states = []
    for word in ("AFT", "AF"):
        kernel = Splitting(word, pieces, GRAD, STEP)
        states.append(kernel.init(KEY, jnp.zeros(2), None))
    assert float(states[0].auxiliary["thermostat"]) == 2.0
    with pytest.raises(ValueError, match="needs a thermostat"):
        kernel.step(KEY, states[1], None)
