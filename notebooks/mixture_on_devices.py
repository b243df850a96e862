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
# A Dirichlet process mixture whose items are spread over eight devices: four chains from different
# starts, the same chains on one device, whether they agree, one partition, and new items. The
# devices are simulated ones here, by settings that must be made before jax is imported. On a
# machine with eight accelerators leave out the two lines of `os.environ`: the code is the same. The
# blocks that `default_sampler` chooses are smaller there, and so the chains differ.

# %%
import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import matplotlib.pyplot as plt
import numpy as np

from sgmc_jax import Dist, ShardMap, bnp, sample
from sgmc_jax.pictures import plot_clusters

KEYS = jax.random.split(jax.random.key(0), 3)
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
#
# The start that it returns is one for all chains. Chains that are to be compared begin apart: here
# with all items in one cluster, and in four, eight and twelve clusters at random.

# %%
parts = bnp.DirichletProcess(1.0), bnp.NormalInverseWishart(dim=2)
kernel, _, choices = bnp.default_sampler(KEYS[0], *parts, items, shards=8)
print(choices)
random = jax.random.randint(KEYS[1], (4, len(items)), 0, np.array([[1], [4], [8], [12]]))
start = Dist({}, {"assignment": random})
args = {"burn_in": 200, "thin": 10, "num_chains": 4, "position_axis": 0}
spread = sample(KEYS[2], kernel, start, items, num_steps=300, engine=ShardMap(8), **args)
print("chains, draws, items:", spread.trace.local["assignment"].shape)

# %% [markdown]
# ## The same chains on one device
#
# Random numbers belong to items and clusters, not to devices. Without an engine the chains are the
# same. Simulated devices share one processor and gain nothing, so that the long run is made here.

# %%
run = sample(KEYS[2], kernel, start, items, num_steps=2_500, **args)
labels = run.trace.local["assignment"]
print("chains, draws, items:", labels.shape)
first = spread.trace.local["assignment"]
same = np.array_equal(labels[:, : first.shape[1]], first)
print("the first of them are those of eight devices:", same)

# %% [markdown]
# ## Do the chains agree?
#
# Labels are names of slots, and their means say nothing. The summary tells what does not depend on
# names: how many clusters are in use, the entropy of their shares, and the share of the largest.

# %%
print(run.summary(), end="\n\n")
active = np.asarray(bnp.traces(run.trace)["active"]).astype(int)
for i, chain in enumerate(active):
    counted = zip(*np.unique(chain, return_counts=True))
    print(f"chain {i}:", ", ".join(f"{times} draws of {k} clusters" for k, times in counted))

# %% [markdown]
# ## One partition, and new items
#
# `point_estimate` returns the partition that is closest to the draws of all chains on average, here
# in the variation of information. `cluster_table` tells of its clusters: `together` is the
# probability that two items of one share a cluster. `predictive` has the density of new items,
# parameters and weights integrated out, and with whom each of them belongs.

# %%
partition, expected_loss = bnp.point_estimate(labels[:, ::3])  # some hundreds are enough
print(bnp.cluster_table(partition, items, draws=labels, columns=["x", "y"]))
print(f"\nexpected loss {expected_loss:.3f} nats, planted sizes {np.sort(np.bincount(planted))}")
clusters = range(partition.max() + 1)
like = np.array([np.bincount(planted[partition == k]).argmax() for k in clusters])
print("items elsewhere than planted:", np.sum(like[partition] != planted), end="\n\n")
new = np.array([[-5.0, 0.0], [-3.0, 3.0], [20.0, 20.0]], np.float32)
law = bnp.predictive(*parts, run.trace, items, new, partition=partition)
for point, density, share in zip(new, law.log_density, np.asarray(law.membership, float)):
    where = [f"{p:.2f} in {k}" for k, p in enumerate(share[:-1]) if p > 0.005]
    where += [f"{share[-1]:.2f} alone"] if share[-1] > 0.005 else []
    print(f"{point}: log density {density:.1f}; {', '.join(where)}")

# %%
u, v = np.meshgrid(np.linspace(-11, 12, 60), np.linspace(-10, 10, 60))
grid = np.stack([u.ravel(), v.ravel()], 1).astype(np.float32)
density = np.asarray(bnp.predictive(*parts, run.trace, items, grid).log_density).reshape(u.shape)
fig, axes = plt.subplots(1, 2, figsize=(10, 4.4), sharex=True, sharey=True, layout="constrained")
plot_clusters(items, partition, columns=["x", "y"], ax=axes[0]).set_title("the point estimate")
filled = axes[1].contourf(u, v, density, levels=np.arange(-10, 0), cmap="Blues", extend="min")
fig.colorbar(filled, ax=axes[1], label="log density of a new item")
axes[1].plot(*new[:2].T, "x", color="#d55e00", label="new items (a third is far off)")
axes[1].legend(loc="lower left")
axes[1].set(title="new items", xlabel="x", xlim=(-11, 12), ylim=(-10, 10))
plt.show()

# %% [markdown]
# ## What was seen
#
# - **Agreement.** Four chains that begin with one to twelve clusters have R-hat near 1 in all that
#   does not depend on names. Their first 200 steps, in which they find one another, are left out.
# - **How many clusters.** Some two thirds of the draws of each chain have the six that were
#   planted. The others have one or two more, seldom three or four, which hold so few items that
#   entropy and largest share hardly move.
# - **One partition.** The estimate has the six planted clusters, and one item is elsewhere. A draw
#   is on average about a hundredth of a nat away from it.
# - **New items.** The first lies in the middle of a cluster, and belongs there. The second is
#   between two and belongs to the wider one. The last, far from all, is most likely alone.
# - **Devices.** They change the time that a step takes, and no label.
#
# [Clusters](../docs/guide/clusters.md) of the guide has more on partitions and new items, and
# [long runs](../docs/guide/long_runs.md) on devices and hosts.
# [Random measures](random_measures.ipynb) has features and topics whose number is not given, and
# [composition](composition.ipynb) more kernels that take turns.
