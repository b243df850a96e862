"""The errors of buffers and of particles in the guide: `python docs/measure_windows.py`."""

import jax
import jax.numpy as jnp
import numpy as np

from sgmc_jax import Minibatch, Window
from sgmc_jax.collective import as_shard
from sgmc_jax.models import (
    HiddenMarkov,
    LinearGaussianStateSpace,
    NormalEmission,
    ParticleSmoother,
    StochasticVolatility,
)

jax.config.update("jax_enable_x64", True)
KEY = jax.random.key(0)
BUFFERS = (0, 2, 4, 8, 16, 32)


def autoregression():
    """phi = .9, q = .5, r = 1, T = 2,000; of phi alone, with a fixed law of x_1."""
    rng, series, x = np.random.default_rng(0), [], 0.0
    for _ in range(2_000):
        x = 0.9 * x + np.sqrt(0.5) * rng.normal()
        series.append(x + rng.normal())
    known = {"state_noise": 0.5, "observation": 1.0, "observation_noise": 1.0}
    known = {name: value * np.eye(1) for name, value in known.items()}
    initial = (np.zeros(1), np.eye(1) * 0.5 / (1 - 0.81))
    model = LinearGaussianStateSpace(1, 1, known=known, initial=initial)
    return model, {"transition": jnp.full((1, 1), 0.9)}, jnp.asarray(series)


def hidden_markov():
    model = HiddenMarkov(2, NormalEmission())
    emission = {"mean": jnp.array([-1.0, 1.0]), "log_scale": jnp.zeros(2)}
    position = model.position(jnp.array([[0.95, 0.05], [0.1, 0.9]]), emission)
    return model, position, model.simulate(KEY, position, 2_000)[1]


def buffers():
    """The largest error of the gradient of all blocks of 20 rows."""
    for name, (model, position, series) in (
        ("autoregression", autoregression()),
        ("hidden Markov", hidden_markov()),
    ):
        exact = jax.jit(lambda x, y, f=model.log_likelihood: jax.grad(f)(x, y))(position, series)
        cells = []
        for buffer in BUFFERS:
            grad = Minibatch(model, Window(20, buffer))
            full = jax.jit(lambda x, y, grad=grad: grad.full(x, y).value)(position, series)
            gap, _ = jax.flatten_util.ravel_pytree(jax.tree.map(jnp.subtract, full, exact))
            cells.append(f"{gap[jnp.argmax(jnp.abs(gap))]:+.2g}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def particles(length=200, draws=100):
    """Mean error and deviation of the gradient in artanh phi, summed over all windows."""
    model = StochasticVolatility()
    position = model.position(mean=-1.0, persistence=0.95, scale=0.3)
    series = model.simulate_returns(KEY, position, length)[1]

    def gradients(batcher, num, draws):
        every, smoother = batcher.population(as_shard(series)).items, ParticleSmoother(model, num)

        def one(key):
            pairs = (every, smoother.draw(key, position, every, None))
            return model.per_item(position, pairs)["persistence"].sum()

        keys = jax.random.split(KEY, draws)
        return np.asarray(jax.jit(lambda keys: jax.lax.map(one, keys))(keys))

    exact = gradients(Window(40, 60), 1_000, 30).mean()
    print(f"gradient {exact:.2f}", flush=True)
    for size, buffer in ((40, 0), (40, 20), (None, 0)):
        cells = []
        for num in (10, 100):
            values = gradients(Window(size, buffer), num, draws)
            error = values.std(ddof=1) / np.sqrt(draws)
            cells.append(f"{values.mean() - exact:+.2f} ± {error:.2f} ({values.std():.2f})")
        print(f"| {size}, {buffer} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    buffers()
    particles()
