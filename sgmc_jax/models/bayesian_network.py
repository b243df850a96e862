"""Bayesian neural networks: any module of Equinox under Gaussian priors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from .. import _checks, _returned
from .._frames import without_frames
from .._functions import as_function
from .._types import Data, Kernel, Position
from ..collective import leading_axis
from ..combinators import draw
from ..model import Model
from ..random import log_gamma
from ._labels import log_probability
from ._predictive import as_draws, log_loss, mean_response


def _identity(outputs: PyTree) -> PyTree:
    return outputs


class BayesianNetwork(Model):
    """A neural network whose weights, in groups, have Gaussian priors of unknown precision.

        lambda_g ~ Gamma(a, rate b),   w ~ N(0, 1 / lambda_g) for each weight w of group g,
        y_i ~ p(y | network(x_i)),     by default Categorical(softmax(network(x_i))).

    The data are pairs `(x, y)`. The position is a dict: `"weights"`, the network's floating arrays
    (its own pytree, with `None` for all else), and `"log_precision"`, (G,), the logarithms of the
    lambda_g. All of it moves by gradients, or the precisions are drawn exactly given the weights::

        sghmc(Minibatch(model, batcher), h)                         gradients, of the density of
                                                                    log lambda, Jacobian included

        gibbs(                                                      Gibbs
            weights=lambda rest: sghmc(Minibatch(model.given(rest["log_precision"]), batcher), h),
            log_precision=model.precisions,
        )

    In `gibbs` the pass over all data of a `ControlVariate` is made anew in every step: let the
    weights make many between two draws, `repeat(sghmc(...), 100)`. In the curvature of log lambda_g
    there is half the number of its weights.

    Args:
        network: a module that maps the x of one item to outputs, of Flax and others a
            `FunctionNetwork`; it is not kept, but for its structure: `start` takes the weights of
            one to begin from.
        loglik: `(outputs, y) -> ()`, the log likelihood of one item; by default `y` are labels
            0, ..., K - 1 and outputs K log odds, up to a constant.
        response: `outputs -> `what `predict` averages; the probabilities by default, and with a
            `loglik` of your own the outputs themselves.
        groups: for each floating array of the network, in the order of `jax.tree.leaves`, the
            number 0, ..., G - 1 of its group; by default each is its own.
        precision_prior: the pair (a, b), positive.

    Raises:
        ValueError, TypeError: if the network is no module with floating weights, or groups or the
            prior are not as above; at `sample`'s door, if weights are of another network, it does
            not take such x, or labels are out of range.

    Example:
        >>> import equinox as eqx, jax, jax.numpy as jnp
        >>> from sgmc_jax import Minibatch, Uniform, gibbs, sample, sgld
        >>> network = eqx.nn.MLP(2, 3, 8, 1, key=jax.random.key(0))
        >>> model = BayesianNetwork(network)
        >>> x = jax.random.normal(jax.random.key(1), (100, 2))
        >>> data = x, jnp.argmax(x @ jnp.ones((2, 3)) + x[:, :1], axis=1)
        >>> def weights(rest):
        ...     return sgld(Minibatch(model.given(rest["log_precision"]), Uniform(10)), 1e-3)
        >>> kernel = gibbs(weights=weights, log_precision=model.precisions)
        >>> run = sample(jax.random.key(2), kernel, model.start(network), data, num_steps=10)
        >>> model.predict(run.trace, x).shape
        (100, 3)

    Reference:
        Nemeth and Fearnhead (2021), Stochastic gradient Markov chain Monte Carlo, section 6.2, and
        Chen, Fox and Guestrin (2014), who draw precisions.
    """

    skeleton: PyTree = eqx.field(static=True)
    buffers: PyTree
    shapes: PyTree = eqx.field(static=True)
    output_loglik: Callable
    output_response: Callable
    groups: tuple[int, ...] = eqx.field(static=True)
    precision_prior: tuple[Float[Array, ""], Float[Array, ""]]
    labels: bool = eqx.field(static=True)

    def __init__(
        self,
        network: eqx.Module,
        loglik: Callable | None = None,
        response: Callable | None = None,
        *,
        groups: Sequence[int] | None = None,
        precision_prior: Any = (1.0, 1.0),
    ):
        weights, rest = eqx.partition(_as_arrays(network), eqx.is_inexact_array)
        self.buffers, self.skeleton = eqx.partition(rest, eqx.is_array)
        self.shapes = jax.tree.map(lambda w: jax.ShapeDtypeStruct(w.shape, w.dtype), weights)
        self.labels = loglik is None
        self.output_loglik = as_function(loglik or log_probability, "loglik", ("output", "y"))
        default = jax.nn.softmax if loglik is None else _identity
        self.output_response = as_function(response or default, "response", ("output",))
        self.groups = _as_groups(groups, len(jax.tree.leaves(weights)))
        self.precision_prior = _checks.positive_pair(
            "precision_prior", precision_prior, "(shape, rate)", none=False
        )

    def start(self, network: eqx.Module) -> dict[str, Any]:
        """The position with the weights of `network`, and all precisions one."""
        weights = eqx.filter(_as_arrays(network), eqx.is_inexact_array)
        self.check_weights(weights)
        return {"weights": weights, "log_precision": jnp.zeros(self.num_groups)}

    @property
    def num_groups(self) -> int:
        """G."""
        return max(self.groups) + 1

    def outputs(self, weights: PyTree, x: PyTree) -> PyTree:
        """What the network makes of the x of one item."""
        return eqx.combine(weights, self.buffers, self.skeleton)(x)

    def squares(self, weights: PyTree) -> tuple[Float[Array, " g"], Float[Array, " g"]]:
        """The number of weights of each group, and the sum of their squares."""
        leaves, groups = jax.tree.leaves(weights), jnp.asarray(self.groups)
        # in half precision the number alone may be infinite
        dtype = jnp.promote_types(jnp.result_type(*leaves), jnp.float32)
        sums = jnp.stack([jnp.sum(jnp.square(w.astype(dtype))) for w in leaves])
        number = np.bincount(self.groups, [w.size for w in leaves])
        total = jnp.zeros(self.num_groups, dtype).at[groups].add(sums)
        return jnp.asarray(number, dtype), total

    def logprior(self, position: dict[str, Any]) -> Float[Array, ""]:
        log_precision = position["log_precision"]
        number, squares = self.squares(position["weights"])
        shape, rate = self.precision_prior
        linear = (shape + number / 2) * log_precision
        return jnp.sum(linear - jnp.exp(log_precision) * (rate + squares / 2))

    def loglik(self, position: dict[str, Any], item: PyTree) -> Float[Array, ""] | float:
        x, y = item
        return self.output_loglik(self.outputs(position["weights"], x), y)

    def response(self, position: dict[str, Any], x: PyTree) -> Shaped[Array, "n ..."]:
        """What `predict` averages, of each item at one position."""
        one = lambda x: self.output_response(self.outputs(position["weights"], x))
        return jax.vmap(one)(x)

    def given(self, log_precision: Float[Array, " g"]) -> NetworkWeights:
        """The model of the weights alone, its position, given the precisions."""
        return NetworkWeights(self, log_precision)

    def precisions(self, rest: dict[str, Any]) -> Kernel:
        """The kernel of the block `log_precision` of `gibbs`, an exact draw given the weights.

        Targets:
            `lambda_g | w ~ Gamma(a + n_g / 2, b + |w_g|^2 / 2)`, of which it draws the logarithm.
        """
        number, squares = self.squares(rest["weights"])
        shape, rate = self.precision_prior
        shape, log_rate = shape + number / 2, jnp.log(rate + squares / 2)
        dtype = jnp.result_type(*jax.tree.leaves(rest["weights"]))
        one = lambda key, data: (log_gamma(key, shape) - log_rate).astype(dtype)
        return draw(one, streams=True)

    def predict(self, draws: PyTree, x: PyTree) -> Float[Array, "n ..."]:
        """The posterior mean of the response, by default of the probabilities of the labels.

        Args:
            draws: positions of a sampler, on any leading axes.
            x: items, on the first axis.
        """
        x = jax.tree.map(jnp.asarray, without_frames("x", x))
        self._outputs_of(x)
        return mean_response(self, self._weights_of(draws), x)

    def log_loss(self, draws: PyTree, data: Data) -> Float[Array, ""]:
        """`-mean_i log p(y_i)`, where p is the posterior mean of the likelihood of its y."""
        data = without_frames("data", data)
        self._check_data(data)
        return log_loss(self, self._weights_of(draws), tuple(data))

    def check(self, position: Position, data: Data) -> None:
        if not isinstance(position, dict) or set(position) != {"weights", "log_precision"}:
            raise ValueError("position must be a dict of weights and log_precision: see `start`")
        self.check_weights(position["weights"])
        self._check_precision(position["log_precision"])
        self._check_data(data)

    def check_weights(self, weights: PyTree) -> None:
        """Raise unless they are those of such a network."""
        if not _returned.same_form(weights, self.shapes):
            raise ValueError(
                "weights must be the floating arrays of a network like the model's, "
                f"{_returned.describe(self.shapes)}, got {_returned.describe(weights)}"
            )

    def _check_precision(self, log_precision: Any) -> None:
        if jnp.shape(log_precision) != (self.num_groups,):
            raise ValueError(
                f"log_precision must have one number a group, of shape ({self.num_groups},), got "
                f"shape {jnp.shape(log_precision)}"
            )

    def _check_data(self, data: Data) -> None:
        if not isinstance(data, tuple | list) or len(data) != 2:
            raise TypeError(f"data must be a pair (x, y), got {_returned.describe(data)}")
        x, y = data[0], data[1]
        if self.labels:
            x = jax.tree.map(jnp.asarray, x)
        outputs = self._outputs_of(x)
        if not self.labels:
            return
        whole = hasattr(y, "dtype") and jnp.issubdtype(y.dtype, jnp.integer)  # a list is no array
        if not whole or jnp.shape(y) != (leading_axis(x),):
            got = f"{_returned.describe(y)} for {leading_axis(x)}"
            raise TypeError(f"y must be whole numbers, one an item, got {got}")
        if jnp.ndim(outputs) != 1:
            raise ValueError(
                "network must return the K log odds of the labels of an item, a vector, got "
                f"{_returned.describe(outputs)}; one of another output needs a loglik"
            )
        number = outputs.shape[-1]
        if _checks.certainly(lambda y: (y < 0) | (y >= number), y):
            raise ValueError(f"y must be labels 0 to {number - 1}, got {np.min(y)} to {np.max(y)}")

    def _outputs_of(self, x: PyTree) -> Any:
        """The form of the network's outputs of one item; raise unless it takes the first of x."""
        item = lambda x: jax.ShapeDtypeStruct(jnp.shape(x)[1:], jnp.result_type(x))
        one = jax.tree.map(item, x)
        try:
            return jax.eval_shape(self.outputs, self.shapes, one)
        except Exception as error:
            raise ValueError(
                f"x must be what the network takes, an item at a time, got items of "
                f"{_returned.describe(one)}: {_returned.shortened(str(error))}"
            ) from error

    def _weights_of(self, draws: PyTree) -> dict[str, Any]:
        if not isinstance(draws, dict) or "weights" not in draws:
            raise ValueError("draws must be positions, dicts with weights")
        return {"weights": as_draws(draws["weights"], self.shapes)}


