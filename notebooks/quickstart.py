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
# # Quickstart
#
# A logistic regression on the breast-cancer data: the model as two functions, 64 chains of a
# stochastic gradient sampler side by side, what their table says, predictions for patients who
# were kept out, and the same posterior from exact Hamiltonian Monte Carlo. With so few patients the
# exact sampler is the one to take; here it shows what the other one's bias is, and how the run
# tells.

# %%
from functools import partial

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

from sgmc_jax import ControlVariate, Full, FunctionModel, Minibatch, Uniform, hmc, sample, sghmc
from sgmc_jax.tune import laplace

KEYS = jax.random.split(jax.random.key(0), 3)
cancer = load_breast_cancer()
NAMES = ["radius", "texture", "smoothness", "concavity", "symmetry"]
columns = [list(cancer.feature_names).index(f"mean {name}") for name in NAMES]
x = cancer.data[:, columns].astype(np.float32)
y = (cancer.target == 0).astype(np.float32)  # 1 is malignant
order = np.random.default_rng(0).permutation(len(y))
train, test = order[:449], order[449:]
x = (x - x[train].mean(0)) / x[train].std(0)
data, held_out = (x[train], y[train]), (x[test], y[test])
print(f"{len(train)} patients to learn from, {len(test)} kept out, {y.mean():.0%} malignant")

# %% [markdown]
# ## The model
#
# The log density of the prior, and the log likelihood of one item, up to constants. With
# $\eta = b + x^\top w$ an item has $\log p(y \mid x) = y\eta - \log(1 + e^\eta)$, and all
# coefficients have the prior $\mathcal N(0, 4)$. The position is a dict; any pytree would do.


# %%
def logit(position, x):
    return position["intercept"] + x @ position["slope"]


def logprior(position):
    return -0.125 * (position["intercept"] ** 2 + jnp.sum(position["slope"] ** 2))


def loglik(position, item):
    x, y = item
    eta = logit(position, x)
    return y * eta - jnp.logaddexp(0.0, eta)


model = FunctionModel(logprior, loglik)

# %% [markdown]
# ## 64 chains
#
# `laplace` finds the mode of the posterior and its scale there. A sampler is a kernel on an
# estimator of the gradient: here of 64 items a step, less their gradient at the mode, whose sum
# over all items is known (the control variate). The data is an argument of `sample`. Chains begin
# around the mode, two posterior standard deviations away, so that R-hat has something to say.

# %%
start = {"intercept": jnp.zeros(()), "slope": jnp.zeros(len(NAMES))}
fit = laplace(KEYS[0], model, start, data)
dispersed = partial(fit.draw, spread=2.0)  # a function of a key

grad = ControlVariate(Minibatch(model, Uniform(64)), centre=fit.mode)
kernel = sghmc(grad, step_size=0.3, friction=1.0, space=fit.space)
run = sample(KEYS[1], kernel, dispersed, data, num_steps=1_000, burn_in=200, num_chains=64)
print(run.summary())

# %% [markdown]
# ## The exact posterior
#
# `hmc` takes all items in every gradient and has a Metropolis test: it has no bias.

# %%
exact = hmc(Minibatch(model, Full()), step_size=0.4, num_integration_steps=4, space=fit.space)
reference = sample(KEYS[2], exact, dispersed, data, num_steps=500, burn_in=100, num_chains=64)
table, other = run.summary(), reference.summary()
for i, name in enumerate(table.names):
    error = (table.columns["mean"][i] - other.columns["mean"][i]) / other.columns["sd"][i]
    ratio = table.columns["sd"][i] / other.columns["sd"][i]
    print(f"{name:10s} mean off by {error:+.3f} sd, ratio of sds {ratio:.3f}")
gradients = {"sghmc": 64 * 800 * 2 * 64, "hmc": 64 * 400 * 4 * len(train)}  # of single items
for (name, number), columns in zip(gradients.items(), (table.columns, other.columns)):
    print(f"{name:5s} {1e6 * columns['ess_bulk'].min() / number:.0f} effective draws a million")

# %%
fig, axes = plt.subplots(2, 3, figsize=(9, 4.6), layout="constrained")
axes[0, 0].plot(run.trace["slope"][:3, :300, 0].T, linewidth=0.7)
axes[0, 0].set(title="three chains of the slope of radius", xlabel="draw")
draws = {"sghmc, 64 items": run.trace, "hmc, all items": reference.trace}
for ax, name, i in zip(axes.ravel()[1:], NAMES, range(5)):
    for (label, trace), color in zip(draws.items(), ("#0072b2", "#d55e00")):
        values = trace["slope"][..., i].ravel()
        ax.hist(values, 80, density=True, histtype="step", color=color, label=label)
    ax.set(title=f"slope of {name}", xlabel="per standard deviation", yticks=[])
axes[0, 1].legend(fontsize=7, loc="upper right")
plt.show()

# %% [markdown]
# ## Patients who were kept out
#
# The probability of a new label is the mean over draws of $1 / (1 + e^{-\eta})$.
# (`models.LogisticRegression` is this model ready-made, and its `predict` and `log_loss` are what
# follows.)

# %%
thinned = jax.tree.map(lambda x: x[:, ::20].reshape(-1, *x.shape[2:]), run.trace)
each = jax.nn.sigmoid(jax.vmap(lambda draw: logit(draw, held_out[0]))(thinned))
chance, spread = np.asarray(each.mean(0)), np.asarray(each.std(0))
told = np.where(held_out[1] == 1, chance, 1 - chance)
right = (chance > 0.5) == (held_out[1] == 1)
print(f"{right.sum()} of {len(told)} right, log loss {-np.log(told).mean():.3f}")
i = spread.argmax()
print(f"least sure of a patient with probability {chance[i]:.2f}, sd {spread[i]:.2f}")

# %% [markdown]
# ## What to make of it
#
# - R-hat is near 1 and there are thousands of effective draws: the 64 chains know their own law.
# - Whether that is the posterior is told by the excess temperature, how much too hot the chains
#   are: .09, of which $h^2 / 4$, .02 at a step of .3, belongs to the momenta and does not widen
#   what is drawn. The rest is the noise of 64 of 449 items, and makes variances about so much too
#   large. The comparison with `hmc` agrees: standard deviations are some per cent too large, means
#   right to some hundredths of one. A smaller step makes all of it smaller.
# - For each gradient of an item `sghmc` gave 1.7 times as many effective draws as `hmc`. With 449
#   items that hardly matters, and `tune.default_kernel` would have chosen `hmc`: it has no bias.
#
# Where to go next: [control variates](control_variates.ipynb) and
# [a million items](million_items.ipynb) show where minibatches pay, [tuning](tuning.ipynb) how a
# step size is found. A posterior of your own, step by step, is in the
# [guide](../docs/guide/first_posterior.md).
