"""The Metropolis test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float

from .. import _returned
from .._functions import as_function
from .._types import Data, Kernel, Key, Keys, Position, as_keys
from ..contract import Contract
from ..random import accept
from ._common import require_kernel, with_position


class MetropolisState(NamedTuple):
    """The position and the proposal kernel's state there.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Full, FunctionModel, Minibatch, hmc
        >>> kernel = hmc(Minibatch(FunctionModel(lambda x: -0.5 * x @ x), Full()), 0.3)
        >>> state = kernel.init(jax.random.key(0), jnp.ones(2), None)
        >>> state.position.tolist(), state.inner.position.tolist()
        ([1.0, 1.0], [1.0, 1.0])
    """

    position: Position
    inner: Any


class MetropolisInfo(NamedTuple):
    """The acceptance probability, whether the proposal was taken, its energy minus the old, and the
    energy of where the step ends.

    Example:
        >>> import jax.numpy as jnp
        >>> info = MetropolisInfo(jnp.exp(-0.5), accepted=True, energy_error=0.5, energy=3.0)
        >>> round(float(info.acceptance), 4)
        0.6065
    """

    acceptance: Float[Array, ""]
    accepted: Bool[Array, ""]
    energy_error: Float[Array, ""]
    energy: Float[Array, ""]


class Metropolis(Kernel):
    """See `metropolis`.

    Example:
        >>> from sgmc_jax import Full, FunctionModel, Minibatch, hmc
        >>> kernel = hmc(Minibatch(FunctionModel(lambda x: -0.5 * x @ x), Full()), 0.3)
        >>> isinstance(kernel, Metropolis), type(kernel.kernel).__name__
        (True, 'Jittered')
    """

    kernel: Kernel
    energy: Callable = eqx.field(converter=as_function)
    redraw: Callable = eqx.field(converter=as_function)

    def init(self, key: Key, position: Position, data: Data) -> MetropolisState:
        inner = self.kernel.init(key, position, data)
        return MetropolisState(inner.position, inner)

    def step(
        self, key: Key, state: MetropolisState, data: Data
    ) -> tuple[MetropolisState, MetropolisInfo]:
        keys = as_keys(key)
        redraw_key, move_key, accept_key = jax.random.split(keys.noise, 3)
        start = self.redraw(redraw_key, state.inner)
        _returned.like("redraw", start, state.inner, "the state")
        end, _ = self.kernel.step(Keys(move_key, keys.batch, keys.count), start, data)
        after, before = (_returned.scalar("energy", self.energy(state)) for state in (end, start))
        error = after - before
        error = jnp.where(jnp.isnan(error), jnp.inf, error)  # a diverged proposal is refused
        accepted = accept(accept_key, -error)
        inner = optax.tree.where(accepted, end, start)
        energy = jnp.where(accepted, after, before)
        info = MetropolisInfo(jnp.exp(-jnp.maximum(error, 0)), accepted, error, energy)
        return MetropolisState(inner.position, inner), info

    def refresh(self, key: Key, state: MetropolisState, data: Data) -> MetropolisState:
        inner = self.kernel.refresh(key, with_position(state.inner, state.position), data)
        return MetropolisState(state.position, inner)

    def retarget(self, key: Key, state: MetropolisState, data: Data) -> MetropolisState:
        inner = self.kernel.retarget(key, with_position(state.inner, state.position), data)
        return MetropolisState(state.position, inner)

    def made_with(self) -> Any:
        return Metropolis, self.kernel.made_with()

    def contract(self, position: Position) -> Contract:
        # the two energies would be of two batches
        return self.kernel.contract(position)._replace(streams=False)

    def finite(self, state: MetropolisState) -> Bool[Array, ""]:
        return self.kernel.finite(state.inner)

    def check(self, position: Position, data: Data) -> None:
        self.kernel.check(position, data)


def metropolis(kernel: Kernel, energy: Callable, redraw: Callable) -> Metropolis:
    """A Metropolis test around a reversible, volume-preserving, deterministic kernel.

    The auxiliary part of the state (the momentum) is drawn anew, the kernel moves, and the move is
    accepted with probability min(1, exp(energy(before) - energy(after))).

    Targets:
        exp(-energy), exactly, to the rounding of the energy: in float32 one of 1e7 is known to a
        nat, and of a run of such `Run.summary` says so. A step that diverges is refused.

    Args:
        kernel: its step, followed by a change of sign of the momentum, must be its own inverse, and
            preserve volume; e.g. `repeat` of the word BAB.
        energy: `state -> ()`, minus the log density of position and momentum.
        redraw: `(key, state) -> state` with the momentum drawn anew from its conditional law.

    Example: Hamiltonian Monte Carlo by hand.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Full, FunctionModel, Minibatch, Splitting, repeat, sample
        >>> from sgmc_jax.transitions import GeodesicFlow, GradientKick
        >>> grad = Minibatch(FunctionModel(lambda x: -0.5 * x @ x), Full())
        >>> word = Splitting("BAB", {"A": GeodesicFlow(), "B": GradientKick()}, grad, 0.3)
        >>> energy = lambda s: -s.gradient.logdensity + 0.5 * s.momentum @ s.momentum
        >>> redraw = lambda key, s: s._replace(momentum=jax.random.normal(key, (2,)))
        >>> kernel = metropolis(repeat(word, 5), energy, redraw)
        >>> run = sample(jax.random.key(0), kernel, jnp.zeros(2), None, num_steps=10)
        >>> run.trace.shape, bool(run.info.acceptance.mean() > 0.9)
        ((10, 2), True)

    Reference:
        Duane, Kennedy, Pendleton and Roweth (1987), Hybrid Monte Carlo.
    """
    require_kernel(kernel)
    energy = as_function(energy, "energy", ("state",))
    return Metropolis(kernel, energy, as_function(redraw, "redraw", ("key", "state")))
