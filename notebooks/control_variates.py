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
import numpy as np

from sgmc_jax import ControlVariate, Full, Minibatch, Uniform, ess, hmc, sample, sghmc, sgld
from sgmc_jax.models import LogisticRegression
from sgmc_jax.tune import laplace

KEYS = jax.random.split(jax.random.key(0), 6)
N, n, DIM = 10_000, 100, 5
model = LogisticRegression()
theta, data = model.simulate(KEYS[0], N, DIM, position=jnp.array([1.0, -1.0, 0.5, 0.0, 2.0]))

# %% [markdown]
# `laplace` finds the mode, and a metric in which the posterior has a covariance of about $I$. All
# samplers here move in that metric, so that one step size suits all directions. The reference is
# `hmc` with all items in each gradient and a Metropolis test: it has no bias.

# %%
fit = laplace(KEYS[1], model, jnp.zeros(DIM), data)
exact = hmc(Minibatch(model, Full()), 0.5, 3, space=fit.space)
args = {"num_chains": 16, "burn_in": 100}
reference = sample(KEYS[2], exact, fit.draw, data, num_steps=1_100, **args)
print(f"accepted {reference.info.kernel.accepted.mean():.0%}")
print("the exact posterior's sds:", reference.trace.std((0, 1)).round(4))

# %% [markdown]
# ## The noise of a minibatch
#
# The plain estimate from a batch $S$ of $n$ of $N$ items is
# $$\hat g(x) = \nabla \log p(x) + \frac{N}{n} \sum_{i \in S} \nabla \log p(y_i \mid x).$$
# Its covariance $V$ is of order $N^2 / n$, while the curvature $\lambda$ of the log posterior is
# of order $N$ only: in units of the posterior $\lambda = 1$, and $V$ is of order $N / n$. The
# control variate takes the difference to a centre $c$ near the mode, whose sum over all items is
# known,
# $$\hat g(x) = \nabla \log p(x) + \sum_{i=1}^N \nabla \log p(y_i \mid c)
#   + \frac{N}{n} \sum_{i \in S} \big(\nabla \log p(y_i \mid x) - \nabla \log p(y_i \mid c)\big).$$
# Its covariance is of order $N^2 |x - c|^2 / n$, and in the posterior $|x - c|^2$ is of order
# $1 / N$: smaller by a factor of order $N$. So measured, over draws of the posterior:

# %%
plain = Minibatch(model, Uniform(n))
control = ControlVariate(plain, centre=fit.mode)
places = jnp.asarray(reference.trace[:, ::200].reshape(-1, DIM))


@jax.jit
def noise(grad):
    """The mean variance of a coordinate of the estimate, in units of the posterior."""

    def at(key, place):
        memory = grad.init(key, place, data)
        estimate = lambda key: (
            fit.space.cholesky.T @ grad.estimate(key, memory, place, data)[0].value
        )
        return jax.vmap(estimate)(jax.random.split(key, 500)).var(0).mean()

    each = jax.lax.map(lambda both: at(*both), (jax.random.split(KEYS[3], len(places)), places))
    return each.mean(), each.min(), each.max()


V = {}
for name, grad in {"plain": plain, "control variate": control}.items():
    V[name], low, high = map(float, noise(grad))
    print(f"V = {V[name]:.3g} {name} (from {low:.3g} to {high:.3g})")

# %% [markdown]
# ## What the noise does
#
# A step of `sgld` is $x \leftarrow x + h \hat g(x) + \mathcal N(0, 2h)$. The noise of $\hat g$ has
# variance $h^2 V$ beside the $2h$ that belong there, so that the chain is too hot by the share
# $hV / 2$: this is the *excess temperature*, which every run tells, and about the share by which
# variances are too large. To halve it halve $h$, and wait twice as long for an effective draw.
#
# Chains begin at exact draws, so that nothing here is for want of burn-in. The error of a variance
# is from the differences between chains, of the reference too.

