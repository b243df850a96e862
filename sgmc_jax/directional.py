"""Log densities of directional laws, with respect to the surface measure of their spaces.

That of von Mises and Fisher is normalised; of the two others a constant of the matrix is left out.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Real

from . import _checks
from .special import log_bessel_series

__all__ = ["bingham_log_prob", "matrix_langevin_log_prob", "von_mises_fisher_log_prob"]


def von_mises_fisher_log_prob(
    x: ArrayLike, mean_direction: ArrayLike, concentration: ArrayLike
) -> Float[Array, "..."]:
    """The log density of the von Mises-Fisher law on the unit sphere of R^d.

        kappa mu'x + log c_d(kappa),
        c_d(kappa) = kappa^nu / ((2 pi)^(d/2) I_nu(kappa)),    nu = d/2 - 1,

    with respect to the surface measure; at kappa = 0 minus the log of the sphere's area. It is
    computed as -kappa |x - mu|^2 / 2 + (kappa - Phi_nu(kappa)) plus a constant, Phi_nu being
    `special.log_bessel_series`: kappa mu'x and log c_d cancel. So derivatives in x and mu are
    those of the law along the sphere; across it they differ from kappa mu and kappa x.

    Args:
        x: unit vectors of shape (..., d), d >= 1.
        mean_direction: mu, unit vectors of a shape that broadcasts against that of `x`.
        concentration: kappa >= 0, of a shape that broadcasts against their axes but the last. The
            derivative in it is mu'x - A_nu(kappa), also at 0.

    Returns:
        An array of the common shape of the three, without the last axis of vectors; under a
        transformation NaN where kappa is out of its range.

    Raises:
        ValueError: the last axes of `x` and `mean_direction` differ, one of them has not unit
            length, or kappa is negative or not finite.

    Example:
        >>> import jax.numpy as jnp
        >>> axis = jnp.array([1.0, 0.0, 0.0])
        >>> float(von_mises_fisher_log_prob(axis, axis, 0.0))  # -log(4 pi)
        -2.53102
        >>> float(von_mises_fisher_log_prob(axis, axis, 2.0))  # log(2 / (4 pi sinh(2))) + 2
        -1.12624

    Reference:
        Mardia and Jupp (2000), Directional statistics, section 9.3.2.
    """
    x, mean, kappa = _checks.several(
        x=x, mean_direction=mean_direction, concentration=concentration
    )
    d = _last_axis(x, mean)
    _checks.fitting(x=x, mean_direction=mean, concentration=kappa[..., None])
    _checks.positive("concentration", concentration, zero=True)
    check_directions("x", x)
    check_directions("mean_direction", mean)
    chord = jnp.sum((x - mean) ** 2, axis=-1)
    minus_log_area = math.lgamma(d / 2) - math.log(2) - d / 2 * math.log(math.pi)
    series = log_bessel_series(d / 2 - 1, kappa, scaled=True)
    return minus_log_area - (series + kappa * chord / 2)


def bingham_log_prob(x: ArrayLike, matrix: ArrayLike) -> Float[Array, "..."]:
    """The log density x'Bx of the Bingham law in x, not for inference of B: it is not normalised.

    The law is that of an axis: x and -x are as likely. The constant -log 1F1(1/2; d/2; B), less the
    log of the area, depends on B and is left out: as a likelihood of B this would be wrong. B + cI
    is the same law as B.

    Args:
        x: unit vectors of shape (..., d).
        matrix: B, of shape (..., d, d); its symmetric part counts.

    Returns:
        An array of the common shape of the leading axes.

    Raises:
        ValueError: `matrix` does not have the last axis of `x` twice.

    Example:
        >>> import jax.numpy as jnp
        >>> float(bingham_log_prob(jnp.array([0.6, 0.8]), jnp.diag(jnp.array([1.0, -1.0]))))
        -0.28

    Reference:
        Bingham (1974), An antipodally symmetric distribution on the sphere.
    """
    x, matrix = _checks.several(x=x, matrix=matrix)
    d = x.shape[-1] if x.ndim else None
    if matrix.shape[-2:] != (d, d):
        raise ValueError(
            f"matrix must end in two axes as long as x's last, got shape {matrix.shape} for x of "
            f"shape {x.shape}"
        )
    return jnp.einsum("...i,...ij,...j->...", x, matrix, x, precision="highest")


def matrix_langevin_log_prob(x: ArrayLike, matrix: ArrayLike) -> Float[Array, "..."]:
    """The log density tr(F'X) of the matrix Langevin law in X, not for inference of F.

    The law (also called matrix von Mises-Fisher) is on the n x p matrices with orthonormal columns.
    The constant -log 0F1(; n/2; F'F/4), less the log of their volume, depends on F and is left out:
    as a likelihood of F this would be wrong.

    Args:
        x: X, matrices of shape (..., n, p) with X'X = I.
        matrix: F, of a shape that broadcasts against that of `x`.

    Returns:
        An array of the common shape of the leading axes.

    Raises:
        ValueError: the last two axes of `x` and `matrix` differ.

    Example:
        >>> import jax.numpy as jnp
        >>> float(matrix_langevin_log_prob(jnp.eye(3, 2), 2 * jnp.ones((3, 2))))
        4.0

    Reference:
        Khatri and Mardia (1977), The von Mises-Fisher matrix distribution in orientation
        statistics.
    """
    x, matrix = _checks.several(x=x, matrix=matrix)
    if x.ndim < 2 or x.shape[-2:] != matrix.shape[-2:]:
        raise ValueError(
            "x and matrix must be matrices of one shape along their last two axes, got shapes "
            f"{x.shape} and {matrix.shape}"
        )
    return jnp.sum(x * matrix, axis=(-2, -1))


def check_directions(name: str, x: ArrayLike) -> None:
    """Raise unless concrete vectors have unit length along their last axis."""
    if not _checks.is_concrete(x):
        return
    error = np.abs(np.linalg.norm(np.asarray(x, float), axis=-1) - 1)
    if not np.all(error <= _checks.slack(jnp.asarray(x))):
        raise ValueError(
            f"{name} must have unit length along its last axis, got a length off by "
            f"{np.max(error):.2g}"
        )


def _last_axis(x: Real[Array, "..."], mean: Real[Array, "..."]) -> int:
    """d, the last axis of both."""
    if not x.shape[-1:] or not x.shape[-1] or x.shape[-1:] != mean.shape[-1:]:
        raise ValueError(
            "x and mean_direction must be vectors of one length along their last axis, got shapes "
            f"{x.shape} and {mean.shape}"
        )
    return x.shape[-1]
