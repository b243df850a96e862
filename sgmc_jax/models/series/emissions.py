"""What a hidden state emits: laws of a row of the series given the state, with their priors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from ... import _checks, _returned
from ..._functions import as_optional, function_of
from ...count_densities import log_poisson
from ...random import poisson


class Emission(eqx.Module):
    """The law of a row given the hidden state, and the prior of its parameters.

    Parameters are a pytree of unconstrained arrays, of one state here; in the position of a
    `HiddenMarkov` they have a leading axis of states.

    Example: waiting times of rate exp(parameters).
        >>> import jax.numpy as jnp
        >>> class Exponential(Emission):
        ...     def logprior(self, parameters):
        ...         return -0.5 * parameters**2
        ...
        ...     def loglik(self, parameters, row):
        ...         return parameters - jnp.exp(parameters) * row
        >>> float(Exponential().loglik(jnp.array(0.0), 2.0))
        -2.0
    """

    @abstractmethod
    def logprior(self, parameters: PyTree) -> Float[Array, ""]:
        """The log prior density of one state's parameters, with the Jacobian."""

    @abstractmethod
    def loglik(self, parameters: PyTree, row: PyTree) -> Float[Array, ""]:
        """The log density of one row in one state."""

    def check(self, rows: PyTree) -> None:
        """Raise if concrete rows, with a leading axis, have values that are never emitted."""

    def constrain(self, parameters: PyTree) -> PyTree:
        """Parameters, with any leading axes, in the coordinates that users think in."""
        return parameters

    def unconstrain(self, parameters: PyTree) -> PyTree:
        """The inverse of `constrain`, with any leading axes."""
        return parameters

    def sample(self, key: Any, parameters: PyTree) -> PyTree:
        """One row of one state."""
        raise TypeError(f"{type(self).__name__} has no sample")


class NormalEmission(Emission):
    """Normal rows of unknown mean and scale; the entries of a vector are independent.

        y ~ N(mean, exp(log_scale)^2),   mean ~ N(m, s^2),   exp(-2 log_scale) ~ Gamma(a, rate b)

    Parameters: `{"mean": shape of a row, "log_scale": the same}`.

    Args:
        mean: m, a number or one for each entry of a row; of all states alike.
        scale: s > 0, a standard deviation, likewise.
        precision_prior: a, b > 0.

    Raises:
        ValueError, TypeError: if a number is out of its range; if rows, means and scales are not of
            one shape.

    Example:
        >>> import jax.numpy as jnp
        >>> parameters = {"mean": jnp.array(1.0), "log_scale": jnp.array(0.0)}
        >>> round(float(NormalEmission().loglik(parameters, 1.0)), 4)
        -0.9189
    """

    mean: Float[Array, "..."] = eqx.field(converter=_checks.real("mean"), default=0.0)
    scale: Float[Array, "..."] = eqx.field(converter=_checks.real("scale"), default=10.0)
    precision_prior: Any = (1.0, 1.0)

    def __post_init__(self):
        _checks.positive("scale", self.scale)
        self.precision_prior = _checks.positive_pair(
            "precision_prior", self.precision_prior, "(shape, rate)", none=False
        )

    def logprior(self, parameters: PyTree) -> Float[Array, ""]:
        mean, log_scale = _named(self, parameters, "mean"), _named(self, parameters, "log_scale")
        a, b = self.precision_prior
        _checks.within("mean", self.mean, mean)
        _checks.within("scale", self.scale, mean)
        of_mean = -0.5 * ((mean - self.mean) / self.scale) ** 2
        return jnp.sum(of_mean - 2 * a * log_scale - b * jnp.exp(-2 * log_scale))

    def loglik(self, parameters: PyTree, row: PyTree) -> Float[Array, ""]:
        mean, log_scale = _named(self, parameters, "mean"), _named(self, parameters, "log_scale")
        _one_shape("NormalEmission", row, mean=mean, log_scale=log_scale)
        return jnp.sum(jax.scipy.stats.norm.logpdf(row, mean, jnp.exp(log_scale)))

    def constrain(self, parameters: PyTree) -> PyTree:
        """`{"mean": ..., "scale": ...}`, the latter a standard deviation."""
        mean, log_scale = _named(self, parameters, "mean"), _named(self, parameters, "log_scale")
        return {"mean": mean, "scale": jnp.exp(log_scale)}

    def unconstrain(self, parameters: PyTree) -> PyTree:
        mean, scale = _named(self, parameters, "mean"), _named(self, parameters, "scale")
        _checks.positive("scale", scale)
        return {"mean": mean, "log_scale": jnp.log(scale)}

    def sample(self, key: Any, parameters: PyTree) -> PyTree:
        mean, log_scale = _named(self, parameters, "mean"), _named(self, parameters, "log_scale")
        return mean + jnp.exp(log_scale) * jax.random.normal(key, jnp.shape(mean))


