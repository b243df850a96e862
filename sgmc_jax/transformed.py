"""A model in unconstrained coordinates, for positions with supports."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num, PyTree

from . import _checks, _tree
from ._estimators import Estimate
from ._types import Position
from .bijectors import Bijector, Identity, as_bijector
from .bijectors.named import NAMES
from .model import Model

_TOLERANCE = 1e-3  # of a point that goes to R^n and back, relative to the size of its leaf


class Transformed(Model):
    """A model whose parameters have supports, as a model on all of R^n.

    With x = f(z), leaf by leaf, a bijection from R^n onto the supports, it has the log density

        log p(f(z)) + log |det f'(z)|,

    and the law of f(z) is that of the model. The second term counts as prior, and gradients of the
    model's items are pulled back by the chain rule: minibatches, control variates and closed forms
    of gradients stay what they are. Kernels know z alone; `unconstrain` makes a start of it, and
    `constrain` makes the user's coordinates of draws.

    Args:
        model: a model, whose position has constrained leaves. Densities of correlation and
            covariance matrices are with respect to their entries below the diagonal, or on and
            below it, as those of LKJ and Wishart laws are; those of the simplex to all but the
            last, as a Dirichlet's.
        constraints: the supports, a pytree that is a prefix of the position, such as a dict by
            name. What a dict does not name is unconstrained, as is `None`. A support is one of

            - `"positive"`: x = exp(z), as numpyro's; `"greater_than(a)"`, `"less_than(b)"`:
              x = a + exp(z), b - exp(z);
            - `"unit_interval"`, `"interval(a, b)"` or `Interval(a, b)` with arrays of bounds:
              a sigmoid;
            - `"simplex"`: K proportions along the last axis, by breaking a stick, of K - 1 numbers;
            - `"ordered"`: increasing along the last axis, by exponentials of increments;
            - `"correlation"`, `"covariance"`: matrices, by their Cholesky factors, of
              d (d - 1) / 2 and d (d + 1) / 2 numbers; `"correlation_cholesky"`: the factors;
            - a constraint of `numpyro.distributions.constraints`, by its `biject_to`;
            - a bijector: one of `sgmc_jax.bijectors`, or an object with methods `forward`,
              `inverse` and `forward_log_det_jacobian`, or a transform of numpyro.

    Raises:
        ValueError: if a name is none of these, or the position has no part of that name.
        TypeError: if `model` is not a `Model`, or a constraint is none.

    Example: the scale of a normal law, from its logarithm.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Full, FunctionModel, Minibatch, hmc, sample
        >>> normal = FunctionModel(
        ...     lambda x: -x["scale"],
        ...     lambda x, y: -0.5 * ((y - x["mean"]) / x["scale"]) ** 2 - jnp.log(x["scale"]),
        ... )
        >>> model = Transformed(normal, {"scale": "positive"})
        >>> data = 5.0 + 2.0 * jax.random.normal(jax.random.key(0), (200,))
        >>> start = model.unconstrain({"mean": jnp.array(4.0), "scale": jnp.array(1.0)})
        >>> kernel = hmc(Minibatch(model, Full()), 0.03)
        >>> args = {"num_steps": 1_000, "burn_in": 100}
        >>> draws = model.constrain(sample(jax.random.key(1), kernel, start, data, **args).trace)
        >>> draws["scale"].shape, bool(abs(draws["scale"].mean() - 1.95) < 0.1)
        ((900,), True)

    Reference:
        The Stan reference manual, constraint transforms (Carpenter et al. 2017), with the formulas
        of numpyro's `biject_to`.
    """

    unconstrained: ClassVar[bool] = True

    model: Model
    constraints: PyTree

    def __init__(self, model: Model, constraints: Any):
        if not isinstance(model, Model):
            raise TypeError(
                f"model must be a Model, such as FunctionModel(logprior, loglik), got "
                f"{type(model).__name__}"
            )
        self.model = model
        self.constraints = jax.tree_util.tree_map_with_path(
            lambda path, c: as_bijector(f"constraints{jax.tree_util.keystr(path)}", c),
            constraints,
            is_leaf=lambda c: not isinstance(c, dict | list | tuple),
        )

    @property
    def of_series(self) -> bool:
        return self.model.of_series

    @property
    def differentiable(self) -> bool:
        return self.model.differentiable

    def constrain(self, position: Position) -> Position:
        """The user's position of unconstrained numbers, or of any number of draws of them: what the
        model makes of its own, which is `forward(position)`.

        Args:
            position: unconstrained, with any leading axes, such as chains and draws: `run.trace`.
        """
        return self.model.constrain(self.forward(position))

    def forward(self, position: Position) -> Position:
        """f(z), to which `NumpyroModel.constrain` adds deterministic sites."""
        return self._map(lambda bijector, z, where: bijector.forward(z), position)

    def unconstrain(self, position: Position) -> Position:
        """The unconstrained numbers of a position of the model, with any leading axes.

        Args:
            position: the model's own, inside the supports.

        Raises:
            ValueError: if a leaf is outside its support, or on its boundary.
        """
        _checks.arrays("position", position)
        _checks.real_position(position)
        return self._map(_inverse, position)

    def log_det(self, position: Position) -> Float[Array, ""]:
        """log |det f'(z)| at unconstrained numbers z."""
        parts = [bijector.log_det(z) for bijector, z, _ in self._parts(position)]
        return sum(parts[1:], parts[0]) if parts else jnp.zeros(())

    def logprior(self, position: Position) -> Float[Array, ""]:
        return self.model._logprior(self.forward(position)) + self.log_det(position)

    def loglik(self, position: Position, item: PyTree) -> Float[Array, ""]:
        return self.model.loglik(self.forward(position), item)

    def loglik_batch(self, position: Position, items: PyTree) -> Float[Array, " n"]:
        return self.model.loglik_batch(self.forward(position), items)

    def logdensity(self, position: Position, data: PyTree) -> Float[Array, ""]:
        return self.model.logdensity(self.forward(position), data) + self.log_det(position)

    def weighted_sum(self, position: Position, items: PyTree, weight: Num[Array, " n"]) -> Estimate:
        x, pull = jax.vjp(self.forward, position)
        there = self.model.weighted_sum(x, items, weight)
        return Estimate(pull(_like(there.value, x))[0], there.logdensity)

    def per_item(self, position: Position, items: PyTree) -> PyTree:
        x, pull = jax.vjp(self.forward, position)
        each = self.model.per_item(x, items)
        return jax.vmap(lambda gradient: pull(_like(gradient, x))[0])(each)

    def check(self, position: Position, data: PyTree) -> None:
        self.model.check(self.forward(position), data)

    def _map(self, function: Any, position: Position) -> Position:
        """`function(bijector, leaf, where)` for each leaf."""
        leaves = [function(*part) for part in self._parts(position)]
        return jax.tree.unflatten(jax.tree.structure(position), leaves)

    def _parts(self, position: Position) -> list[tuple[Bijector, Num[Array, "..."], str]]:
        """Each leaf with its bijector and its name."""
        _checks.arrays("position", position)
        used, parts = set(), []
        for path, leaf in jax.tree_util.tree_leaves_with_path(position):
            bijector, depth = _found(self.constraints, path)
            used.add(_names(path[:depth]))
            parts.append((bijector, jnp.asarray(leaf), jax.tree_util.keystr(path)))
        given = jax.tree_util.tree_leaves_with_path(self.constraints, is_leaf=_is_bijector)
        for path, _ in given:
            if _names(path) not in used:
                raise ValueError(
                    f"position must have a part constraints{jax.tree_util.keystr(path)}, got the "
                    f"structure {jax.tree.structure(position)}"
                )
        return parts


