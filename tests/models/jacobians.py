"""Checking a log prior of unconstrained numbers against the density of what they stand for."""

import jax
import jax.numpy as jnp
import numpy as np


def check_prior(logprior, natural, log_density, like):
    """At three points shaped like `like`: log_density(natural(x)), of SciPy, plus log |Jacobian|.

    `natural` gives a vector of as many numbers. Constants do not matter.
    """
    flat, unravel = jax.flatten_util.ravel_pytree(like)
    points = np.random.default_rng(4).normal(size=(3, len(flat)))

    def one(x):
        of_vector = lambda x: natural(unravel(x))
        logdet = jnp.linalg.slogdet(jax.jacobian(of_vector)(x))[1]
        return logprior(unravel(x)) - logdet, of_vector(x)

    found, values = jax.jit(jax.vmap(one))(points)
    gaps = found - np.array([np.sum(log_density(v)) for v in np.asarray(values)])
    np.testing.assert_allclose(gaps, np.full(3, gaps[0]), rtol=1e-9)
