"""Trajectories of Hamilton's equations, and the Metropolis test that makes them exact."""

from __future__ import annotations

from functools import partial
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float

from . import _checks
from ._estimators import Estimator
from ._types import Data, Key, as_keys
from .combinators import Metropolis, metropolis, repeat
from .combinators.repeat import Repeat
from .spaces import Space
from .splitting import Splitting, SplittingInfo, SplittingState
from .transitions import GeodesicFlow, GradientKick


class Jittered(Repeat):
    """Steps of a word as one step, all of the size h (1 + jitter U), U uniform on [-1, 1].

    U knows nothing of the state, so a test that is right for every h is right for this.
    """

    kernel: Splitting
    jitter: Float[Array, ""] = eqx.field(kw_only=True)

    def step(
        self, key: Key, state: SplittingState, data: Data
    ) -> tuple[SplittingState, SplittingInfo]:
        keys = as_keys(key)
        u = jax.random.uniform(keys.fold(self.num_steps).noise, minval=-1.0)
        size = lambda word: word.step_size
        word = eqx.tree_at(size, self.kernel, replace_fn=lambda h: h * (1 + self.jitter * u))
        return Repeat(word, self.num_steps, self.merge).step(keys, state, data)


def leapfrog(
    grad: Estimator,
    step_size: Any,
    num_steps: int,
    space: Space | None = None,
    *,
    jitter: Any = 0.0,
) -> Metropolis:
    """Hamiltonian Monte Carlo, of which `hmc` tells more: the word BAB, repeated, then a test.

    Args:
        grad: an exact estimator with a log density.
        step_size: h > 0, a number: a trajectory of steps that shrink cannot be run backwards.
        num_steps: the number of leapfrog steps.
        space: where positions live, R^n by default; a metric of its own is the mass of a momentum.
        jitter: the largest relative change of h, which each trajectory draws anew.
    """
    if callable(step_size):
        raise TypeError(
            "step_size must be a number: with a schedule a trajectory cannot be run backwards, and "
            "the Metropolis test is wrong"
        )
    jitter = _checks.one_number("jitter", jitter)
    if _checks.certainly(lambda jitter: ~((0 <= jitter) & (jitter < 1)), jitter):
        raise ValueError(f"jitter must be in [0, 1), got {_checks.shown(jitter)}")
    word = Splitting("BAB", {"A": GeodesicFlow(), "B": GradientKick()}, grad, step_size, space)
    moves = repeat(word, num_steps)
    if not _checks.certainly(lambda jitter: jitter == 0, jitter):
        moves = Jittered(word, num_steps, moves.merge, jitter=jitter)
    energy, redraw = partial(_energy, space=word.space), partial(_redraw, space=word.space)
    return metropolis(moves, energy, redraw)


def _energy(state: SplittingState, space: Space) -> Float[Array, ""]:
    if state.gradient.logdensity is None:
        raise TypeError("grad must tell the log density, as that of a model does, for the test")
    return -state.gradient.logdensity + space.squared_norm(state.position, state.momentum) / 2


def _redraw(key: Any, state: SplittingState, space: Space) -> SplittingState:
    return state._replace(momentum=space.normal(key, state.position))