# %%
h = 0.06
print(", ".join(f"h V / 2 = {h * v / 2:.4f} {name}" for name, v in V.items()), end="\n\n")
kernels = {
    "sgld, plain": sgld(plain, h, space=fit.space),
    "sgld, plain, h / 30": sgld(plain, h / 30, space=fit.space),
    "sgld, control variate": sgld(control, h, space=fit.space),
    "sghmc, control variate": sghmc(control, 0.5, 1.0, space=fit.space),
}
start, runs = reference.state.position, {}
for name, kernel in kernels.items():
    args = {"num_steps": 4_500, "burn_in": 500, "num_chains": 16}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        runs[name] = sample(KEYS[4], kernel, start, data, **args, position_axis=0)
    for warning in said:
        print(f"{name} warns: {warning.message}\n")
runs["hmc, all items"] = reference
gradients = dict(zip(runs, (n, n, 2 * n, 2 * n, 3 * N)))  # of single items, each step


def variances(trace):
    """In units of the posterior, about the mean of all chains, averaged over coordinates."""
    z = np.linalg.solve(fit.space.cholesky, (trace - trace.mean((0, 1))).reshape(-1, DIM).T)
    each = (z**2).reshape(DIM, len(trace), -1).mean((0, 2))
    return each.mean(), each.std(ddof=1) / len(each) ** 0.5


exactly, its_error = variances(reference.trace)
print(f"{'':24s}{'variance':^16s}  excess temperature  draws a million gradients")
for name, run in runs.items():
    wide, error = variances(run.trace)
    error = np.hypot(error, its_error) if run is not reference else its_error
    number = gradients[name] * run.trace.shape[0] * run.trace.shape[1]
    rate = 1e6 * ess(run.trace).min() / number
    hot = run.summary().excess_temperature
    shown = f"{wide / exactly:.3f} +- {error:.3f}"
    print(f"{name:24s}{shown:16s}  {'-' if hot is None else f'{hot:.3f}':>16}  {rate:18.1f}")

# %%
colors = ("#e69f00", "#009e73", "#cc79a7", "#0072b2", "#333333")
fig, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
for j, ax in enumerate(axes):
    for (name, run), color in zip(runs.items(), colors):
        values = run.trace[..., j].ravel()
        ax.hist(values, 60, density=True, histtype="step", color=color, label=name)
    ax.set(title=f"coefficient {j + 1}", yticks=[], xlabel="value")
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8)
plt.show()

# %% [markdown]
# ## How to read the table
#
# - **Plain, large step.** $hV/2$ foretells an excess of 2.9, the run tells about 3, and variances
#   are four times those of the posterior. An effective sample size does not see this: for each
#   gradient it has more draws than most of the others, of another law.
# - **Plain, a thirtieth of the step.** Variances are a tenth too large, as foretold, and effective
#   draws are rarer for each gradient than those of `hmc`, which is exact.
# - **Control variates.** $V$ is a thousand times smaller. What is left, a few per cent, is the
#   bias of the step itself, $h / 2$, not the noise. Per gradient there are several times as many
#   effective draws as `hmc` has.
# - **With momentum.** Now that the noise is small, `sghmc` may take long steps: some forty times as
#   many effective draws as `hmc`, and variances too large by a few per cent: $hV / 2C$, of friction
#   $C$, is .02, and more in the tails, where $V$ is larger. (Of its excess temperature $h^2 / 4$
#   belongs to the momenta.)
#
# Not counted are the search for the mode and burn-in: chains begin at exact draws. The sum over all
# items at the centre costs a pass, once. Where there is no good centre, `SVRG` moves it along with
# the chain. What each sampler's bias is, and how to know a bad run, is in the guide:
# [choosing](../docs/guide/choosing.md), [bad runs](../docs/guide/bad_runs.md). The same with
# [a million items](million_items.ipynb), and [how settings are found](tuning.ipynb).
