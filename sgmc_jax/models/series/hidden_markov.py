"""Hidden Markov models."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from ... import _checks, _returned
from ..._types import Position
from ...arrays import product
from ...batching import SeriesWindow
from . import forward_backward as recursions
from .emissions import Emission
from .series_model import SeriesModel, initial_row, whole_series, with_gradient_of


class Chain(NamedTuple):
    """The law of the hidden chain: log P, log pi, and the log of the law of the first state."""

    transition: Float[Array, "k k"]
    stationary: Float[Array, " k"]
    initial: Float[Array, " k"]


class HiddenMarkov(SeriesModel):
    """Rows y_t of a series given hidden states x_t = 0, ..., K - 1, which are a Markov chain.

        x_t ~ P[x_{t-1}],   y_t ~ emission(w_{x_t}),   P[i] ~ Dirichlet(alpha_i)

    The position is a dict of unconstrained arrays,

        transition: (K, K - 1), log(P_ij / P_ii) for j != i, in the order of j;
        emission: the pytree of the emission's parameters, with a leading axis of states,

    and the prior has the Jacobian of this map: sum_ij alpha_ij log P_ij. States are summed out by
    the forward-backward algorithm in logarithms. The data are the series, rows first, and a batch
    is windows of it: `Minibatch(model, Window(50, buffer=10))`; `Minibatch(model, Window(None))`
    for the exact gradient of all rows. The bias of a buffer of B rows is of order rho^B, with rho
    the contraction of the transitions weighted by the likelihood, in both directions.

    Labels can be permuted without changing the density: a chain that stays in one order has one
    order's posterior, or order what it draws.

    Args:
        num_states: K, at least 2.
        emission: an `Emission`, such as `NormalEmission()`.
        concentration: alpha > 0, a number, or (K, K).
        initial: (K,) the probabilities of the first state of the series; `None` for the stationary
            law of P, with its gradient.

    Raises:
        TypeError: if `emission` is no `Emission`; if the items are not windows.
        ValueError: if a number is out of its range, the position of other shapes, or rows have not
            the shape of one state's parameters.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import ControlVariate, Minibatch, Window, sample, sgld
        >>> from sgmc_jax.models import NormalEmission
        >>> model = HiddenMarkov(2, NormalEmission())
        >>> emission = {"mean": jnp.array([-1.0, 1.0]), "log_scale": jnp.zeros(2)}
        >>> start = model.position(jnp.array([[0.9, 0.1], [0.2, 0.8]]), emission)
        >>> states, series = model.simulate(jax.random.key(0), start, 200)
        >>> grad = ControlVariate(Minibatch(model, Window(10, buffer=5)), start)
        >>> run = sample(jax.random.key(1), sgld(grad, 1e-4), start, series, num_steps=20)
        >>> model.transition_matrix(start).round(2).tolist()
        [[0.9, 0.1], [0.2, 0.8]]

    Reference:
        Ma, Foti and Fox (2017), Stochastic gradient MCMC methods for hidden Markov models, section
        3. Their gradient is that of one point of the recursions, which by Fisher's identity is the
        expectation here; the state before an interior window has its stationary law here, and the
        pair of it with the first row counts.
    """

    unconstrained: ClassVar[bool] = True

    num_states: int = eqx.field(static=True)
    emission: Emission
    concentration: Float[Array, "..."]
    initial: Float[Array, " k"] | None

    def __init__(
        self,
        num_states: int,
        emission: Emission,
        concentration: Any = 1.0,
        initial: Any = None,
    ):
        _checks.whole("num_states", num_states, 2)
        if not isinstance(emission, Emission):
            raise TypeError(
                f"emission must be an Emission such as NormalEmission(), got "
                f"{type(emission).__name__}"
            )
        _checks.positive("concentration", concentration)
        self.num_states = num_states
        self.emission = emission
        self.concentration = _checks.as_real(concentration, "concentration")
        if self.concentration.shape not in ((), (num_states, num_states)):
            raise ValueError(
                f"concentration must be a number or of shape {(num_states, num_states)}, got shape "
                f"{self.concentration.shape}"
            )
        self.initial = None if initial is None else _probabilities(initial, num_states)

    # -- the density

    def logprior(self, position: Position) -> Float[Array, ""]:
        transition = self._log_transition(position)
        logprior = lambda each: _returned.scalar("logprior", self.emission.logprior(each))
        of_rows = jax.vmap(logprior)(self._emission(position))
        return jnp.sum(self.concentration * transition) + jnp.sum(of_rows)

    def log_likelihood(self, position: Position, series: PyTree) -> Float[Array, ""]:
        chain, window = self._chain(position), whole_series(series)
        logliks = self._row_logliks(position, window)
        return jnp.sum(recursions.forward(chain.initial, chain.transition, logliks)[0])

    def window_loglik(self, position: Position, window: SeriesWindow) -> Float[Array, ""]:
        chain, share = self._chain(position), window.share
        logliks = self._row_logliks(position, window)
        law = jax.lax.stop_gradient(self._smoothed(chain, window, logliks))
        moves = jnp.sum(law.pairs * chain.transition, axis=(1, 2))
        first = jnp.where(law.states[0] > 0, chain.initial, 0)  # -inf where it cannot begin
        begins = jnp.sum(law.states[0] * first)
        moves = jnp.where(initial_row(window), begins, moves)
        possible = jnp.where(law.states > 0, logliks, 0)  # -inf where a state cannot emit the row
        terms = moves + jnp.sum(law.states * possible, axis=1)
        share = share.astype(terms.dtype)
        return with_gradient_of(product(share, law.predictive), product(share, terms))

    def check(self, position: Position, data: PyTree) -> None:
        self.emission.check(data)

    # -- states

    def smoothed(self, position: Position, series: PyTree) -> Float[Array, "t k"]:
        """P(x_t = k | all rows)."""
        window = whole_series(series)
        logliks = self._row_logliks(position, window)
        return self._smoothed(self._chain(position), window, logliks).states

    def most_likely(self, position: Position, series: PyTree) -> Int[Array, " t"]:
        """The most probable path of states given all rows, by Viterbi's algorithm."""
        chain, logliks = self._chain(position), self._row_logliks(position, whole_series(series))
        return recursions.most_likely(chain.initial, chain.transition, logliks)

    def simulate(
        self, key: Any, position: Position, length: int
    ) -> tuple[Int[Array, " t"], PyTree]:
        """States and a series of `length` rows: the pair `states, series`."""
        _checks.random_key(key)
        _checks.whole("length", length)
        chain, (first_key, key, row_key) = self._chain(position), jax.random.split(key, 3)

        def move(state: Int[Array, ""], key: Any) -> tuple[Int[Array, ""], Int[Array, ""]]:
            return jax.random.categorical(key, chain.transition[state]), state

        first = jax.random.categorical(first_key, chain.initial)
        states = jax.lax.scan(move, first, jax.random.split(key, length))[1]
        parameters = jax.tree.map(lambda w: jnp.asarray(w)[states], self._emission(position))
        return states, jax.vmap(self.emission.sample)(jax.random.split(row_key, length), parameters)

    # -- the position

    def position(self, transition: Float[Array, "k k"], emission: PyTree) -> dict[str, PyTree]:
        """The position of a matrix of transition probabilities and the emission's parameters.

        Args:
            transition: (K, K), positive, of rows that sum to one.
            emission: unconstrained, with a leading axis of states.
        """
        size = self.num_states
        if np.shape(transition) != (size, size):
            raise ValueError(
                f"transition must be of shape {(size, size)}, got {np.shape(transition)}"
            )
        emission = jax.tree.map(lambda w: _checks.as_real(w, "emission"), emission)
        return {"transition": _logits(transition), "emission": emission}

    def transition_matrix(self, position: Position) -> Float[Array, "k k"]:
        """P."""
        return jnp.exp(self._log_transition(position))

    def constrain(self, position: Position) -> dict[str, PyTree]:
        """P, and the parameters of the emission as its own `constrain` tells them.

        Args:
            position: with any leading axes, such as chains and draws: `run.trace`.
        """
        _check_parts(position)
        transition = jnp.exp(self._log_probabilities(jnp.asarray(position["transition"])))
        emission = jax.tree.map(jnp.asarray, position["emission"])
        return {"transition": transition, "emission": self.emission.constrain(emission)}

    def unconstrain(self, position: dict[str, PyTree]) -> dict[str, PyTree]:
        """The position, with any leading axes, of what `constrain` tells."""
        _check_parts(position)
        emission = jax.tree.map(lambda w: _checks.as_real(w, "emission"), position["emission"])
        size, shape = self.num_states, np.shape(position["transition"])
        if shape[-2:] != (size, size):
            raise ValueError(f"transition must end in the shape {(size, size)}, got {shape}")
        transition = _logits(position["transition"])
        return {"transition": transition, "emission": self.emission.unconstrain(emission)}

    def _log_transition(self, position: Position) -> Float[Array, "k k"]:
        _check_parts(position)
        logits, wanted = position["transition"], (self.num_states, self.num_states - 1)
        if jnp.shape(logits) != wanted:
            raise ValueError(
                f"position['transition'] must be of shape {wanted}, got {jnp.shape(logits)}"
            )
        return self._log_probabilities(logits)

    def _log_probabilities(self, logits: Float[Array, "*n k l"]) -> Float[Array, "*n k k"]:
        """log P, of one position or of many."""
        size, lead = self.num_states, logits.shape[:-2]
        if logits.shape[-2:] != (size, size - 1):
            wanted = (size, size - 1)
            raise ValueError(
                f"position['transition'] must end in the shape {wanted}, got {logits.shape}"
            )
        rows, columns = _off_diagonal(size)
        full = jnp.zeros((*lead, size, size), logits.dtype)
        full = full.at[..., rows, columns].set(logits.reshape(*lead, -1))
        return jax.nn.log_softmax(full, axis=-1)

    def _chain(self, position: Position) -> Chain:
        transition = self._log_transition(position)
        law = recursions.stationary(jnp.exp(transition))
        # in float32 a state that is hardly ever visited may come out below zero
        law = jnp.log(jnp.maximum(law, jnp.finfo(law.dtype).tiny))
        initial = law if self.initial is None else jnp.log(self.initial.astype(law.dtype))
        return Chain(transition, law, initial)

    def _emission(self, position: Position) -> PyTree:
        parameters = position["emission"]
        for path, leaf in jax.tree_util.tree_leaves_with_path(parameters):
            if jnp.shape(leaf)[:1] != (self.num_states,):
                where = f"position['emission']{jax.tree_util.keystr(path)}"
                raise ValueError(
                    f"{where} must have a leading axis of {self.num_states} states, got shape "
                    f"{jnp.shape(leaf)}"
                )
        return parameters

    def _row_logliks(self, position: Position, window: SeriesWindow) -> Float[Array, "t k"]:
        """log p(y_t | x_t = k), 0 for padding."""

        def loglik(parameters: PyTree, row: PyTree) -> Float[Array, ""]:
            name = f"loglik of {type(self.emission).__name__}"
            return _returned.scalar(name, self.emission.loglik(parameters, row))

        self.emission.check(window.rows)
        of_states = jax.vmap(loglik, (0, None))
        logliks = jax.vmap(of_states, (None, 0))(self._emission(position), window.rows)
        return jnp.where(window.real[:, None], logliks, 0)

    def _smoothed(
        self, chain: Chain, window: SeriesWindow, logliks: Float[Array, "t k"]
    ) -> recursions.Smoothed:
        first = jnp.where(window.first, chain.initial, chain.stationary)
        return recursions.smooth(chain.stationary, first, chain.transition, logliks)


