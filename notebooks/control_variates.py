# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     name: python3
# ---

# %% [markdown]
# # Control variates, and why
#
# A stochastic gradient sampler adds noise of its own to follow the posterior. The minibatch adds
# more, which nobody asked for, and the draws are too wide by it. Here: how much too wide, how the
# run tells, what a control variate does about it, and what an effective draw costs in gradients.

# %%
import warnings

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt

from sgmc_jax import (
    ControlVariate,
    Full,
    Minibatch,
    Uniform,
    ess,
    find_mode,
    hmc,
    sample,
    sghmc,
    sgld,
)
from sgmc_jax.models import LogisticRegression

KEYS = jax.random.split(jax.random.key(0), 6)
N, n, DIM = 10_000, 100, 5
model = LogisticRegression()
theta, data = model.simulate(KEYS[0], N, DIM, position=jnp.array([1.0, -1.0, 0.5, 0.0, 2.0]))
mode = find_mode(KEYS[1], model, model.start(data), data)
low, high = model.curvature_bounds(data)
print(f"curvature of the log posterior: at most {high:.0f}")
exact = hmc(Minibatch(model, Full()), 0.7 / jnp.sqrt(high), 4)
reference = sample(KEYS[2], exact, mode, data, num_steps=600, burn_in=100, num_chains=16)
print("the exact posterior's sds:", reference.trace.std((0, 1)).round(4))

# %% [markdown]
# ## The noise of a minibatch
#
# The plain estimate from a batch $S$ of $n$ of $N$ items is
# $$\hat g(x) = \nabla \log p(x) + \frac{N}{n} \sum_{i \in S} \nabla \log p(y_i \mid x).$$
# Its covariance $V$ is of order $N^2 / n$, while the curvature $\lambda$ of the log posterior is
# of order $N$ only. The control variate takes the difference to a centre $c$ near the mode, whose
# sum over all items is known,
# $$\hat g(x) = \nabla \log p(x) + \sum_{i=1}^N \nabla \log p(y_i \mid c)
#   + \frac{N}{n} \sum_{i \in S} \big(\nabla \log p(y_i \mid x) - \nabla \log p(y_i \mid c)\big).$$
# Its covariance is of order $N^2 |x - c|^2 / n$, and in the posterior $|x - c|^2$ is of order
# $1 / N$: smaller by a factor of order $N$.

# %%
plain = Minibatch(model, Uniform(n))
control = ControlVariate(plain, centre=mode)
near = reference.trace[0, -1]  # a point of the posterior


@jax.jit
def noise(grad):
    """The mean variance of a coordinate of the estimate."""
    memory = grad.init(KEYS[3], near, data)
    estimate = lambda key: grad.estimate(key, memory, near, data)[0].value
    return jax.vmap(estimate)(jax.random.split(KEYS[3], 1_000)).var(0).mean()


V = {"plain": float(noise(plain)), "control variate": float(noise(control))}
print(f"V = {V['plain']:.0f} plain, {V['control variate']:.0f} with a control variate")

# %% [markdown]
# ## What the noise does
#
# A step of `sgld` is $x \leftarrow x + h \hat g(x) + \mathcal N(0, 2h)$. The noise of $\hat g$ has
# variance $h^2 V$ beside the $2h$ that belong there, so that the chain is too hot by the share
# $hV / 2$: this is the *excess temperature*, which every run tells, and about the share by which
# variances are too large. To halve it halve $h$, and wait twice as long for an effective draw.

# %%
h = 0.2 / high
print(", ".join(f"h V / 2 = {h * v / 2:.4f} {name}" for name, v in V.items()), end="\n\n")
kernels = {
    "sgld, plain": sgld(plain, h),
    "sgld, plain, h / 30": sgld(plain, h / 30),
    "sgld, control variate": sgld(control, h),
    "sghmc, control variate": sghmc(control, 0.4 / jnp.sqrt(high), 0.5 * jnp.sqrt(high)),
}
start, runs = reference.state.position, {}  # exact draws, one for each chain
for name, kernel in kernels.items():
    args = {"num_steps": 4_500, "burn_in": 500, "num_chains": 16}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        runs[name] = sample(KEYS[4], kernel, start, data, **args, position_axis=0)
    for warning in said:
        print(f"{name} warns: {warning.message}\n")
runs["hmc, all items"] = reference
gradients = dict(zip(runs, (n, n, 2 * n, 2 * n, 4 * N)))  # of single items, each step

wide = reference.trace.var((0, 1))
print("                        variance  excess temperature  draws a million gradients")
for name, run in runs.items():
    ratio = (run.trace.var((0, 1)) / wide).mean()
    number = gradients[name] * run.trace.shape[0] * run.trace.shape[1]
    rate = 1e6 * ess(run.trace).min() / number
    hot = run.summary().excess_temperature
    print(f"{name:24s}{ratio:7.2f}  {'-' if hot is None else f'{hot:.3f}':>16}  {rate:18.1f}")

# %%
colors = ("#e69f00", "#009e73", "#56b4e9", "#0072b2", "#333333")
fig, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained")
for j, ax in enumerate(axes):
    for (name, run), color in zip(runs.items(), colors):
        values = run.trace[..., j].ravel()
        ax.hist(values, 60, density=True, histtype="step", color=color, label=name)
    ax.set(title=f"coefficient {j + 1}", yticks=[])
axes[0].legend(fontsize=6, loc="upper left")
plt.show()

# %% [markdown]
# ## How to read the table
#
# - **Plain, large step.** $hV/2$ foretells an excess of 3.3, the run tells 3.4, and the variances
#   are 3.9 times those of the posterior. An effective sample size does not see this: for each
#   gradient it has more draws than most of the others, of another law.
# - **Plain, a thirtieth of the step.** The variances are about right, and effective draws are rarer
#   for each gradient than those of `hmc`, which is exact. (A few dozen in all, so that its figures
#   are rough.)
# - **Control variates.** $V$ is 4,300 times smaller. What is left of the excess comes from the step
#   size, not from the noise. Per gradient there are 9 times as many effective draws as `hmc` has.
# - **With momentum.** Now that the noise is small, `sghmc` may take longer steps: 35 times as many
#   as `hmc`, and variances right to a hundredth or so.
#
# The centre has to be found first, once, and the sum over all items there costs a pass. Where there
# is no good centre, `SVRG` moves it along with the chain.
