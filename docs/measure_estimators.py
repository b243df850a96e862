"""The noise of gradient estimators: `python docs/measure_estimators.py`, minutes.

A logistic regression whose rows differ in length and whose two classes differ in number. The noise
of an estimate is the trace of its covariance, at draws of a chain, as a ratio to plain minibatches
of the same number of gradients of items; the chain is a `sgld` with small steps.
"""

import jax
import jax.numpy as jnp
import numpy as np

from sgmc_jax import (
    SAGA,
    SVRG,
    ControlVariate,
    LinearModel,
    Minibatch,
    Stratified,
    Uniform,
    Weighted,
    find_mode,
    neyman_sizes,
    optimal_probabilities,
    sample,
    sgld,
)

ITEMS, DIM, BATCH, POINTS, DRAWS = 10_000, 5, 100, 20, 500
KEY = jax.random.key(0)
MODEL = LinearModel(
    lambda w: -0.5 * w @ w,
    lambda eta, y: y * eta - jnp.logaddexp(0.0, eta),
    lambda eta, y: y - jax.nn.sigmoid(eta),
)


def problem():
    """Rows of lognormal lengths with an intercept, and one label in ten a success."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ITEMS, DIM)) * rng.lognormal(0.0, 0.7, (ITEMS, 1))
    x[:, 0] = 1.0
    eta = x @ np.array([-3.0, 1.0, -1.0, 0.5, 0.0])
    y = rng.random(ITEMS) < 1 / (1 + np.exp(-eta))
    return jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)


def noise(grad, data, start):
    """The mean over a chain of the trace of the covariance, given the estimator's state."""
    record = lambda state, info: (state.position, state.estimator)
    args = {"num_steps": 1_000 + 100 * POINTS, "thin": 100, "burn_in": 1_000, "record": record}
    positions, states = sample(KEY, sgld(grad, 2e-5), start, data, **args).trace
    one = lambda key, x, s: grad.estimate(key, s, x, data)[0].value
    every = jax.jit(jax.vmap(one, (0, None, None)))
    keys, total = jax.random.split(KEY, DRAWS), 0.0
    for i in range(POINTS):
        position, state = jax.tree.map(lambda x, i=i: jnp.asarray(x[i]), (positions, states))
        values = np.asarray(every(keys, position, state), np.float64)
        total += values.var(0, ddof=1).sum() / POINTS
    return total


def main():
    data = problem()
    mode = find_mode(KEY, MODEL, jnp.zeros(DIM), data)
    labels = np.asarray(data[1], int)
    best = optimal_probabilities(MODEL, mode, data)
    lengths = jnp.sum(data[0] ** 2, axis=1)
    plain = Minibatch(MODEL, Uniform(BATCH))
    half = Minibatch(MODEL, Uniform(BATCH // 2))
    estimators = {
        "Minibatch, Uniform": plain,
        "Minibatch, Stratified by label, proportional": Minibatch(MODEL, Stratified(BATCH, labels)),
        "Minibatch, Stratified by label, Neyman": Minibatch(
            MODEL, Stratified(neyman_sizes(MODEL, mode, data, labels, BATCH), labels)
        ),
        "Minibatch, Weighted, optimal": Minibatch(MODEL, Weighted(BATCH, best)),
        "SAGA": SAGA(plain),
        "SVRG, every 200": SVRG(half, 200),
        "ControlVariate": ControlVariate(half, mode),
        "ControlVariate, Weighted, squared lengths": ControlVariate(
            Minibatch(MODEL, Weighted(BATCH // 2, lengths)), mode
        ),
    }
    base = None
    for name, grad in estimators.items():
        figure = noise(grad, data, mode)
        base = base or figure
        print(f"| {name} | {figure / base:.2g} |", flush=True)


if __name__ == "__main__":
    main()