def _check_parts(position: Any) -> None:
    if not isinstance(position, dict) or set(position) != {"transition", "emission"}:
        raise ValueError(
            'position of HiddenMarkov must be a dict of "transition" and "emission", as its method '
            f"`position` makes it, got {jax.tree.map(jnp.shape, position)}"
        )


def _logits(transition: Float[Array, "*n k k"]) -> Float[Array, "*n k l"]:
    """log P_ij / P_ii for j != i."""
    if _checks.is_concrete(transition):
        _checks.probabilities("transition", transition, 1e-4)
    log_p = jnp.log(jnp.asarray(transition))
    *lead, size, _ = log_p.shape
    rows, columns = _off_diagonal(size)
    logits = log_p[..., rows, columns] - jnp.diagonal(log_p, axis1=-2, axis2=-1)[..., rows]
    return logits.reshape(*lead, size, size - 1)


def _off_diagonal(size: int) -> tuple[np.ndarray, np.ndarray]:
    rows, columns = np.nonzero(~np.eye(size, dtype=bool))
    return rows, columns


def _probabilities(initial: Any, num_states: int) -> Float[Array, " k"]:
    if np.shape(initial) != (num_states,):
        raise ValueError(f"initial must be of shape ({num_states},), got {np.shape(initial)}")
    right = lambda p: (np.min(p) >= 0) & (abs(np.sum(p, dtype=np.float64) - 1) <= 1e-4)
    if _checks.certainly(lambda p: not right(p), initial):
        raise ValueError(
            f"initial must be probabilities, which sum to one, got {_checks.shown(initial)}"
        )
    return _checks.as_real(initial, "initial")
