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
# # On manifolds
#
# Directions, frames, covariances and trees: positions that are not free to go anywhere. A space
# tells a sampler what straight on means, and the words stay as they are in flat space.

# %%
from dataclasses import replace

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from sgmc_jax import (
    SPD,
    Full,
    FunctionModel,
    Hyperboloid,
    Minibatch,
    Positive,
    Product,
    Sphere,
    Stiefel,
    Uniform,
    gmc,
    gsgnht,
    rhat,
    sample,
    sggmc,
)
from sgmc_jax.random import von_mises_fisher

KEY = jax.random.key(0)

# %% [markdown]
# ## Directions, from noisy gradients
#
# A von Mises-Fisher law on the sphere, known by a gradient whose noise has the covariance $20\,I$.
# Left alone the noise heats the chain; `noise_covariance` subtracts it from the sampler's own; the
# thermostat takes it up without being told. The cosine to the mean has a density in closed form.

# %%
kappa, noise = 10.0, 20.0
mean = jnp.array([0.0, 0.0, 1.0])
items = jnp.sqrt(noise / 12) * jnp.concatenate([jnp.eye(3), -jnp.eye(3)])
grad = Minibatch(FunctionModel(lambda x: kappa * mean @ x, lambda x, z: z @ x), Uniform(1))
kernels = {
    "as it comes": sggmc(grad, Sphere(), 0.05, 2.0),
    "subtracted": sggmc(grad, Sphere(), 0.05, 2.0, noise_covariance=noise),
    "thermostat": gsgnht(grad, Sphere(), 0.05, 2.0),
}
args = {"num_steps": 2_000, "burn_in": 200, "thin": 10, "num_chains": 32}
draws = {name: sample(KEY, k, mean, items, **args).trace for name, k in kernels.items()}
draws["exact"] = von_mises_fisher(KEY, mean, kappa, (32, 180))

fig, axes = plt.subplots(1, 2, figsize=(9, 3.5))
axes[0].remove()
ball = fig.add_subplot(1, 2, 1, projection="3d")
u, v = np.meshgrid(np.linspace(0, 2 * np.pi, 40), np.linspace(0, np.pi, 20))
ball.plot_wireframe(
    np.cos(u) * np.sin(v), np.sin(u) * np.sin(v), np.cos(v), color="0.8", linewidth=0.4
)
points = np.asarray(draws["subtracted"])[:, ::6].reshape(-1, 3)
ball.scatter(*points.T, s=2, c=points[:, 2])
ball.set_box_aspect((1, 1, 1)), ball.set_axis_off()
for name, trace in draws.items():
    axes[1].hist(np.asarray(trace)[..., 2].ravel(), 60, density=True, histtype="step", label=name)
    print(f"{name:12s} mean of the cosine {np.asarray(trace)[..., 2].mean():.4f}")
cosine = np.linspace(0.2, 1, 200)
exact = kappa * np.exp(kappa * (cosine - 1)) / (1 - np.exp(-2 * kappa))
axes[1].plot(cosine, exact, "k", linewidth=0.8), axes[1].legend(), axes[1].set_xlim(0.2, 1)
axes[1].set_xlabel("cosine of the angle to the mean")
plt.show()

# %% [markdown]
# ## Frames: principal components with their errors
#
# Digits of 64 pixels, $y \sim \mathcal N(0,\; U \mathrm{diag}(s^2) U^\top + \sigma^2 I)$ with $U$
# of four orthonormal columns, on a Stiefel manifold, and positive $s$ and $\sigma$: a product of
# spaces. The likelihood needs the items' second moments alone. The prior is flat in $s$ and
# $\log \sigma$: one flat in $\log s$ would leave infinite mass near $s = 0$. Each chain begins
# with a frame of its own, drawn uniformly.

# %%
digits = load_digits().data.astype(np.float32)[:300]
digits -= digits.mean(0)
second, num, rank = jnp.asarray(digits.T @ digits), len(digits), 4
space = Product({"frame": Stiefel(), "scale": Positive(), "noise": Positive()})


def log_density(x):
    s2, noise2 = x["scale"] ** 2, x["noise"] ** 2
    along = jnp.sum(x["frame"] * (second @ x["frame"]), axis=0)
    log_det = jnp.sum(jnp.log(s2 + noise2)) + (64 - rank) * jnp.log(noise2)
    quadratic = (jnp.trace(second) - jnp.sum(s2 / (s2 + noise2) * along)) / noise2
    return jnp.sum(jnp.log(x["scale"])) - (num * log_det + quadratic) / 2  # s in units of log s


def begin(key):
    frame = Stiefel().random_point(key, jnp.zeros((64, rank)))
    return {"frame": frame, "scale": jnp.full(rank, 10.0), "noise": jnp.array(4.0)}


kernel = gmc(Minibatch(FunctionModel(log_density), Full()), space, 0.005, 80)
run = sample(KEY, kernel, begin, None, num_steps=800, burn_in=100, num_chains=4)

# %% [markdown]
# The density is the same if columns change places, each with its scale, or signs. So each draw's
# columns are put in the order of their scales, and given the signs of the sample's own principal
# components, before anything is averaged. `cosine` is that of the angle between the two.

