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
# tells a sampler what straight on means, and the words stay as they are in flat space. Here: three
# ways with noisy gradients on a sphere, principal components with their errors, a covariance beside
# its exact posterior, and a tree in the hyperbolic plane.

# %%
import warnings
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
    sample,
    sggmc,
)
from sgmc_jax.pictures import plot_sphere

KEYS = jax.random.split(jax.random.key(0), 6)

# %% [markdown]
# ## Directions, from noisy gradients
#
# A von Mises-Fisher law on the sphere, known by a gradient whose noise has the covariance $20\,I$.
# Left alone the noise heats the chain. `noise_covariance` subtracts it from the sampler's own. The
# thermostat takes it up without being told. The cosine of the angle to the mean has a density in
# closed form, and the mean $\coth \kappa - 1 / \kappa$. Chains begin at random places.

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
begin = lambda key: Sphere().random_point(key, mean)
args = {"num_steps": 2_000, "burn_in": 200, "thin": 10, "num_chains": 32}
draws = {}
for (name, kernel), key in zip(kernels.items(), KEYS):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        draws[name] = np.asarray(sample(key, kernel, begin, items, **args).trace)
    for warning in said:
        print(f"{name} warns: {warning.message}\n")
print(f"mean of the cosine, in closed form: {1 / np.tanh(kappa) - 1 / kappa:.4f}")
for name, trace in draws.items():
    of_chains = trace[..., 2].mean(1)
    print(f"{name:12s} {of_chains.mean():.4f} ± {of_chains.std() / np.sqrt(len(of_chains)):.4f}")

# %%
fig = plt.figure(figsize=(9, 4), layout="constrained")
ball, ax = fig.add_subplot(1, 2, 1, projection="3d"), fig.add_subplot(1, 2, 2)
plot_sphere(draws["subtracted"][:, ::6].reshape(-1, 3), mean, ax=ball)
ball.set_title("draws, the noise subtracted")
for (name, trace), color in zip(draws.items(), ("#d55e00", "#0072b2", "#009e73")):
    cosines = trace[..., 2].ravel()
    ax.hist(cosines, 60, range=(0.2, 1), density=True, histtype="step", color=color, label=name)
cosine = np.linspace(0.2, 1, 200)
exact = kappa * np.exp(kappa * (cosine - 1)) / (1 - np.exp(-2 * kappa))
ax.plot(cosine, exact, "k", linewidth=0.8, label="closed form")
ax.set(xlabel="cosine of the angle to the mean", ylabel="density", xlim=(0.2, 1))
ax.legend(loc="upper left")
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
run = sample(KEYS[3], kernel, begin, None, num_steps=800, burn_in=100, num_chains=4)

# %% [markdown]
# The density is the same if columns change places, each with its scale, or signs. So each draw's
# columns are put in the order of their scales, and given the signs of the sample's own principal
# components, before anything is averaged. `column` is the squared cosine of the angle between a
# column and its principal component, and `span` the mean squared cosine between the space that all
# four columns span and that of the four components: 1 if they are one, and for directions drawn at
# random 1/64 and 1/16.

# %%
values, vectors = (x[..., ::-1] for x in np.linalg.eigh(np.asarray(second, float) / num))
order = np.argsort(-run.trace["scale"], axis=-1)
scales = np.take_along_axis(run.trace["scale"], order, -1)
frames = np.take_along_axis(run.trace["frame"], order[..., None, :], -1)
cosines = np.einsum("cdik,ij->cdkj", frames, vectors[:, :rank])
own = np.diagonal(cosines, axis1=-2, axis2=-1)
frames = frames * np.sign(own)[..., None, :]
span = (cosines**2).sum((-2, -1)) / rank
print(replace(run, trace={"scale": scales, "column": own**2, "span": span}).summary())
print("scales of the largest likelihood", np.sqrt(values[:rank] - values[rank:].mean()).round(1))

rows = {"sample": vectors[:, :rank], "mean": frames.mean((0, 1)), "sd": frames.std((0, 1))}
fig, axes = plt.subplots(3, rank, figsize=(6.4, 4.6), layout="constrained")
for row, (name, columns) in zip(axes, rows.items()):
    limits = {"vmin": 0, "vmax": 0.3} if name == "sd" else {"vmin": -0.3, "vmax": 0.3}
    for i, (ax, column) in enumerate(zip(row, columns.T)):
        image = ax.imshow(column.reshape(8, 8), cmap="gray", **limits)
        ax.set(xticks=[], yticks=[], title=f"column {i}" if name == "sample" else None)
    row[0].set_ylabel(name)
    fig.colorbar(image, ax=row, label="entry")
plt.show()

# %% [markdown]
# The first three scales differ by little more than their standard deviations, so that their columns
# turn into one another within the posterior: their means are pale, and their errors large. The
# fourth is better known, and the space that all four span is known better still, squared cosine by
# squared cosine.
#
# ## Covariances
#
# Twelve points in three dimensions and an inverse Wishart prior: the posterior is inverse Wishart,
# so that there is something to compare with. Its density in the entries is told of the volume by
# `log_element`. Chains begin at $I$ times random numbers.

# %%
y = np.random.default_rng(0).normal(size=(12, 3)) @ np.array([[2, 0, 0], [1, 1, 0], [0, 0.5, 0.5]])
scatter, degrees, spd = jnp.eye(3) + jnp.asarray(y.T @ y, jnp.float32), 5 + len(y), SPD()


def log_inverse_wishart(p):
    return -((degrees + 4) * jnp.linalg.slogdet(p)[1] + jnp.trace(jnp.linalg.solve(p, scatter))) / 2


