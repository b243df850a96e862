"""Bias on a sphere by sampler and step size: `python docs/measure_manifolds.py`, a few minutes.

A von Mises-Fisher law on S^2 with kappa 5, by the exact gradient and by one with noise 10 I; errors
of E mu.x, which is .80009, relative to it, and their Monte-Carlo errors.
"""

import jax
import jax.numpy as jnp
import numpy as np

from sgmc_jax import (
    Full,
    FunctionModel,
    Minibatch,
    Sphere,
    Uniform,
    gmc,
    gsgnht,
    sample,
    sggmc,
    sgld,
)

KAPPA, NOISE, FRICTION = 5.0, 10.0, 2.0
MEAN = 1 / np.tanh(KAPPA) - 1 / KAPPA
CHAINS, STEPS = 1_024, 4_000

ITEMS = np.sqrt(NOISE / 12) * np.concatenate([np.eye(3), -np.eye(3)]).astype(np.float32)
EXACT = Minibatch(FunctionModel(lambda x: KAPPA * x[0]), Full())
NOISY = Minibatch(FunctionModel(lambda x: KAPPA * x[0], lambda x, z: z @ x), Uniform(1))
V = {"noise_covariance": NOISE}

KERNELS = {
    "`gmc`, 3 leapfrog steps": lambda grad, h, more: gmc(grad, Sphere(), h, 3),
    "`sgld(space=...)`": lambda grad, h, more: sgld(grad, h**2 / 2, space=Sphere(), **more),
    "`sggmc`, ABOBA": lambda grad, h, more: sggmc(grad, Sphere(), h, FRICTION, **more),
    "`sggmc`, AFBNFA": lambda grad, h, more: sggmc(
        grad, Sphere(), h, FRICTION, word="AFBNFA", **more
    ),
    "`gsgnht`": lambda grad, h, more: gsgnht(grad, Sphere(), h, FRICTION, **more),
}
CASES = [(EXACT, None, {}), (NOISY, ITEMS, {}), (NOISY, ITEMS, V)]


def error(kernel, data):
    start = jnp.array([1.0, 0.0, 0.0])
    args = {"num_chains": CHAINS, "num_steps": STEPS, "burn_in": STEPS // 10}
    run = sample(
        jax.random.key(0), kernel, start, data, reduce=lambda state, info: state.position[0], **args
    )
    means = np.asarray(run.trace.mean, float) / MEAN - 1
    return f"{100 * means.mean():+.2f} ± {100 * means.std() / np.sqrt(CHAINS):.2f}"


def main():
    print("| kernel | h | exact gradient | noise 10 I | and subtracted |")
    print("|---|---|---|---|---|")
    for name, make in KERNELS.items():
        for h in (0.05, 0.2, 0.5):
            cells = []
            for grad, data, more in CASES:
                try:
                    cells.append(error(make(grad, h, more), data))
                except ValueError:
                    cells.append("")
            print(f"| {name} | {h} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