class NetworkWeights(Model):
    """The weights of a `BayesianNetwork` given their precisions; see `BayesianNetwork.given`."""

    network: BayesianNetwork
    log_precision: Float[Array, " g"]

    def logprior(self, position: PyTree) -> Float[Array, ""]:
        _, squares = self.network.squares(position)
        return -0.5 * jnp.sum(jnp.exp(self.log_precision) * squares)

    def loglik(self, position: PyTree, item: PyTree) -> Float[Array, ""] | float:
        return self.network.loglik({"weights": position}, item)

    def check(self, position: Position, data: Data) -> None:
        self.network.check({"weights": position, "log_precision": self.log_precision}, data)


def _as_arrays(network: Any) -> Any:
    if not isinstance(network, eqx.Module) or not callable(network):
        raise TypeError(
            "network must be a module of Equinox with a __call__, got "
            f"{type(network).__name__}; of another library, or of a function, it is "
            "FunctionNetwork(apply, weights)"
        )
    return jax.tree.map(lambda x: jnp.asarray(x) if isinstance(x, np.ndarray) else x, network)


def _as_groups(groups: Sequence[int] | None, number: int) -> tuple[int, ...]:
    if number == 0:
        raise ValueError("network must have floating arrays, its weights, got none")
    if groups is None:
        return tuple(range(number))
    groups = tuple(groups)
    if len(groups) != number or set(groups) != set(range(len(set(groups)))):
        raise ValueError(
            f"groups must give each of the network's {number} floating arrays a number 0, 1, ..., "
            f"without gaps, got {groups}"
        )
    return groups
