"""The protocols of random processes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int

Hyper = dict[str, Array]


class Process(eqx.Module):
    """A prior over discrete random measures: the part of it that all samplers use.

    Its hyper-parameters are a dictionary that travels in the position, so that those with a prior
    may be drawn.

    Example:
        >>> from sgmc_jax.processes import DirichletProcess
        >>> process = DirichletProcess(2.0)
        >>> isinstance(process, Process), float(process.start()["concentration"])
        (True, 2.0)
    """

    @abstractmethod
    def start(self) -> Hyper:
        """The hyper-parameters that a chain begins with."""

    @property
    def priors(self) -> dict[str, Any]:
        """The prior of each hyper-parameter, or `None` where it is fixed."""
        return dict.fromkeys(self.start())


class Atoms(NamedTuple):
    """The atoms of a random probability measure that have slots, and which of them have arrived.

    `log_rest` is the log of what all atoms without a slot weigh, `more` whether one of these has
    arrived; what is said of a slot without an atom means nothing, but that none has arrived there.

    Example:
        >>> import jax.numpy as jnp
        >>> log_weight, arrived = jnp.log(jnp.array([0.5, 0.25])), jnp.array([True, False])
        >>> atoms = Atoms(log_weight, arrived, log_rest=jnp.log(0.25), more=jnp.array(False))
        >>> round(float(jnp.exp(atoms.log_weight).sum() + jnp.exp(atoms.log_rest)), 4)
        1.0
    """

    log_weight: Float[Array, " K"]
    arrived: Bool[Array, " K"]
    log_rest: Float[Array, ""]
    more: Bool[Array, ""]


class Series(Process):
    """A random probability measure as a series of atoms, in the order in which they arrive.

        sum_j w_j delta(theta_j),   theta_j iid,   atom j arriving at the time E_j / w_j

    with E_j ~ Exp(1). A `slice_mixture` asks for nothing else: it needs the atoms that arrive by a
    certain time. There may be finitely many.

    Example: by so late a time all atoms with a slot have arrived.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax.processes import DirichletProcess
        >>> process, sizes = DirichletProcess(1.0), jnp.array([5, 3, 0])
        >>> draw = jax.jit(lambda key: process.draw_atoms(key, process.start(), sizes, end=1e9))
        >>> isinstance(process, Series), draw(jax.random.key(0)).arrived.tolist()
        (True, [True, True, True])
    """

    @abstractmethod
    def draw_atoms(
        self, key: Any, hyper: Hyper, counts: Int[Array, " K"], end: Float[Array, ""] | float
    ) -> Atoms:
        """The atoms of the clusters given their sizes, each in its slot, and empty ones.

        The lowest free slot has the first atom without items that arrives, the next free slot the
        second, and so on.
        """

    def redraw(self, key: Any, hyper: Hyper, counts: Int[Array, " K"]) -> Hyper:
        """Hyper-parameters given the sizes of the clusters, by a kernel that keeps their law."""
        return hyper
