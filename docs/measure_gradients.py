"""Bias and cost of the gradient samplers: `python docs/measure_gradients.py`, a few minutes.

The posterior of a linear regression with known noise is Gaussian, so that the bias of a variance
needs no reference chain. A sweep over step sizes tells what an effective sample costs among those
whose variance is right to a tenth in every direction.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from sgmc_jax import (
    SVRG,
    ControlVariate,
    Full,
    LinearModel,
    Minibatch,
    Uniform,
    ess,
    hmc,
    mala,
    sample,
    sghmc,
    sgld,
    sgnht,
)

ITEMS, DIM, BATCH, CONDITION, EVERY, LEAPS = 1_000, 5, 50, 4.0, 40, 4
CHAINS, TOLERANCE = 64, 0.1


def problem():
    """Items whose posterior precision has eigenvalues from 1 to 4, and its exact moments."""
    rng = np.random.default_rng(0)
    precision = np.geomspace(1.0, CONDITION, DIM)
    x, _ = np.linalg.qr(rng.normal(size=(ITEMS, DIM)))
    x = x * np.sqrt(precision - 0.5)  # x'x + I / 2 is diagonal: coordinates are eigenvectors
    y = x @ np.ones(DIM) + rng.normal(size=ITEMS)
    return (x.astype(np.float32), y.astype(np.float32)), x.T @ y / precision, 1 / precision


DATA, MEAN, VARIANCE = problem()
MODEL = LinearModel(
    lambda w: -0.25 * w @ w, lambda eta, y: -0.5 * (y - eta) ** 2, lambda eta, y: y - eta
)
PLAIN, EXACT = Minibatch(MODEL, Uniform(BATCH)), Minibatch(MODEL, Full())
# one posterior standard deviation from the mode in every coordinate: a found mode is not exact
CENTRED = ControlVariate(PLAIN, jnp.asarray(MEAN + np.sqrt(VARIANCE), jnp.float32))
ESTIMATORS = {  # the estimator, gradients of items in a step as passes over the data, draws apart
    "minibatch": (PLAIN, BATCH / ITEMS, 5),
    "control variate": (CENTRED, 2 * BATCH / ITEMS, 1),
    "SVRG": (SVRG(PLAIN, EVERY), 2 * BATCH / ITEMS + 1 / EVERY, 1),
}


def start(key):
    """A draw from the posterior: what is measured is where chains stay, not how they arrive."""
    return jnp.asarray(MEAN + np.sqrt(VARIANCE) * jax.random.normal(key, (DIM,)), jnp.float32)


def sweep(make, steps, cost, thin):
    """The worst ratio of a variance, and passes over the data an effective sample, by step size."""
    run = sample(
        jax.random.key(0),
        eqx.filter_vmap(make)(jnp.asarray(steps, jnp.float32)),
        start,
        DATA,
        num_steps=2_000 * thin,
        num_chains=CHAINS,
        thin=thin,
        burn_in=200 * thin,
        kernel_axis=0,
    )
    for h, draws, finite in zip(steps, run.trace, run.info.finite):
        if not finite.all():
            continue
        ratio = draws.var((0, 1)) / VARIANCE
        worst = float(ratio[np.argmax(np.abs(np.log(ratio)))])
        # of the squares too: a sampler that jumps from side to side knows means alone
        centred = jnp.asarray(draws - MEAN.astype(np.float32))
        size = float(jnp.min(ess(jnp.stack([centred, centred**2], axis=-1), kind="mean")))
        yield float(h), worst, cost * thin * CHAINS * draws.shape[1] / size


def cases():
    for name, (grad, cost, thin) in ESTIMATORS.items():
        plain = name == "minibatch"
        steps = np.geomspace(0.0015, 0.006, 5) if plain else np.geomspace(0.02, 0.2, 6)
        yield "sgld", name, lambda h, g=grad: sgld(g, h), steps, cost, thin
        steps = np.geomspace(0.004, 0.02, 5) if plain else np.geomspace(0.08, 0.7, 6)
        yield "sghmc", name, lambda h, g=grad: sghmc(g, h, friction=2.0), steps, cost, thin
        yield "sgnht", name, lambda h, g=grad: sgnht(g, h, friction=2.0), steps, cost, thin
    yield "mala", "all items", lambda h: mala(EXACT, h), np.geomspace(0.1, 0.5, 5), 1.0, 1
    hamiltonian = lambda h: hmc(EXACT, h, LEAPS)
    yield "hmc", "all items", hamiltonian, np.geomspace(0.16, 0.5, 6), float(LEAPS), 1


def main():
    rows = []
    for sampler, estimator, make, steps, cost, thin in cases():
        figures = list(sweep(make, steps, cost, thin))
        print(sampler, estimator, [tuple(round(x, 4) for x in row) for row in figures], flush=True)
        fit = [row for row in figures if abs(row[1] - 1) <= TOLERANCE]
        rows.append((sampler, estimator, min(fit, key=lambda row: row[2], default=None)))
    base = rows[-1][2][2]
    print(
        "| sampler | gradient | step size | variance, ratio | passes / effective sample | / hmc |"
    )
    print("|---|---|---|---|---|---|")
    for sampler, estimator, found in rows:
        h, ratio, cost = found or (np.nan,) * 3
        figures = f"{h:.2g} | {ratio:.2f} | {cost:.2g} | {cost / base:.2g}"
        print(f"| `{sampler}` | {estimator} | {figures} |")


if __name__ == "__main__":
    main()
