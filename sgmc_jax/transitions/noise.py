"""Gaussian noise from which the noise of a stochastic gradient has been subtracted."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, Num, PyTree

from .. import _checks, _returned, _tree
from .._types import Position
from ..arrays import product
from ..random.normal import normal_like
from ..spaces import Space
from .symmetric import check_symmetric, eigen, is_square
from .transition import Phase, Transition


class NoiseCovariance(eqx.Module):
    """The covariance V of a stochastic gradient's noise, by its eigenvalues and eigenvectors.

    Relative to a matrix C = R R' they are those of `R^-1 V R^-T = U diag(w) U'`, with the basis
    B = R U: then B B' = C and B diag(w) B' = V, and a C + b V has the root B diag(a + b w)^(1/2).

    Args:
        covariance: `None` (no correction), a number (V = number times the identity), a pytree like
            the position (a diagonal V), or a square matrix over the raveled position. It is the
            covariance of the estimate of the *total* gradient.
        root: R, (d, d), or `None` for the identity.

    Raises:
        ValueError: if V is not symmetric, has a negative eigenvalue or is not of the size of R.

    Example:
        >>> NoiseCovariance(3.0).matrix(2).tolist()
        [[3.0, 0.0], [0.0, 3.0]]

    Reference:
        Chen, Fox and Guestrin (2014), Stochastic gradient Hamiltonian Monte Carlo, who subtract an
        estimate of h V / 2 from the friction.
    """

    eigenvalues: PyTree | None
    basis: Float[Array, "d d"] | None
    root: Float[Array, "d d"] | None

    def __init__(self, covariance: Any = None, root: Float[Array, "d d"] | None = None):
        root = None if root is None else _checks.as_real(root, "root")
        if root is not None and not is_square(root):
            raise ValueError(f"root must be a square matrix, got shape {root.shape}")
        self.eigenvalues, self.basis, self.root = None, root, root
        if covariance is None:
            return
        covariance = jax.tree.map(_checks.real("noise_covariance"), covariance)
        if not all(leaf.size for leaf in jax.tree.leaves(covariance)):
            raise ValueError("noise_covariance must have numbers, got an array without any")
        is_matrix = isinstance(covariance, jax.Array) and is_square(covariance)
        if is_matrix:
            check_symmetric("noise_covariance", covariance)
        if is_matrix or root is not None:
            matrix = covariance if root is None else _as_matrix(covariance, len(root))
            self.eigenvalues, self.basis = _diagonalised(matrix, root)
        else:
            self.eigenvalues = covariance
        for leaf in jax.tree.leaves(self.eigenvalues):
            _checks.positive("noise_covariance", leaf, zero=True)

    def estimated(self, covariance: PyTree, position: Position) -> NoiseCovariance:
        """That of an estimate of V, a pytree like the position or (d, d); relative to the same R.

        No value is looked at: a chain whose estimate is not finite is stopped by its position.
        """
        if self.root is not None or _is_matrix(covariance, position):
            eigenvalues, basis = _diagonalised(estimated_matrix(covariance, position), self.root)
        else:
            eigenvalues, basis = covariance, None
        where = lambda c: (c.eigenvalues, c.basis)
        return eqx.tree_at(where, self, (eigenvalues, basis), is_leaf=lambda x: x is None)

    def check(self, position: Position) -> None:
        """Raise unless it is as large as the position."""
        if self.root is not None:
            check_size("friction", self.root, position)
        if self.eigenvalues is None or self.root is not None:
            return
        if self.basis is not None:
            if getattr(position, "shape", None) == self.basis.shape != (1, 1):
                raise ValueError(
                    "noise_covariance of a position that is one square matrix is taken for the "
                    "matrix over the raveled position: for the variances of its entries let both "
                    'be in a dict, such as {"x": position}'
                )
            check_size("noise_covariance", self.basis, position)
            return
        if jax.tree.structure(self.eigenvalues) == jax.tree.structure(position):
            # a number is the variance of all of its leaf
            own = lambda e, x: jnp.shape(e) or jnp.shape(x)
            got = jax.tree.map(own, self.eigenvalues, position)
            wanted = jax.tree.map(jnp.shape, position)
        elif _tree.is_number(self.eigenvalues):
            return
        else:
            got, wanted = map(_returned.describe, (self.eigenvalues, position))
        if got != wanted:
            raise ValueError(f"noise_covariance must have the shape {wanted}, got {got}")

    def __call__(
        self, key: Any, space: Space, x: Position, variance: Callable[[Any], Float[Array, "..."]]
    ) -> PyTree:
        """A tangent normal at `x` of covariance `variance(V)`, negative eigenvalues set to zero.

        Args:
            variance: maps an eigenvalue of V to one of the wanted covariance, relative to C.
        """

        def deviation(eigenvalue: Any) -> Float[Array, "..."]:
            return jnp.sqrt(jnp.maximum(variance(eigenvalue), 0))

        value = 0.0 if self.eigenvalues is None else self.eigenvalues
        if self.basis is None and (self.eigenvalues is None or _tree.is_number(value)):
            return _tree.scale(deviation(value), space.normal(key, x))
        ambient = normal_like(key, x)
        if self.basis is None:
            scaled = jax.tree.map(lambda e, z: deviation(e).astype(z.dtype) * z, value, ambient)
        else:
            flat, unravel = ravel_pytree(ambient)
            basis = self.basis.astype(flat.dtype)
            scaled = unravel(product(basis, deviation(value).astype(flat.dtype) * flat))
        return space.push(x, scaled)

    def clipped(self, variance: Callable[[Any], Float[Array, "..."]]) -> Int[Array, ""] | None:
        """The number of eigenvalues that are set to zero; `None` where there is no V."""
        counts = [
            jnp.sum(variance(leaf) < 0, dtype=jnp.int32)
            for leaf in jax.tree.leaves(self.eigenvalues)
        ]
        return sum(counts[1:], counts[0]) if counts else None

    def mean(
        self, position: Position, variance: Callable[[Any], Float[Array, "..."]]
    ) -> Float[Array, ""]:
        """The mean over the coordinates of the noise's variance, of a V without a root."""
        of = lambda v: jnp.maximum(variance(v), 0)
        if self.eigenvalues is None or _tree.is_number(self.eigenvalues):
            return of(0.0 if self.eigenvalues is None else self.eigenvalues)
        if self.basis is not None:
            return jnp.mean(of(self.eigenvalues))
        total = jax.tree.map(
            lambda v, x: jnp.sum(jnp.broadcast_to(of(v), x.shape)), self.eigenvalues, position
        )
        return jnp.asarray(optax.tree.sum(total)) / _tree.size(position)

    def matrix(self, size: int) -> Float[Array, "d d"] | None:
        """V over the raveled position, of `size` numbers; `None` where it is 0."""
        if self.eigenvalues is None:
            return None
        known = self.eigenvalues if self.basis is None else (self.basis * self.eigenvalues)
        return _as_matrix(known if self.basis is None else product(known, self.basis.T), size)

    def over(self, position: Position) -> Float[Array, " d"] | Float[Array, "d d"] | None:
        """V over the raveled position, its diagonal where it has no more; `None` where it is 0."""
        if self.eigenvalues is None or self.basis is not None:
            return self.matrix(_tree.size(position))
        known = _tree.filled(self.eigenvalues, position)
        own = jax.tree.map(lambda e, x: jnp.broadcast_to(e, jnp.shape(x)), known, position)
        return ravel_pytree(own)[0]


def known_covariance() -> Any:
    """The field `noise_covariance` of a letter."""
    kind = _checks.of_kind("noise_covariance", NoiseCovariance)
    return eqx.field(converter=kind, default=NoiseCovariance())


class CorrectedTransition(Transition):
    """A transition with noise that makes up for that of a stochastic gradient.

    Subclasses have a field `noise_covariance`; it is theirs, because it comes after their own. What
    an estimator tells of it, in the phase, takes its place.
    """

    random: ClassVar[bool] = True
    corrects: ClassVar[bool] = True

    @abstractmethod
    def least_variance(self, h: Any, space: Space) -> Float[Array, ""]:
        """The least variance of the noise in any direction, where V is given."""

    def check(self: Any, h: Any, space: Space, estimated: str | None = None) -> None:
        """Raise if at a constant step size the noise would need a negative variance.

        A covariance that is given is one of ambient gradients, for an embedded space alone; one
        that is estimated may be one of components in a space's frame.
        """
        leaves = jax.tree.leaves(self.noise_covariance.eigenvalues)
        if leaves and estimated:
            raise ValueError(f"noise_covariance must be None: {estimated} estimates it")
        if self.noise_covariance.root is not None:
            check_embedded("friction cannot be a matrix", space)
        if leaves or (estimated and not space.framed):
            check_embedded("noise_covariance cannot be subtracted", space)
        if callable(h) or callable(self.temperature) or not leaves:
            return
        largest = lambda *leaves: max(np.max(np.asarray(leaf)) for leaf in leaves)
        below = lambda least, *leaves: least < -1e-6 * np.asarray(h) ** 2 * largest(*leaves)
        if _checks.certainly(below, self.least_variance(h, space), *leaves):
            of = "" if self.noise_covariance.root is None else ", relative to the friction,"
            raise ValueError(
                f"noise_covariance exceeds the noise of the sampler at step_size {h}: its largest "
                f"eigenvalue{of} is {largest(*leaves):.4g}. Decrease step_size, or reduce the "
                "noise of the gradient"
            )

    def check_position(self: Any, position: Position) -> None:
        """Raise if the covariance does not fit the position."""
        self.noise_covariance.check(position)


class NoisyTransition(CorrectedTransition):
    """One whose noise has a variance for each eigenvalue of V."""

    @abstractmethod
    def variance(self, h: Any, v: Any) -> Float[Array, "..."]:
        """The variance of the noise where the gradient's noise has variance `v`."""

    def noise(
        self: Any, key: Any, phase: Phase, h: Float[Array, ""]
    ) -> tuple[PyTree, Float[Array, ""] | None]:
        """The noise of a time `h`, and what is clipped until then."""
        covariance, variance = self.known(phase), partial(self.variance, h)
        noise = covariance(key, phase.space, phase.position, variance)
        return noise, add_counts(phase.clipped, covariance.clipped(variance))

    def known(self: Any, phase: Phase) -> NoiseCovariance:
        """What is known of V: what the estimator tells, or what was given."""
        if phase.covariance is None:
            return self.noise_covariance
        return self.noise_covariance.estimated(phase.covariance, phase.position)

    def subtracted(self: Any, phase: Phase, h: Float[Array, ""]) -> Float[Array, ""] | float:
        """h V / 2, at most T, in the mean over the coordinates: what V does not heat an Euler step
        of a diffusion."""
        covariance = self.known(phase)
        if covariance.eigenvalues is None:
            return 0.0
        left = lambda v: self.temperature - h * jnp.asarray(v) / 2
        return self.temperature - covariance.mean(phase.position, left)

    def least_variance(self: Any, h: Any, space: Space) -> Float[Array, ""]:
        leaves = jax.tree.leaves(self.noise_covariance.eigenvalues)
        return jnp.min(jnp.stack([jnp.min(self.variance(h, leaf)) for leaf in leaves]))


def add_counts(*counts: Num[Array, ""] | None) -> Float[Array, ""] | None:
    """The sum of the counts that are made, a float: of several steps infos have the mean; `None` if
    there is none."""
    made = [jnp.asarray(count, jnp.result_type(float)) for count in counts if count is not None]
    return sum(made[1:], made[0]) if made else None


def check_size(name: str, matrix: Float[Array, "..."], position: Position) -> None:
    """Raise unless a matrix is one over the raveled position."""
    wanted = (_tree.size(position),) * 2
    if matrix.shape != wanted:
        raise ValueError(f"{name} must have the shape {wanted}, got {matrix.shape}")


def check_embedded(what: str, space: Space) -> None:
    """Raise on a space whose metric is its own."""
    if not space.embedded:
        name = type(space).__name__
        raise ValueError(f"{what} on {name}, whose metric is not that of its embedding")


def check_left(covariance: Float[Array, "d d"], h: Any) -> None:
    """Raise if noise of which V has been subtracted has a concrete covariance with no root."""
    eigenvalues = np.linalg.eigvalsh(np.asarray(covariance, np.float64))
    if eigenvalues[0] < -1e-5 * np.max(np.abs(eigenvalues)):
        raise ValueError(
            f"noise_covariance exceeds the noise of the sampler at step_size {h}, where the chain "
            f"begins: the least eigenvalue of what is left is {eigenvalues[0]:.4g}. Decrease "
            "step_size, or, where the sampler has no noise of its own, give no noise_covariance"
        )


def estimated_matrix(covariance: PyTree, position: Position) -> Float[Array, "d d"]:
    """An estimate of V, a pytree like the position or (d, d), as a matrix."""
    if _is_matrix(covariance, position):
        return covariance
    return jnp.diag(ravel_pytree(covariance)[0])


def _is_matrix(covariance: PyTree, position: Position) -> bool:
    """Whether an estimate of V is (d, d); raises if it is not like the position either."""
    size = _tree.size(position)
    if isinstance(covariance, jax.Array) and covariance.shape == (size, size):
        return True
    _returned.like("the covariance of the estimate", covariance, position, "the position")
    return False


def _as_matrix(covariance: PyTree, size: int) -> Float[Array, "d d"]:
    """A number times the identity, the diagonal matrix of a pytree, or the matrix as it is."""
    if _tree.is_number(covariance):
        return covariance * jnp.eye(size, dtype=covariance.dtype)
    if not (isinstance(covariance, jax.Array) and is_square(covariance)):
        covariance = jnp.diag(ravel_pytree(covariance)[0])
    if covariance.shape != (size, size):
        got = f"{covariance.shape} for {(size, size)}"
        raise ValueError(f"noise_covariance must be as large as the matrix friction, got {got}")
    return covariance


def _diagonalised(
    matrix: Float[Array, "d d"], root: Float[Array, "d d"] | None
) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
    """w and B with B B' = R R' and B diag(w) B' = V."""
    if root is None:
        return eigen(matrix)
    matrix, root = (x.astype(jnp.promote_types(matrix.dtype, jnp.float32)) for x in (matrix, root))
    half = jnp.linalg.solve(root, matrix)
    whitened = jnp.linalg.solve(root, half.T)
    eigenvalues, basis = eigen((whitened + whitened.T) / 2)
    return eigenvalues, product(root, basis)