# %%
values, vectors = (x[..., ::-1] for x in np.linalg.eigh(np.asarray(second, float) / num))
order = np.argsort(-run.trace["scale"], axis=-1)
scales = np.take_along_axis(run.trace["scale"], order, -1)
frames = np.take_along_axis(run.trace["frame"], order[..., None, :], -1)
cosines = np.einsum("cdik,ij->cdkj", frames, vectors[:, :rank])
own = np.diagonal(cosines, axis1=-2, axis2=-1)
frames = frames * np.sign(own)[..., None, :]
print(replace(run, trace={"scale": scales, "cosine": np.abs(own)}).summary())
print("scales of the largest likelihood", np.sqrt(values[:rank] - values[rank:].mean()).round(1))
print(f"mean squared cosine of the spans {(cosines**2).sum((-2, -1)).mean() / rank:.3f}")

rows = {"sample": vectors[:, :rank], "mean": frames.mean((0, 1)), "sd": frames.std((0, 1))}
fig, axes = plt.subplots(3, rank, figsize=(6, 4.6), layout="constrained")
for row, (name, columns) in zip(axes, rows.items()):
    limits = {"vmin": 0, "vmax": 0.3} if name == "sd" else {"vmin": -0.3, "vmax": 0.3}
    for ax, column in zip(row, columns.T):
        ax.imshow(column.reshape(8, 8), cmap="gray", **limits)
        ax.set(xticks=[], yticks=[])
    row[0].set_ylabel(name)
plt.show()

# %% [markdown]
# The first three scales differ by little more than their errors, so that their columns turn into
# one another within the posterior: their means are pale, and their errors large. The fourth is
# better known, and the space that all four span is known best.
#
# ## Covariances
#
# Twelve points in three dimensions and an inverse Wishart prior: the posterior is inverse Wishart,
# so that there is something to compare with. Its density in the entries is told of the volume by
# `log_element`.

# %%
y = np.random.default_rng(0).normal(size=(12, 3)) @ np.array([[2, 0, 0], [1, 1, 0], [0, 0.5, 0.5]])
scatter, degrees, spd = jnp.eye(3) + jnp.asarray(y.T @ y, jnp.float32), 5 + len(y), SPD()


def log_inverse_wishart(p):
    return -((degrees + 4) * jnp.linalg.slogdet(p)[1] + jnp.trace(jnp.linalg.solve(p, scatter))) / 2


density = FunctionModel(lambda p: log_inverse_wishart(p) - spd.log_element(p))
kernel = gmc(Minibatch(density, Full()), spd, 0.2, 5)
run = sample(KEY, kernel, jnp.eye(3), None, num_steps=2_000, burn_in=200, num_chains=8)
print("drawn", run.trace.mean((0, 1)).round(2), sep="\n")
print("exact", np.asarray(scatter / (degrees - 4)).round(2), sep="\n")

# %% [markdown]
# ## Trees
#
# A binary tree of 31 nodes fits the hyperbolic plane, whose circles grow as trees do. Two nodes
# are joined with log odds $2 (2 - \text{distance})$, and the model sees which are. Chains begin at
# random places. They move slowly from one layout to another, as R-hat says of the distance of
# joined nodes. On the disc is the last draw of one chain.

# %%
edges = np.array([[(i - 1) // 2, i] for i in range(1, 31)])
joined = jnp.zeros((31, 31)).at[edges[:, 0], edges[:, 1]].set(1.0)
pairs = jnp.triu(jnp.ones((31, 31)), 1)


def log_tree(x):
    cosh = x[:, :1] * x[:, 0] - x[:, 1:] @ x[:, 1:].T
    distance = jnp.arccosh(jnp.maximum(cosh, 1 + 1e-6))
    odds = 2 * (2 - distance)
    edge = joined * jax.nn.log_sigmoid(odds) + (1 - joined) * jax.nn.log_sigmoid(-odds)
    return jnp.sum(pairs * edge) - 0.05 * jnp.sum(x[:, 0])


kernel = gmc(Minibatch(FunctionModel(log_tree), Full()), Hyperboloid(), 0.1, 20)
begin = lambda key: Hyperboloid().random_point(key, jnp.zeros((31, 3)))
run = sample(KEY, kernel, begin, None, num_steps=1_500, burn_in=500, thin=5, num_chains=4)
x = np.asarray(run.trace)
cosh = x[..., :1] * x[..., None, :, 0] - x[..., 1:] @ np.swapaxes(x[..., 1:], -1, -2)
distance = np.arccosh(np.maximum(cosh, 1))
others = np.asarray(pairs * (1 - joined)) > 0
apart = {"joined nodes": distance[..., *edges.T].mean(-1), "others": distance[..., others].mean(-1)}
for name, mean in apart.items():
    print(f"{name:12s} {mean.mean():.2f} apart, R-hat {rhat(mean[..., None])[0]:.2f}")
last = x[0, -1]
disc = last[:, 1:] / (1 + last[:, :1])
fig, ax = plt.subplots(figsize=(4, 4))
ax.add_patch(plt.Circle((0, 0), 1, fill=False, color="0.7"))
for i, j in edges:
    ax.plot(*disc[[i, j]].T, color="C0", linewidth=0.8)
ax.scatter(*disc.T, s=10, c=np.log2(np.arange(31) + 1).astype(int), zorder=3)
ax.set_aspect("equal"), ax.set_axis_off()
plt.show()
