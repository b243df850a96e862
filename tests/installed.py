"""What `make wheel` runs in an empty environment: the library with what it needs, and no more."""

import importlib
import pkgutil
from pathlib import Path

import jax
import jax.numpy as jnp

import sgmc_jax
from sgmc_jax import Full, FunctionModel, Minibatch, bnp, from_numpyro, hmc, sample


def refused(words, call):
    """The call needs what is not installed, and says so."""
    try:
        call()
    except ImportError as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"it did not ask for {words}")


def main():
    assert "site-packages" in sgmc_jax.__file__, sgmc_jax.__file__
    assert Path(sgmc_jax.__file__).with_name("py.typed").exists()
    names = [module.name for module in pkgutil.walk_packages(sgmc_jax.__path__, "sgmc_jax.")]
    for name in names:
        importlib.import_module(name)

    x = jax.random.normal(jax.random.key(0), (100, 2))
    model = FunctionModel(
        lambda position: -0.5 * jnp.sum(position**2),
        lambda position, item: -0.5 * jnp.sum((item - position) ** 2),
    )
    kernel = hmc(Minibatch(model, Full()), 0.1)
    run = sample(jax.random.key(1), kernel, jnp.zeros(2), x, num_steps=200, num_chains=4)
    print(run.summary())
    mixture = bnp.hybrid_mixture(bnp.DirichletProcess(1.0), bnp.NormalGamma(2))
    labels = sample(jax.random.key(2), mixture, None, x, num_steps=20).trace.local["assignment"]
    assert labels.shape == (20, 100)

    refused("sgmc_jax[arviz]", lambda: run.to_arviz(model, x))
    refused("sgmc_jax[numpyro]", lambda: from_numpyro(lambda: None))
    print(f"{len(names)} modules of {sgmc_jax.__file__} imported, two samplers run")


if __name__ == "__main__":
    main()
