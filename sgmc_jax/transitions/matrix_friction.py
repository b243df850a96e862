"""O, F, N, E with a matrix of friction."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from .. import _checks, _tree
from .._types import Position
from ..arrays import product
from ..random import normal
from ..spaces import Space
from .euler import EulerMomentum
from .noise import (
    CorrectedTransition,
    NoiseCovariance,
    NoisyTransition,
    add_counts,
    check_embedded,
    check_size,
    estimated_matrix,
    known_covariance,
)
from .ornstein_uhlenbeck import Friction, Noise, OrnsteinUhlenbeck
from .symmetric import check_symmetric, eigen
from .transition import Phase, Transition


class FrictionMatrix(eqx.Module):
    """C, a symmetric positive definite matrix over the raveled position: `B diag(rates) B'`.

    Args:
        matrix: C, (d, d).

    Raises:
        ValueError: if C is not square, not symmetric or not positive definite.

    Example:
        >>> import jax.numpy as jnp
        >>> friction = FrictionMatrix(jnp.array([[2.0, 1.0], [1.0, 2.0]]))
        >>> friction.apply(friction.rates, jnp.array([1.0, 0.0])).round(4).tolist()
        [2.0, 1.0]

    Reference:
        Liu, Zhu and Song (2016), Stochastic gradient geodesic MCMC methods.
    """

    rates: Float[Array, " m"]
    basis: Float[Array, "d m"]

    def __init__(self, matrix: Any):
        matrix = _checks.as_real(matrix, "friction")
        check_symmetric("friction", matrix)
        self.rates, self.basis = eigen(matrix)
        if _checks.certainly(lambda rates: ~(rates > 0), self.rates):
            least = float(np.min(np.asarray(self.rates)))
            raise ValueError(
                f"friction must be positive definite, got an eigenvalue of {least:.4g}"
            )

    @property
    def root(self) -> Float[Array, "d m"]:
        """R, with R R' = C."""
        return self.basis * jnp.sqrt(self.rates)

    def at(self, space: Space, x: Position) -> FrictionMatrix:
        """L C L on the tangent space at x, of dimension m, L the projection on it.

        Where there is nothing to project, C as it is; elsewhere by one `eigh`, whose last m
        eigenvectors are tangent, because the rates of the others are 0.
        """
        size, dim = _tree.size(x), space.dim(x)
        if dim == size:
            return self
        flat, unravel = ravel_pytree(x)
        project = lambda v: ravel_pytree(space.project(x, unravel(v)))[0]
        restricted = jax.vmap(project)(self.root.T.astype(flat.dtype))  # R'L
        rates, basis = eigen(product(restricted.T, restricted))
        where = lambda c: (c.rates, c.basis)
        return eqx.tree_at(where, self, (rates[size - dim :], basis[:, size - dim :]))

    def apply(self, factors: Float[Array, " m"], v: PyTree) -> PyTree:
        """`B diag(factors) B' v`: f(C) v for f(rates)."""
        flat, unravel = ravel_pytree(v)
        basis, factors = self.basis.astype(flat.dtype), factors.astype(flat.dtype)
        return unravel(product(basis, factors * product(basis.T, flat)))

    def decayed(self, h: Float[Array, ""], v: PyTree) -> PyTree:
        """exp(-C h) v, by what it takes off, which keeps its digits where C h is small."""
        return _tree.axpy(1.0, self.apply(jnp.expm1(-self.rates * h), v), v)