class PoissonEmission(Emission):
    """Counts, independent for the entries of a vector.

        y ~ Poisson(exp(log_rate)),   exp(log_rate) ~ Gamma(a, rate b)

    Parameters: `{"log_rate": shape of a row}`.

    Args:
        rate_prior: a, b > 0.

    Raises:
        ValueError, TypeError: if a number is out of its range; if rows and rates are not of one
            shape, or rows no counts.

    Example:
        >>> import jax.numpy as jnp
        >>> float(PoissonEmission().loglik({"log_rate": jnp.array(0.0)}, 1))  # log(1 / e)
        -1.0
    """

    rate_prior: Any = (1.0, 1.0)

    def __post_init__(self):
        self.rate_prior = _checks.positive_pair(
            "rate_prior", self.rate_prior, "(shape, rate)", none=False
        )

    def logprior(self, parameters: PyTree) -> Float[Array, ""]:
        (a, b), log_rate = self.rate_prior, _named(self, parameters, "log_rate")
        return jnp.sum(a * log_rate - b * jnp.exp(log_rate))

    def loglik(self, parameters: PyTree, row: PyTree) -> Float[Array, ""]:
        log_rate = _named(self, parameters, "log_rate")
        _one_shape("PoissonEmission", row, log_rate=log_rate)
        row = jnp.asarray(row, log_rate.dtype)
        return jnp.sum(log_poisson(row, log_rate))

    def constrain(self, parameters: PyTree) -> PyTree:
        """`{"rate": ...}`."""
        return {"rate": jnp.exp(_named(self, parameters, "log_rate"))}

    def unconstrain(self, parameters: PyTree) -> PyTree:
        rate = _named(self, parameters, "rate")
        _checks.positive("rate", rate)
        return {"log_rate": jnp.log(rate)}

    def check(self, rows: PyTree) -> None:
        _numbers("PoissonEmission", rows)
        if _checks.certainly(lambda y: (y < 0) | (y != np.floor(y)), rows):
            raise ValueError(
                "the series must be of counts 0, 1, 2, ... for PoissonEmission, got "
                f"{_checks.shown(rows)}"
            )

    def sample(self, key: Any, parameters: PyTree) -> PyTree:
        return poisson(key, jnp.exp(_named(self, parameters, "log_rate")))