density = FunctionModel(lambda p: log_inverse_wishart(p) - spd.log_element(p))
kernel = gmc(Minibatch(density, Full()), spd, 0.2, 5)
begin = lambda key: jnp.exp(jax.random.normal(key)) * jnp.eye(3)
run = sample(KEYS[4], kernel, begin, None, num_steps=2_000, burn_in=200, num_chains=8)
table, exact = run.summary().columns, np.asarray(scatter / (degrees - 4)).ravel()
print("entry   mean of draws     exact   R-hat")
for i, j in zip(*np.triu_indices(3)):
    drawn, error, r_hat = (table[name][3 * i + j] for name in ("mean", "mcse_mean", "r_hat"))
    print(f"{i}, {j}  {drawn:7.4f} ± {error:.4f}  {exact[3 * i + j]:7.4f}  {r_hat:.3f}")

# %% [markdown]
# ## Trees
#
# Circles of the hyperbolic plane grow as fast with their radius as trees do with their depth. Here
# is a binary tree of 31 nodes: two of them are joined with log odds $2 (2 - \text{distance})$, and
# the model sees which are. The prior keeps nodes from running away: with respect to the volume it
# is $\prod_i \exp(-.05 \cosh d_i)$, where $d_i$ is the distance of node $i$ from the pole. Chains
# begin at random places. What is told is how far joined nodes and others are apart, on average, and
# `rank`: of a joined pair and another pair, taken at random, how often the joined one is nearer. It
# is one half where the layout says nothing.

# %%
edges = np.array([[(i - 1) // 2, i] for i in range(1, 31)])
joined = jnp.zeros((31, 31)).at[edges[:, 0], edges[:, 1]].set(1.0)
pairs = jnp.triu(jnp.ones((31, 31)), 1)


def distances(x):
    cosh = x[:, :1] * x[:, 0] - x[:, 1:] @ x[:, 1:].T
    return jnp.arccosh(jnp.maximum(cosh, 1 + 1e-6))


def log_tree(x):
    odds = 2 * (2 - distances(x))
    edge = joined * jax.nn.log_sigmoid(odds) + (1 - joined) * jax.nn.log_sigmoid(-odds)
    return jnp.sum(pairs * edge) - 0.05 * jnp.sum(x[:, 0])


kernel = gmc(Minibatch(FunctionModel(log_tree), Full()), Hyperboloid(), 0.3, 20)
begin = lambda key: Hyperboloid().random_point(key, jnp.zeros((31, 3)))
run = sample(KEYS[5], kernel, begin, None, num_steps=4_000, burn_in=1_000, thin=10, num_chains=8)
distance = np.asarray(jax.vmap(jax.vmap(distances))(run.trace))
near = distance[..., *edges.T]
far = distance[..., np.asarray(pairs * (1 - joined)) > 0]
rank = (near[..., :, None] < far[..., None, :]).mean((-2, -1))
told = {"joined": near.mean(-1), "others": far.mean(-1), "rank": rank}
print(replace(run, trace=told).summary())

# %% [markdown]
# The picture is the last draw of one chain, in the Poincaré disc: the whole plane within a circle,
# where equal distances look the smaller the nearer they are to the rim. An isometry, which changes
# no distance, has moved the centre of the nodes to that of the disc. Lines are straight for the
# eye alone.

# %%
last = np.asarray(run.trace)[0, -1]
centre = last.sum(0)
centre = centre / np.sqrt(centre[0] ** 2 - centre[1:] @ centre[1:])
t, v = centre[0], centre[1:]
boost = np.block([[t, -v], [-v[:, None], np.eye(2) + np.outer(v, v) / (1 + t)]])
moved = last @ boost.T
disc = moved[:, 1:] / (1 + moved[:, :1])
fig, ax = plt.subplots(figsize=(5, 4.4), layout="constrained")
ax.add_patch(plt.Circle((0, 0), 1, fill=False, color="0.5"))
for edge in edges:
    ax.plot(*disc[edge].T, color="0.6", linewidth=0.8)
depth = np.log2(np.arange(31) + 1).astype(int)
for level in range(5):
    own = disc[depth == level].T
    ax.scatter(*own, s=18, color=plt.cm.viridis(level / 4.5), label=f"{level}", zorder=3)
ax.legend(title="depth", frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
ax.set_aspect("equal"), ax.set_axis_off()
plt.show()

# %% [markdown]
# ## What was seen
#
# - **Directions.** The chain whose noise is left alone is too hot, as its warning says, and its
#   mean is far from that of the closed form. The two others are within some errors of it, a few
#   thousandths.
# - **Frames.** Chains from frames drawn at random agree, once columns are put in order. How well a
#   direction is known is told by its draws, here pixel by pixel.
# - **Covariances.** Means are those of the exact posterior to within two of their errors, which are
#   half a per cent to two per cent. The density must be one with respect to the volume:
#   `log_element` makes it so.
# - **Trees.** Of a joined pair and another the joined one is the nearer some 96 times of 100.
#   Joined nodes are a little more than 2 apart on average, where the odds are even. Layouts change
#   slowly: R-hat of `rank` is a little above the 1.01 that is asked for. Whether a flat plane would
#   do as well is not shown.
#
# [On manifolds](../docs/guide/manifolds.md) of the guide has the spaces, densities with respect to
# their volumes, and which sampler to take. [Control variates](control_variates.ipynb) has what
# noisy gradients do in flat space, [topics](topics.ipynb) samplers of the simplex.
