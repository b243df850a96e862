"""Step sizes and temperatures that change with the step; a schedule of optax will do as well."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from . import _checks
from ._checks import scalar


class PolynomialDecay(eqx.Module):
    """`h_k = scale (offset + k)^(-power)`, k = 0, 1, ...

    Where the bias is of order h (`sgld`, or noise that is not subtracted), the mean squared error
    of a step-size weighted average over K steps is of order K^(-2/3) at its best, for power 1/3; of
    a bias of order h^2 (`sghmc` with an exact gradient) it is K^(-4/5), for power 1/5. In the form
    h (1 + k / tau)^(-kappa) it is `PolynomialDecay(h * tau**kappa, tau, kappa)`.

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

    scale: Float[Array, ""] = eqx.field(converter=scalar("scale"))
    offset: Float[Array, ""] = eqx.field(converter=scalar("offset"), default=1.0)
    power: Float[Array, ""] = eqx.field(converter=scalar("power"), default=1 / 3)

    def __check_init__(self):
        for name in ("scale", "offset", "power"):
            _checks.positive(name, getattr(self, name))
        if _checks.certainly(lambda power: power > 1, self.power):
            raise ValueError(f"power must be at most 1, got {self.power}")

    def __call__(self, count: Int[Array, "*n"] | int) -> Float[Array, "*n"]:
        return self.scale * (self.offset + count) ** -self.power


class Cyclical(eqx.Module):
    """`h_k = (initial / 2) (cos(pi (k mod L) / L) + 1)`, k = 0, 1, ..., in cycles of L steps.

    A large step size at the beginning of each cycle finds a mode, small ones at its end sample it.
    The search may go without noise: at `temperature(k)`, a schedule for any sampler's temperature,
    0 while k mod L is below `exploration` L and 1 in the rest of the cycle. Of a run's draws,
    `cycles` tells which belong to which cycle, and which to none, having been made in the search.

    Args:
        initial: the step size at the beginning of a cycle, positive.
        cycle_length: L, the number of steps of a cycle.
        exploration: the share of a cycle that is search, in [0, 1).

    Raises:
        ValueError: if a number is out of its range.

    Example: the draws of each of three cycles.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import FunctionModel, Minibatch, Uniform, sample, sgld
        >>> schedule = Cyclical(0.1, cycle_length=10, exploration=0.5)
        >>> [round(float(schedule(k)), 3) for k in (0, 5, 10)]
        [0.1, 0.05, 0.1]
        >>> model = FunctionModel(lambda x: -0.5 * x**2, lambda x, y: -0.5 * (y - x) ** 2)
        >>> grad = Minibatch(model, Uniform(3))
        >>> kernel = sgld(grad, schedule, temperature=schedule.temperature)
        >>> run = sample(jax.random.key(0), kernel, jnp.zeros(()), jnp.arange(9.0), num_steps=30)
        >>> cycles = schedule.cycles(num_steps=30)
        >>> [run.trace[cycles == i].shape for i in range(3)]
        [(5,), (5,), (5,)]

    Reference:
        Zhang et al. (2020), Cyclical stochastic gradient MCMC for Bayesian deep learning, equation
        1 and algorithm 1, with the length of a cycle in place of the numbers of steps and cycles.
    """

    initial: Float[Array, ""] = eqx.field(converter=scalar("initial"))
    cycle_length: int = eqx.field(static=True)
    exploration: Float[Array, ""] = eqx.field(converter=scalar("exploration"), default=0.0)

    def __check_init__(self):
        _checks.positive("initial", self.initial)
        _checks.whole("cycle_length", self.cycle_length)
        _checks.positive("exploration", self.exploration, zero=True)
        if _checks.certainly(lambda share: share >= 1, self.exploration):
            raise ValueError(f"exploration must be below 1, got {self.exploration}")

    def __call__(self, count: Int[Array, "*n"] | int) -> Float[Array, "*n"]:
        # cos(x) + 1 = 2 cos(x / 2)^2, of which the first is 0 near the end of a long cycle
        return self.initial * jnp.cos(jnp.pi / 2 * self._turn(count)) ** 2

    def temperature(self, count: Int[Array, "*n"] | int) -> Float[Array, "*n"]:
        """0 in the search, 1 in the rest of a cycle."""
        # of whole numbers: a share of a cycle is rounded, in several ways
        share = self.exploration * self.cycle_length
        first = jnp.ceil(share * (1 - 2 * jnp.finfo(jnp.result_type(share, float)).eps))
        return jnp.where(jnp.asarray(count) % self.cycle_length < first, 0.0, 1.0)

    def cycles(
        self, num_steps: int, burn_in: int = 0, thin: int = 1, begun: int = 0
    ) -> Int[np.ndarray, " draws"]:
        """The cycle of each draw that `sample` keeps of `num_steps`, from 0; -1 in a search.

        Of a run that goes on from one of `begun` steps cycles are counted from the first one's.

        Raises:
            ValueError: if one of them is no whole number, or `thin` is 0.
        """
        numbers = {"num_steps": num_steps, "burn_in": burn_in, "begun": begun}
        for name, number in numbers.items():
            _checks.whole(name, number, 0)
        _checks.whole("thin", thin)
        last = np.arange(burn_in + thin, num_steps + 1, thin) - 1  # the step that ends at each draw
        last = last + begun
        return np.where(self.temperature(jnp.asarray(last)) > 0, last // self.cycle_length, -1)

    def _turn(self, count: Any) -> Float[Array, "..."]:
        """The share of its cycle that lies before a step."""
        return jnp.asarray(count) % self.cycle_length / self.cycle_length