class CategoricalEmission(Emission):
    """One of V symbols, a whole number from 0 on.

        P(y = v) = softmax(0, logits)_v,   softmax(0, logits) ~ Dirichlet(beta)

    Parameters: `{"logits": (V - 1,)}`, those of the symbols after the first, relative to it.

    Args:
        num_symbols: V, at least 2.
        concentration: beta > 0, a number, or (V,).

    Raises:
        ValueError, TypeError: if a number is out of its range; if rows are no such symbols, or
            there is not a logit for each but the first.

    Example:
        >>> import jax.numpy as jnp
        >>> emission, even = CategoricalEmission(4), {"logits": jnp.zeros(3)}
        >>> round(float(jnp.exp(emission.loglik(even, 2))), 4)
        0.25
    """

    num_symbols: int = eqx.field(static=True)
    concentration: Float[Array, "..."] = eqx.field(
        converter=_checks.real("concentration"), default=1.0
    )

    def __check_init__(self):
        _checks.whole("num_symbols", self.num_symbols, 2)
        _checks.positive("concentration", self.concentration)
        if self.concentration.shape not in ((), (self.num_symbols,)):
            raise ValueError(
                f"concentration must be a number or of shape ({self.num_symbols},), got shape "
                f"{self.concentration.shape}"
            )

    def log_probabilities(self, parameters: PyTree) -> Float[Array, " V"]:
        """log P(y = v), (V,)."""
        logits = _named(self, parameters, "logits")
        if jnp.shape(logits) != (self.num_symbols - 1,):
            raise ValueError(
                f"logits must be of shape ({self.num_symbols - 1},) in each state, num_symbols "
                f"less one, got {jnp.shape(logits)}"
            )
        return jax.nn.log_softmax(jnp.pad(logits, (1, 0)))

    def logprior(self, parameters: PyTree) -> Float[Array, ""]:
        return jnp.sum(self.concentration * self.log_probabilities(parameters))

    def loglik(self, parameters: PyTree, row: PyTree) -> Float[Array, ""]:
        _one_shape("CategoricalEmission", row, symbol=0)
        return self.log_probabilities(parameters)[row]

    def constrain(self, parameters: PyTree) -> PyTree:
        """`{"probabilities": (..., V)}`."""
        logits = _named(self, parameters, "logits")
        full = jnp.concatenate([jnp.zeros_like(logits[..., :1]), logits], axis=-1)
        return {"probabilities": jax.nn.softmax(full)}

    def unconstrain(self, parameters: PyTree) -> PyTree:
        value = _named(self, parameters, "probabilities")
        if _checks.is_concrete(value):
            _checks.probabilities("probabilities", value, 1e-4)
        log_p = jnp.log(value)
        return {"logits": log_p[..., 1:] - log_p[..., :1]}

    def check(self, rows: PyTree) -> None:
        _numbers("CategoricalEmission", rows)
        last = self.num_symbols - 1
        if not jnp.issubdtype(jnp.result_type(rows), jnp.integer):
            raise TypeError(f"the series must be of whole numbers, got {_returned.describe(rows)}")
        if _checks.certainly(lambda y: (y < 0) | (y > last), rows):
            raise ValueError(
                f"the series must be of symbols 0 to {last} for CategoricalEmission, got "
                f"{np.min(rows)} to {np.max(rows)}"
            )

    def sample(self, key: Any, parameters: PyTree) -> PyTree:
        return jax.random.categorical(key, self.log_probabilities(parameters))


class FunctionEmission(Emission):
    """An emission made of your own log densities.

    Args:
        prior_function: `parameters -> ()`, the log prior of one state's parameters.
        loglik_function: `(parameters, row) -> ()`, the log density of one row in one state.
        sample_function: `(key, parameters) -> row`, for `HiddenMarkov.simulate` alone.

    Example:
        >>> import jax.numpy as jnp
        >>> exponential = FunctionEmission(lambda w: -0.5 * w**2, lambda w, y: w - jnp.exp(w) * y)
        >>> float(exponential.loglik(jnp.array(0.0), 2.0))
        -2.0
    """

    prior_function: Callable = eqx.field(converter=function_of("prior_function", "parameters"))
    loglik_function: Callable = eqx.field(
        converter=function_of("loglik_function", "parameters", "row")
    )
    sample_function: Callable | None = eqx.field(
        converter=lambda f: as_optional(f, "sample_function", ("key", "parameters")), default=None
    )

    def logprior(self, parameters: PyTree) -> Float[Array, ""] | float:
        return self.prior_function(parameters)

    def loglik(self, parameters: PyTree, row: PyTree) -> Float[Array, ""] | float:
        return self.loglik_function(parameters, row)

    def sample(self, key: Any, parameters: PyTree) -> PyTree:
        if self.sample_function is None:
            return super().sample(key, parameters)
        return self.sample_function(key, parameters)


def _named(emission: Emission, parameters: PyTree, name: str) -> Float[Array, "..."]:
    """The parameter of that name."""
    if not isinstance(parameters, dict) or name not in parameters:
        raise TypeError(
            f"parameters of {type(emission).__name__} must be a dict with {name!r}, got "
            f"{_returned.describe(parameters)}"
        )
    return parameters[name]


def _numbers(name: str, rows: PyTree) -> None:
    dtype = _returned.dtype_of(rows)
    if dtype is None:
        raise TypeError(f"the series must be one array for {name}, got {_returned.describe(rows)}")
    if jnp.issubdtype(dtype, jnp.complexfloating):
        raise TypeError(f"the series must be of real numbers for {name}, got {dtype}")


def _one_shape(name: str, row: PyTree, **parameters: Float[Array, "..."] | int) -> None:
    """Raise unless a row has the shape of one state's parameters: it would broadcast."""
    _numbers(name, row)
    shapes = {key: jnp.shape(value) for key, value in parameters.items()}
    if set(shapes.values()) != {jnp.shape(row)}:
        raise ValueError(
            f"rows of the series must have the shape of one state's parameters for {name}, got "
            f"rows of shape {jnp.shape(row)} and parameters of shapes {shapes}"
        )
