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
# # A mixture on eight devices
#
# A Dirichlet process mixture whose items are spread over eight devices. They are simulated ones
# here, by a setting that must be made before jax is imported; on a machine with eight accelerators
# nothing else would be different.

# %%
import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import matplotlib.pyplot as plt
import numpy as np

from sgmc_jax import ShardMap, bnp, sample

print(len(jax.devices()), "devices")

# %% [markdown]
# ## Items
#
# 1,200 in the plane, of six normal laws of different sizes and shapes.

# %%
rng = np.random.default_rng(0)
shares = np.array([0.3, 0.25, 0.2, 0.1, 0.1, 0.05])
centres = np.array([[-5, 0], [4, 4], [3, -4], [-3, 6], [0, 0.5], [8, -1]])
planted = rng.choice(6, 1_200, p=shares)
turn = rng.normal(size=(6, 2, 2)) * 0.5 + 0.6 * np.eye(2)
items = centres[planted] + np.einsum("nij,nj->ni", turn[planted], rng.normal(size=(1_200, 2)))
items = items.astype(np.float32)

# %% [markdown]
# ## Model and sampler
#
# The number of clusters is not given: a Dirichlet process with concentration 1, and a normal
# inverse Wishart prior of each cluster's mean and covariance. `default_sampler` chooses a kernel
# that is exact, its blocks of items, and a start. In each step one block is swept item by item, and
# clusters are born and die there; the items of all others choose among the clusters at once, on
# their devices. Moves that split and merge clusters take turns with that.

# %%
parts = bnp.DirichletProcess(1.0), bnp.NormalInverseWishart(dim=2)
kernel, start, choices = bnp.default_sampler(jax.random.key(0), *parts, items, shards=8)
print(choices)
args = {"num_steps": 90, "burn_in": 40}
run = sample(jax.random.key(1), kernel, start, items, engine=ShardMap(8), **args)
labels = run.trace.local["assignment"]
clusters = np.array([len(np.unique(draw)) for draw in labels])
print("draws, items:", labels.shape)
for number, times in zip(*np.unique(clusters, return_counts=True)):
    print(f"{times} draws of {number} clusters")

# %% [markdown]
# ## The same chain on one device
#
# Random numbers belong to items and clusters, not to devices. Without an engine:

# %%
alone = sample(jax.random.key(1), kernel, start, items, **args)
print("all labels of all draws equal:", np.array_equal(labels, alone.trace.local["assignment"]))

# %% [markdown]
# ## One partition, and new items
#
# Labels are names of slots, which change. `point_estimate` returns the partition that is closest to
# the draws on average, here in the variation of information. `predictive` has the density of new
# items, parameters and weights integrated out, and with whom each of them belongs.

# %%
partition, expected_loss = bnp.point_estimate(labels)
sizes, true_sizes = np.bincount(partition), np.bincount(planted)
print(f"expected loss {expected_loss:.2f} nats, sizes {sizes}, planted {true_sizes}")
like = np.array([np.bincount(planted[partition == k]).argmax() for k in range(len(sizes))])
print("items elsewhere than planted:", np.sum(like[partition] != planted))
new = np.array([[-5.0, 0.0], [-3.0, 3.0], [20.0, 20.0]], np.float32)
law = bnp.predictive(*parts, run.trace, items, new, partition=partition)
for point, density, share in zip(new, law.log_density, np.asarray(law.membership, float)):
    others = ", ".join(f"{p:.2f} in {k}" for k, p in enumerate(share[:-1]) if p > 0.005)
    print(
        f"{point}: log density {density:.1f}; {share[-1]:.2f} alone" + f", {others}" * bool(others)
    )

# %%
u, v = np.meshgrid(np.linspace(-11, 12, 60), np.linspace(-10, 10, 60))
grid = np.stack([u.ravel(), v.ravel()], 1).astype(np.float32)
density = np.asarray(bnp.predictive(*parts, run.trace, items, grid).log_density).reshape(u.shape)
fig, axes = plt.subplots(1, 2, figsize=(10, 4), sharex=True, sharey=True, layout="constrained")
for ax, colours, title in zip(axes, (planted, like[partition]), ("planted", "point estimate")):
    ax.scatter(*items.T, c=colours, cmap="tab10", vmax=9, s=4)
    ax.set(title=title, xlim=(-11, 12), ylim=(-10, 10))
axes[1].contour(u, v, density, levels=np.arange(-9, -2), colors="0.4", linewidths=0.6)
plt.show()

# %% [markdown]
# The partition has the six planted clusters, and but one item is elsewhere. Almost half of the
# draws have a cluster or two more, which hold so few items that the estimate goes without: draws
# are a hundredth of a nat away from it. Of the new items the first is certain of its companions;
# the last, far from all, would most likely be alone.
