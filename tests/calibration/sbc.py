"""Simulation-based calibration: ranks of the truth among draws given the data simulated from it.

Let (theta, y) have the joint law pi(theta) p(y | theta), and given y let theta_1, ..., theta_L be
independent draws of a sampler. If the sampler has the law p(theta | y), then theta and the theta_l
are exchangeable given y, and hence for every test quantity f(theta, y) the rank

    R = #{l: f(theta_l, y) < f(theta, y)} + U,   U uniform on {0, ..., #{l: f(theta_l, y) = f}},

is uniform on {0, ..., L}: exactly, of discrete quantities too. The converse needs quantities that
know the data, above all the log likelihood: a sampler that returns draws of the prior has uniform
ranks of all others.

A draw is where a chain is some steps after its default start, and each draw has a chain of its own.
So draws are independent given y, as the law of R wants them, and no thinning need be long enough:
what is tested is that a chain has forgotten its start by then, and is in its target. All chains of
all data sets run in one program, in which a kernel has the slots that it is given; a chain that
lacked one fails the test.

Ranks of so many independent data sets are compared with the uniform law by Pearson's chi-square of
L degrees of freedom. A test fails if any of its Q quantities has a p-value below 1e-6 / Q: on a
right sampler with a probability of at most 1e-6.

Reference:
    Talts, Betancourt, Simpson, Vehtari and Gelman (2018), Validating Bayesian inference algorithms
    with simulation-based calibration; Modrak et al. (2023), Simulation-based calibration checking
    for Bayesian computation: the choice of test quantities shapes sensitivity, for those that know
    the data.
"""

from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import chisquare

from sgmc_jax.contract import overflowed
from tests.laws.moments import at_length

FALSE_ALARM = 1e-6
# for programs that run for less time than it takes to optimise them
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


class Model(Protocol):
    """A joint law of worlds, which are all that is unknown, and data; and what to look at."""

    def draw(self, key: Any) -> tuple[Any, Any]:
        """A world from its prior, and data given it."""
        ...

    def read(self, key: Any, position: Any, data: Any) -> Any:
        """The world that a chain's position tells; what it leaves out is drawn given the rest."""
        ...

    def quantities(self, world: Any, data: Any) -> dict[str, Any]:
        """The test quantities, by name."""
        ...


def ranks(kernel, model, *, num_data, num_draws, num_steps, key):
    """The rank of every quantity in each data set.

    Also whether any chain lacked slots, and whether all quantities are finite.
    """
    truth_key, chain_key, tie_key = jax.random.split(key, 3)
    keys = jax.random.split(truth_key, num_data)
    truth, data = jax.jit(jax.vmap(model.draw), compiler_options=QUICK)(keys)

    def chain(key, data):
        start_key, step_key, read_key = jax.random.split(key, 3)
        state = kernel.init(start_key, None, data)

        def step(state, key):
            state, info = kernel.step(key, state, data)
            return state, overflowed(info)

        state, lost = jax.lax.scan(step, state, jax.random.split(step_key, num_steps))
        return model.read(read_key, state.position, data), jnp.any(lost)

    keys = jax.random.split(chain_key, num_data * num_draws)
    each = jax.tree.map(lambda x: jnp.repeat(x, num_draws, axis=0), data)
    worlds, lost = jax.jit(jax.vmap(chain))(keys, each)
    by_data = lambda x: x.reshape(num_data, num_draws, *x.shape[1:])
    worlds = jax.tree.map(by_data, worlds)

    def compare(key, truth, worlds, data):
        true = model.quantities(truth, data)
        drawn = jax.vmap(model.quantities, (0, None))(worlds, data)
        finite = [jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves((true, drawn))]
        keys = dict(zip(true, jax.random.split(key, len(true))))
        ranks = {name: rank(keys[name], true[name], drawn[name]) for name in true}
        return ranks, jnp.all(jnp.stack(finite))

    keys = jax.random.split(tie_key, num_data)
    found = jax.jit(jax.vmap(compare), compiler_options=QUICK)(keys, truth, worlds, data)
    return *jax.tree.map(np.asarray, found), np.asarray(lost)


def rank(key, true, drawn):
    """How many are below the truth, ties broken at random."""
    below, same = jnp.sum(drawn < true), jnp.sum(drawn == true)
    return below + jax.random.randint(key, (), 0, same + 1)


def p_values(found, num_draws):
    """Of the chi-square test of uniform ranks, by quantity."""
    counts = {name: np.bincount(r, minlength=num_draws + 1) for name, r in found.items()}
    return {name: (chisquare(count).pvalue, count) for name, count in counts.items()}


def check(kernel, model, *, num_steps, num_data=None, num_draws=7, seed=0):
    """The ranks of all quantities are uniform, at a false-alarm rate of 1e-6.

    Of 2,000 data sets at full length; else of half as many, which see the planted faults.
    """
    num_data = num_data or (2_000 if at_length() else 1_000)
    found, finite, lost = ranks(
        kernel,
        model,
        num_data=num_data,
        num_draws=num_draws,
        num_steps=num_steps,
        key=jax.random.key(seed),
    )
    assert not lost.any(), f"{lost.sum()} chains lacked slots"
    assert finite.all(), f"{(~finite).sum()} data sets have quantities that are not finite"
    tested = p_values(found, num_draws)
    print({name: float(f"{p:.2g}") for name, (p, _) in tested.items()})
    name = min(tested, key=lambda name: tested[name][0])
    p, counts = tested[name]
    assert p > FALSE_ALARM / len(tested), (
        f"ranks of {name} are not uniform: {counts.tolist()}, p = {p:.1e}"
    )
