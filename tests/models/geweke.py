"""Geweke's joint test: with data redrawn in turn, positions keep the law of their prior."""

import jax
import numpy as np


def from_prior(kernel, draw_prior, draw_data, statistic, *, num_steps, num_chains, key):
    """`statistic` of positions that began as draws of the prior, after as many rounds.

    In a round the data is drawn given the position, and the position moves by `kernel`, exactly.
    Chains are independent, and in their stationary law from the first.
    """

    def chain(key):
        start, *keys = jax.random.split(key, num_steps + 1)
        position = draw_prior(start)

        def one(position, key):
            data_key, init_key, step_key = jax.random.split(key, 3)
            data = draw_data(data_key, position)
            state = kernel.init(init_key, position, data)
            return kernel.step(step_key, state, data)[0].position, None

        return statistic(jax.lax.scan(one, position, jax.numpy.stack(keys))[0])

    return np.asarray(jax.jit(jax.vmap(chain))(jax.random.split(key, num_chains)))