def holds_supports(kernel: PyTree) -> bool:
    """Whether a kernel's positions are unconstrained numbers behind a model's parameters."""
    is_one = lambda x: isinstance(x, Model) and x.unconstrained
    return any(map(is_one, jax.tree.leaves(kernel, is_leaf=is_one)))


def _found(constraints: PyTree, path: tuple) -> tuple[Bijector, int]:
    """The bijector of the leaf at a path, and at which depth of the constraints it stands."""
    for depth, name in enumerate(_names(path)):
        if _is_bijector(constraints):
            return constraints, depth
        if isinstance(constraints, dict):
            constraints = constraints.get(name, Identity())
        elif hasattr(constraints, "_fields") and isinstance(name, str):
            constraints = getattr(constraints, name, Identity())
        else:
            inside = isinstance(name, int) and name < len(constraints)
            constraints = constraints[name] if inside else Identity()
    return (constraints if _is_bijector(constraints) else Identity()), len(path)


def _names(path: tuple) -> tuple:
    """The keys of a path: names, indices."""
    return tuple(
        getattr(key, "key", getattr(key, "name", getattr(key, "idx", None))) for key in path
    )


def _is_bijector(x: Any) -> bool:
    return isinstance(x, Bijector)


def _inverse(bijector: Bijector, x: Float[Array, "..."], where: str) -> Float[Array, "..."]:
    z = _tree.strong(bijector.inverse(x))
    if all(map(_checks.is_concrete, (x, z))):
        back, size = np.asarray(bijector.forward(z)), np.max(np.abs(np.asarray(x)), initial=1e-30)
        # a rounding of z is one of x times z, where x is an exponential
        rounding = float(jnp.finfo(z.dtype).eps) * np.max(np.abs(z), initial=1.0)
        slack = max(_TOLERANCE, 2 * rounding) * size
        inside = back.shape == x.shape and np.all(np.abs(back - x) <= slack)
        if not (np.all(np.isfinite(z)) and inside):
            raise ValueError(
                f"position{where} must be inside the support of {_describe(bijector)}, got {x}"
            )
    return z


def _describe(bijector: Bijector) -> str:
    """By the name that a user may have given, too."""
    kind = type(getattr(bijector, "bijector", bijector))
    names = (f"{name!r}, " for name, make in NAMES.items() if make is kind)
    return next(names, "") + kind.__name__


def _like(gradient: PyTree, x: PyTree) -> PyTree:
    """In the precision of the position, which that of the items may differ from."""
    return jax.tree.map(lambda g, x: g.astype(x.dtype), gradient, x)
