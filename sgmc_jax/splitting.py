"""A sampler as a word of exactly solvable pieces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree

from . import _checks, _returned, _tree
from ._estimators import Estimate, Estimator
from ._types import Data, Kernel, Key, Keys, Position, as_keys, split
from .collective import holds_collective
from .contract import Contract, Cost, times
from .spaces import Euclidean, Space
from .spaces.space import as_space
from .transitions import Phase, Transition, check_phase
from .transitions.noise import add_counts
from .transitions.word import (
    auxiliaries,
    carries,
    check_noise,
    check_start,
    check_word,
    estimate_keys,
    num_estimates,
    told_to,
)


class SplittingState(NamedTuple):
    """Where a chain is.

    `auxiliary` is what the pieces keep, by name, e.g. a thermostat; `gradient` the estimate at
    `position` where the word carries it to the next step, else `None`; `estimator` the estimator's
    own state; `count` the index of the next step; `temperature` that of the next step, to which the
    momentum belongs, or `None` without a momentum.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Full, FunctionModel, Minibatch, sgld
        >>> kernel = sgld(Minibatch(FunctionModel(lambda x: -0.5 * x @ x), Full()), 0.1)
        >>> state = kernel.init(jax.random.key(0), jnp.zeros(2), None)
        >>> state.position.tolist(), state.momentum, int(state.count)
        ([0.0, 0.0], None, 0)
    """

    position: Position
    momentum: Any
    auxiliary: dict[str, PyTree]
    gradient: Any
    estimator: PyTree
    count: Int[Array, ""]
    temperature: Any = None


class SplittingInfo(NamedTuple):
    """The norm of the last estimate; the step size, if it is scheduled; and the number of noise
    eigenvalues clipped at zero, if a noise covariance is subtracted, plus that of components of
    the estimate raised to a floor, if it has one (a float: of several steps the mean). What is not
    is `None`.

    `excess_temperature` is by how much the chain is too hot, relative to T, in the mean over the
    coordinates: with momenta |v|^2 / (d T) - 1, the kinetic temperature, in the metric of the
    space; for Euler's overdamped step h |g|^2 / (2 d T), less what is subtracted of V, and h g' P g
    / (2 d T) where P preconditions it, or G^-1 of a metric; in dual coordinates the drift takes the
    place of g. In the mean over steps both are, to first order in h, the relative excess of the
    variance that the noise V of the gradient makes, which is h V / (2 C T) with friction C, h V /
    (2 T) without momenta. The step size adds h L / 2 of the curvature L to the latter, as to the
    variance, and h^2 L / 4 to the former, in a word like ABOBA without any in the position.
    (Thermostats hold the kinetic temperature at T.) It is `None` where there is no such number: of
    `scir`, `sgrld_simplex` and `geometric_ornstein_uhlenbeck`, and of a `recipe` with a curl or an
    energy. `weight`, in averages, is a scheduled step size, but 0 while a scheduled temperature is.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Full, FunctionModel, Minibatch, sgld
        >>> init, step = sgld(Minibatch(FunctionModel(lambda x: -0.5 * x @ x), Full()), 0.1)
        >>> state = init(jax.random.key(0), jnp.array([3.0, 4.0]), None)
        >>> info = jax.jit(step)(jax.random.key(1), state, None)[1]
        >>> float(info.gradient_norm), info.clipped
        (5.0, None)
    """

    gradient_norm: Float[Array, ""]
    step_size: Any = None
    clipped: Any = None
    excess_temperature: Any = None
    weight: Any = None


class Splitting(Kernel):
    """The kernel that runs through a word, letter by letter.

    A letter that occurs c times runs each time for h / c. The gradient is estimated anew iff the
    position has moved since the last estimate; a word that ends where the next begins, such as
    BAOAB, carries it in the state.

    Args:
        word: a string of letters.
        pieces: the transition behind each letter.
        grad: the estimator of the gradient of the log density (or of any field the pieces use).
        step_size: h, a number or a function of the step index.
        space: where positions live; every piece is handed it in its phase.
        temperature: the variance of the initial momentum, a number or a function of the step index.

    Raises:
        ValueError: if a letter has no piece or none that can move on the space, or another
            temperature than the word, the step size is not positive, or a noise covariance exceeds
            the sampler's noise or cannot be subtracted from it; at `sample`'s door, if the position
            is off its space.

    Example: BAOAB, spelled out.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Full, FunctionModel, Minibatch
        >>> from sgmc_jax.transitions import GeodesicFlow, GradientKick, OrnsteinUhlenbeck
        >>> grad = Minibatch(FunctionModel(lambda x: -0.5 * x @ x), Full())
        >>> pieces = {"A": GeodesicFlow(), "B": GradientKick(), "O": OrnsteinUhlenbeck(1.0)}
        >>> init, step = Splitting("BAOAB", pieces, grad, 0.1)
        >>> state = init(jax.random.key(0), jnp.zeros(2), None)
        >>> state, info = step(jax.random.key(1), state, None)

    Reference:
        Leimkuhler and Matthews (2013), Rational construction of stochastic numerical methods for
        molecular sampling, for the words; Chen, Ding and Carin (2015) for stochastic gradients.
    """

    word: str = eqx.field(static=True)
    pieces: dict[str, Transition]
    grad: Estimator
    step_size: Float[Array, ""] | Callable
    space: Space
    temperature: Float[Array, ""] | Callable

    def __init__(
        self,
        word: str,
        pieces: Mapping[str, Transition],
        grad: Estimator,
        step_size: Any,
        space: Space | None = None,
        *,
        temperature: Any = 1.0,
    ):
        _checks.estimator("grad", grad)
        _checks.positive("step_size", step_size)
        _checks.positive("temperature", temperature, zero=True)
        check_word(word, pieces)
        self.word = word
        self.pieces = {letter: pieces[letter] for letter in sorted(set(word))}
        self.step_size = _checks.as_schedule("step_size", step_size)
        _checks.positive("step_size", self.step_size)  # also in the precision that is kept
        self.space = Euclidean() if space is None else as_space(space)
        self.grad = told_to(self.pieces, grad, self.space)
        self.temperature = _checks.as_schedule("temperature", temperature)
        estimated = type(grad).__name__ if grad.tells_covariance else None
        check_noise(word, self.pieces, grad, estimated, self.temperature)
        for letter, piece in self.pieces.items():
            if piece.straight and not (self.space.embedded and isinstance(self.space, Euclidean)):
                name = f"piece {letter!r}, {type(piece).__name__},"
                raise ValueError(f"{name} moves in straight lines and needs a Euclidean space")
            h = self.step_size if callable(self.step_size) else self.step_size / word.count(letter)
            piece.check(h, self.space, estimated)

    def init(self, key: Key, position: Position, data: Data) -> SplittingState:
        _checks.real_position(position)
        position, keys = _tree.strong(position), as_keys(key)
        count = jnp.asarray(0 if keys.count is None else keys.count, jnp.int32)
        init_key, momentum_key, gradient_key = jax.random.split(keys.noise, 3)
        momentum = temperature = None
        if any(piece.uses_momentum for piece in self.pieces.values()):
            temperature = self._temperature(count)
            momentum = self._draw_momentum(momentum_key, position, temperature)
        auxiliary = auxiliaries(self.pieces, position)
        estimator = self.grad.init(init_key, position, data)
        state = SplittingState(position, momentum, auxiliary, None, estimator, count, temperature)
        return self._with_gradient(keys._replace(noise=gradient_key), state, data)

    def refresh(self, key: Key, state: SplittingState, data: Data) -> SplittingState:
        # on a flat space the law of a momentum does not know the position; else it is tangent there
        return self._renewed(self.grad.refresh, as_keys(key), state, data, not self.space.flat)

    def retarget(self, key: Key, state: SplittingState, data: Data) -> SplittingState:
        # a metric of the space's own may be another one with other blocks, and the law with it
        stale = not (self.space.flat and self.space.embedded)
        return self._renewed(self.grad.retarget, as_keys(key), self._heated(state), data, stale)

    def made_with(self) -> PyTree:
        # the letters' kinds, for they keep what others do not; no numbers of theirs, and no step
        # size, so that a run may go on with others
        kinds = {letter: piece.kind for letter, piece in self.pieces.items()}
        return self.word, kinds, self.grad, self.space, self.temperature

    def _heated(self, state: SplittingState) -> SplittingState:
        """The state at this kernel's temperature: the law of v / sqrt(T) knows no other block, and
        a momentum at T = 0, which has no law to scale, stays."""
        if state.momentum is None:
            return state
        now = self._temperature(state.count)
        ratio = jnp.where(state.temperature > 0, now / state.temperature, 1.0)
        momentum = _tree.scale(jnp.sqrt(ratio), state.momentum)
        return state._replace(momentum=momentum, temperature=now)

    def _renewed(
        self, renew: Callable, keys: Keys, state: SplittingState, data: Data, stale: bool
    ) -> SplittingState:
        """The state at a position that something else has moved; its momentum may be stale."""
        momentum_key, estimator_key, gradient_key = jax.random.split(keys.noise, 3)
        if state.momentum is not None and stale:
            temperature = self._temperature(state.count)
            momentum = self._draw_momentum(momentum_key, state.position, temperature)
            state = state._replace(momentum=momentum)
        own = renew(keys._replace(noise=estimator_key), state.estimator, state.position, data)
        state = state._replace(estimator=own)
        return self._with_gradient(keys._replace(noise=gradient_key), state, data)

    def _draw_momentum(self, key: Any, position: Position, temperature: Float[Array, ""]) -> PyTree:
        return _tree.scale(jnp.sqrt(temperature), self.space.normal(key, position))

    def _with_gradient(self, keys: Keys, state: SplittingState, data: Data) -> SplittingState:
        """The state with the gradient at its position, if the word carries it."""
        if not self._carries:
            return state
        gradient, estimator = self._estimate(keys, state.estimator, state.position, data)
        return state._replace(gradient=gradient, estimator=estimator)

    def step(
        self, key: Key, state: SplittingState, data: Data
    ) -> tuple[SplittingState, SplittingInfo]:
        keys = as_keys(key)
        count = state.count if keys.count is None else keys.count
        h = _checks.scheduled("step_size", self.step_size, count)
        phase, gradient, estimator, heat = self._run(keys, state, data, h, count)
        scheduled = h if callable(self.step_size) else None
        clipped = add_counts(phase.clipped, None if gradient is None else gradient.clipped)
        temperature = self._temperature(count)
        hot = jnp.where(temperature > 0, 1.0 if scheduled is None else h, 0.0)
        weight = hot if callable(self.temperature) else scheduled
        following = jnp.asarray(count + 1, state.count.dtype)
        state = SplittingState(
            position=phase.position,
            momentum=phase.momentum,
            auxiliary=phase.auxiliary,
            gradient=gradient if self._carries else None,
            estimator=estimator,
            count=following,
            temperature=None if phase.momentum is None else self._temperature(following),
        )
        excess = _excess(phase, heat, temperature)
        return state, SplittingInfo(_norm(gradient), scheduled, clipped, excess, weight)

    def _run(
        self, keys: Keys, state: SplittingState, data: Data, h: Float[Array, ""], count: Any
    ) -> tuple[Phase, Estimate | None, PyTree, Float[Array, ""] | None]:
        """The word: where it ends, with the last estimate, its estimator's state and the heat."""
        letters = {letter: piece.at(count) for letter, piece in self.pieces.items()}
        pieces = [letters[letter] for letter in self.word]
        noise_keys = iter(split(keys.noise, max(1, sum(piece.random for piece in pieces))))
        draws = iter(estimate_keys(keys, num_estimates(pieces)))
        gradient, fresh, estimator, heat = state.gradient, self._carries, state.estimator, None
        covariance = gradient.covariance if fresh else None
        phase = Phase(state.position, state.momentum, state.auxiliary, self.space, covariance)
        for letter, piece in zip(self.word, pieces, strict=True):
            if piece.uses_field and not fresh:
                gradient, estimator = self._estimate(next(draws), estimator, phase.position, data)
                told = {"covariance": gradient.covariance, "curvature": gradient.curvature}
                phase, fresh = phase._replace(**told), True
            field = gradient.value if piece.uses_field else None
            time = h / self.word.count(letter)
            moved = piece(next(noise_keys) if piece.random else None, phase, time, field)
            check_phase(letter, piece, phase, moved)
            own = piece.excess(phase, time, field)
            heat = heat if own is None else own
            phase, fresh = moved, fresh and not piece.moves
        return phase, gradient, estimator, heat

    def _temperature(self, count: Int[Array, ""] | int) -> Float[Array, ""]:
        return _checks.scheduled("temperature", self.temperature, count)

    def contract(self, position: Position) -> Contract:
        grad, estimates = self.grad, num_estimates(self._in_turn)
        told = {"streams": grad.streams, "stands_for": grad.stands_for, "moves": estimates}
        given = any(piece.subtracts for piece in self.pieces.values())
        told |= {"cost": times(estimates, grad.cost), "subtracts": given or grad.tells_covariance}
        carried = (grad.cost if self._carries else None) or Cost()
        told |= {"refreshing": carried, "retargeting": carried.plus(grad.renewal)}
        free = self.space.flat and not any(piece.bounded for piece in self.pieces.values())
        return Contract(shards=holds_collective(grad), free=free, **told)

    def finite(self, state: SplittingState) -> Bool[Array, ""]:
        return _tree.all_finite((state.position, state.momentum))

    def weight(self, info: SplittingInfo, state: SplittingState) -> Float[Array, "..."] | None:
        # of several steps in one the position is the last one's: in a search it does not count
        cold = callable(self.temperature) and self._temperature(state.count - 1) <= 0
        return None if info.weight is None else jnp.where(cold, 0.0, info.weight)

    def check(self, position: Position, data: Data) -> None:
        _checks.real_position(position)
        _check_first(step_size=self.step_size, temperature=self.temperature)
        self.space.check(position)
        h = _checks.scheduled("step_size", self.step_size, jnp.zeros((), jnp.int32))
        check_start(self.word, self.pieces, position, h)
        self.grad.check(position, data)

    def _estimate(
        self, key: Key, estimator: PyTree, position: Position, data: Data
    ) -> tuple[Estimate, PyTree]:
        """The estimate at the position, and shaped like it."""
        estimate, estimator = self.grad.estimate(key, estimator, position, data)
        name = f"the estimate of {type(self.grad).__name__}"
        _returned.like(name, estimate.value, position, "the position")
        if not self.grad.tells_covariance:
            estimate = estimate._replace(covariance=None)
        return estimate, estimator

    @property
    def _in_turn(self) -> list[Transition]:
        return [self.pieces[letter] for letter in self.word]

    @property
    def _carries(self) -> bool:
        return carries(self._in_turn)


def _check_first(**schedules: Any) -> None:
    """Raise if the first value of a schedule is negative."""
    for name, schedule in schedules.items():
        if callable(schedule):
            first = _checks.scheduled(name, schedule, jnp.zeros((), jnp.int32))
            _checks.positive(f"{name}(0)", first, zero=True)


def _norm(gradient: Estimate | None) -> Float[Array, ""]:
    return jnp.zeros(()) if gradient is None else optax.tree.norm(gradient.value)


def _excess(
    phase: Phase, heat: Float[Array, ""] | None, temperature: Float[Array, ""]
) -> Float[Array, ""] | None:
    """The momenta's, or that of the last letter that tells: relative to T, 0 where T = 0."""
    if phase.momentum is not None and (dim := phase.space.dim(phase.position)):
        square = phase.space.squared_norm(phase.position, phase.momentum)
        heat = square / dim - temperature
    return None if heat is None else heat / jnp.where(temperature > 0, temperature, jnp.inf)
