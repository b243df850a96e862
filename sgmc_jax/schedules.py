"""Step sizes and temperatures that change with the step; a schedule of optax will do as well."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from . import _checks
from ._checks import scalar


class PolynomialDecay(eqx.Module):
    """`h_k = scale (offset + k)^(-power)`, k = 0, 1, ...

    The mean squared error of a step-size weighted average over K steps is of order K^(-2/3) at its
    best, for power 1/3. In the form h (1 + k / tau)^(-kappa) it is
    `PolynomialDecay(h * tau**kappa, tau, kappa)`.

    Args:
        scale: the factor, positive.
        offset: positive.
        power: in (0, 1].

    Raises:
        ValueError: if a number is out of its range.

    Example:
        >>> float(PolynomialDecay(0.1, offset=1.0, power=0.5)(3)).__round__(3)
        0.05
        >>> h, tau, kappa = 0.5, 10.0, 0.33
        >>> float(PolynomialDecay(h * tau**kappa, tau, kappa)(0)).__round__(3)
        0.5

    Reference:
        Welling and Teh (2011) for powers in (1/2, 1]; Teh, Thiery and Vollmer (2016) and Chen, Ding
        and Carin (2015) for 1/3.
    """

    scale: Array = eqx.field(converter=scalar("scale"))
    offset: Array = eqx.field(converter=scalar("offset"), default=1.0)
    power: Array = eqx.field(converter=scalar("power"), default=1 / 3)

    def __check_init__(self):
        for name in ("scale", "offset", "power"):
            _checks.positive(name, getattr(self, name))
        if _checks.certainly(lambda power: power > 1, self.power):
            raise ValueError(f"power must be at most 1, got {self.power}")

    def __call__(self, count: Array | int) -> Array:
        return self.scale * (self.offset + count) ** -self.power


class Cyclical(eqx.Module):
    """`h_k = (initial / 2) (cos(pi (k mod L) / L) + 1)`, k = 0, 1, ..., in cycles of L steps.

    A large step size at the beginning of each cycle finds a mode, small ones at its end explore it.

    Args:
        initial: the step size at the beginning of a cycle, positive.
        cycle_length: L, the number of steps of a cycle.

    Raises:
        ValueError: if a number is out of its range.

    Example:
        >>> schedule = Cyclical(0.1, cycle_length=10)
        >>> [round(float(schedule(k)), 3) for k in (0, 5, 10)]
        [0.1, 0.05, 0.1]

    Reference:
        Zhang et al. (2020), Cyclical stochastic gradient MCMC for Bayesian deep learning, equation
        1, with the length of a cycle in place of the numbers of steps and of cycles.
    """

    initial: Array = eqx.field(converter=scalar("initial"))
    cycle_length: int = eqx.field(static=True)

    def __check_init__(self):
        _checks.positive("initial", self.initial)
        _checks.whole("cycle_length", self.cycle_length)

    def __call__(self, count: Array | int) -> Array:
        turn = jnp.asarray(count) % self.cycle_length / self.cycle_length
        return self.initial / 2 * (jnp.cos(jnp.pi * turn) + 1)