class MatrixFriction(Transition):
    """F: `v <- exp(-A h) v`, A = L C L on the tangent space, L the projection on it.

    On an embedded space; on R^n, A = C.

    Example:
        >>> import jax.numpy as jnp
        >>> from sgmc_jax.transitions import FrictionMatrix, MatrixFriction, Phase
        >>> piece = MatrixFriction(FrictionMatrix(jnp.diag(jnp.array([1.0, 2.0]))))
        >>> phase = Phase(jnp.zeros(2), momentum=jnp.array([4.0, 4.0]))
        >>> piece(None, phase, jnp.log(2.0), None).momentum.round(4).tolist()
        [2.0, 1.0]

    Reference:
        Liu, Zhu and Song (2016), Stochastic gradient geodesic MCMC methods.
    """

    friction: FrictionMatrix = eqx.field(converter=_checks.of_kind("friction", FrictionMatrix))

    def __call__(self, key: Any, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Phase:
        friction = self.friction.at(phase.space, phase.position)
        decayed = friction.decayed(h, phase.momentum)
        return phase._replace(momentum=phase.space.project(phase.position, decayed))

    def check(self, h: Any, space: Space, estimated: str | None = None) -> None:
        check_embedded("friction cannot be a matrix", space)

    def check_position(self, position: Position) -> None:
        check_size("friction", self.friction.basis, position)


class MatrixOrnsteinUhlenbeck(CorrectedTransition):
    """O: the exact solution of `dv = -A v dt + L sqrt(2 C T) dW`, A = L C L on the tangent space.

    `v <- e v + N(0, T (L - e^2) - S V S)`, e = exp(-A h) and S = (e + L) h/2: see
    `OrnsteinUhlenbeck`, of which this is the form for matrices. Negative eigenvalues of the
    covariance, which exist only where V is too large, are set to zero.

    Example: at temperature 0 it is `MatrixFriction`.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax.transitions import FrictionMatrix, MatrixOrnsteinUhlenbeck, Phase
        >>> friction = FrictionMatrix(jnp.diag(jnp.array([1.0, 2.0])))
        >>> phase = Phase(jnp.zeros(2), momentum=jnp.array([4.0, 4.0]))
        >>> cold = MatrixOrnsteinUhlenbeck(friction, temperature=0.0)
        >>> cold(jax.random.key(0), phase, jnp.log(2.0), None).momentum.round(4).tolist()
        [2.0, 1.0]
    """

    friction: FrictionMatrix = eqx.field(converter=_checks.of_kind("friction", FrictionMatrix))
    temperature: Any = eqx.field(converter=_checks.schedule("temperature"), default=1.0)
    noise_covariance: NoiseCovariance = known_covariance()

    def __check_init__(self):
        self.noise_covariance.matrix(len(self.friction.rates))

    def __call__(self, key: Any, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Phase:
        friction, clipped = self.friction.at(phase.space, phase.position), phase.clipped
        variances, basis = _exact(friction.rates, self.temperature, h), friction.basis
        if phase.covariance is None:
            v = self.noise_covariance.matrix(_tree.size(phase.position))
        else:
            v = estimated_matrix(phase.covariance, phase.position)
        if v is not None:
            corrected = jnp.diag(variances) - _twice_kicked(friction, h, v)
            variances, own = jnp.linalg.eigh(corrected)
            basis = product(basis, own)
            clipped = add_counts(clipped, jnp.sum(variances < 0, dtype=jnp.int32))
        # not in half precision, in which little friction takes off nothing: see `OrnsteinUhlenbeck`
        wide = lambda x: x.astype(jnp.promote_types(x.dtype, jnp.float32))
        before = jax.tree.map(wide, phase.momentum)
        flat, unravel = ravel_pytree(before)
        z = normal(key, variances.shape, flat.dtype)
        deviations = jnp.sqrt(jnp.maximum(variances, 0)).astype(flat.dtype)
        noise = unravel(product(basis.astype(flat.dtype), deviations * z))
        after = _tree.axpy(1.0, noise, friction.decayed(h, before))
        momentum = jax.tree.map(lambda v, x: v.astype(x.dtype), after, phase.momentum)
        momentum = phase.space.project(phase.position, momentum)
        return phase._replace(momentum=momentum, clipped=clipped)

    def least_variance(self, h: Any, space: Space) -> Float[Array, ""]:
        if not space.flat:
            return jnp.zeros(())  # it depends on the position: there is a count of what is clipped
        v = self.noise_covariance.matrix(len(self.friction.rates))
        assert v is not None
        variances = jnp.diag(_exact(self.friction.rates, self.temperature, h))
        return jnp.linalg.eigvalsh(variances - _twice_kicked(self.friction, h, v))[0]

    def check(self, h: Any, space: Space, estimated: str | None = None) -> None:
        check_embedded("friction cannot be a matrix", space)
        super().check(h, space, estimated)

    def check_position(self, position: Position) -> None:
        check_size("friction", self.friction.basis, position)
        super().check_position(position)


class MatrixEuler(NoisyTransition):
    """E: `v <- v - h L C v + h grad log p(x) + L N(0, 2 C T h - h^2 V)`, L the tangent projection.

    Raises:
        ValueError: if the covariance is not relative to C, `NoiseCovariance(V, friction.root)`.

    Example: at temperature 0.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax.transitions import FrictionMatrix, MatrixEuler, NoiseCovariance, Phase
        >>> friction = FrictionMatrix(jnp.diag(jnp.array([1.0, 2.0])))
        >>> cold = MatrixEuler(friction, 0.0, NoiseCovariance(None, friction.root))
        >>> phase, gradient = Phase(jnp.zeros(2), jnp.array([4.0, 4.0])), jnp.ones(2)
        >>> cold(jax.random.key(0), phase, jnp.array(0.5), gradient).momentum.round(4).tolist()
        [2.5, 0.5]
    """

    friction: FrictionMatrix = eqx.field(converter=_checks.of_kind("friction", FrictionMatrix))
    temperature: Any = eqx.field(converter=_checks.schedule("temperature"), default=1.0)
    noise_covariance: NoiseCovariance = known_covariance()
    uses_field: ClassVar[bool] = True

    def __check_init__(self):
        if self.noise_covariance.root is None:
            raise ValueError("noise_covariance must be relative to friction, got one without root")

    def __call__(self, key: Any, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Phase:
        x, v, space = phase.position, phase.momentum, phase.space
        noise, clipped = self.noise(key, phase, h)
        drag = space.project(x, self.friction.apply(self.friction.rates, v))
        momentum = _tree.axpy(-h, drag, _tree.axpy(1.0, v, noise))
        momentum = _tree.axpy(h, space.gradient(x, field), momentum)
        return phase._replace(momentum=momentum, clipped=clipped)

    def variance(self, h: Any, v: Any) -> Float[Array, "..."]:
        return 2 * self.temperature * h - h**2 * v


def friction_letters(
    friction: Any, temperature: Any = 1.0, noise_covariance: Any = None
) -> dict[str, Transition]:
    """The letters O, F, N and E of a friction that is a number or a matrix.

    For a matrix C = R R', N is `Noise` with friction 1 and a covariance relative to C, so that its
    noise, L N(0, 2 C T h - h^2 V), is `L R U (2 T h - h^2 w)^(1/2) z`: see `NoiseCovariance`.

    Args:
        friction: C, a positive number or a symmetric positive definite matrix over the raveled
            position, on an embedded space.
        temperature: T >= 0.
        noise_covariance: V, as in `NoiseCovariance`.

    Raises:
        ValueError: if C or V is out of its range, or they differ in size.

    Example:
        >>> import jax.numpy as jnp
        >>> letters = friction_letters(jnp.array([[2.0, 0.5], [0.5, 1.0]]))
        >>> type(letters["O"]).__name__
        'MatrixOrnsteinUhlenbeck'
    """
    if isinstance(friction, tuple | list | dict) or np.ndim(friction) != 2:
        _checks.positive("friction", friction)
        _checks.positive("friction", _checks.as_real(friction, "friction"))  # as it is kept
        covariance = NoiseCovariance(noise_covariance)
        return {
            "O": OrnsteinUhlenbeck(friction, temperature, covariance),
            "F": Friction(_checks.as_real(friction, "friction")),
            "N": Noise(friction, temperature, covariance),
            "E": EulerMomentum(friction, temperature, covariance),
        }
    matrix = FrictionMatrix(friction)
    relative = NoiseCovariance(noise_covariance, matrix.root)
    return {
        "O": MatrixOrnsteinUhlenbeck(matrix, temperature, NoiseCovariance(noise_covariance)),
        "F": MatrixFriction(matrix),
        "N": Noise(1.0, temperature, relative),
        "E": MatrixEuler(matrix, temperature, relative),
    }


def _exact(rates: Float[Array, " m"], temperature: Float[Array, ""], h: Any) -> Float[Array, " m"]:
    """`T (1 - e^2)`."""
    return -temperature * jnp.expm1(-2 * rates * h)


def _twice_kicked(friction: FrictionMatrix, h: Any, v: Float[Array, "d d"]) -> Float[Array, "m m"]:
    """`B' S V S B`: what kicks for h/2 before and after leave of the noise of one gradient."""
    kicks = friction.basis * ((1 + jnp.exp(-friction.rates * h)) * h / 2)
    return product(product(kicks.T, v.astype(kicks.dtype)), kicks)
