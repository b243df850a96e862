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
# # Topics from minibatches of documents
#
# Latent Dirichlet allocation, whose topics are points of a simplex near its boundary: most words
# have next to no probability in most topics. Discretised Langevin dynamics are biased there. `scir`
# moves each coordinate by a Cox-Ingersoll-Ross process, whose transitions are drawn exactly.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from sgmc_jax import Uniform, ess, sample, scir
from sgmc_jax.evaluation import top_words
from sgmc_jax.models import LDA

# %% [markdown]
# ## Documents
#
# Simulated, of four subjects and of words that all of them share. A document has 40 words, with
# proportions of subjects from $\mathrm{Dir}(.2)$: mostly one or two in each.

# %%
SUBJECTS = {
    "sea": "ship harbour waves sail anchor captain storm deck",
    "kitchen": "bread soup salt oven butter knife pepper cook",
    "sky": "moon orbit planet comet telescope star galaxy probe",
    "court": "judge jury trial verdict witness appeal lawyer oath",
}
SHARED = "the and of to in was with for".split()
vocabulary = np.array([word for words in SUBJECTS.values() for word in words.split()] + SHARED)
rng = np.random.default_rng(0)
planted = np.zeros((4, len(vocabulary)))
for k in range(4):
    planted[k, 8 * k : 8 * (k + 1)] = 0.6 * rng.dirichlet(np.full(8, 2.0))
    planted[k, 32:] = 0.4 * rng.dirichlet(np.full(8, 5.0))


def simulate(number):
    proportions = rng.dirichlet(np.full(4, 0.2), number)
    return np.stack([rng.multinomial(40, p @ planted) for p in proportions])


counts, new_counts = simulate(1_000), simulate(200)
print("document 0:", " ".join(np.repeat(vocabulary, counts[0])))

# %% [markdown]
# ## The sampler
#
# The words of a document have topics $z$, which are not seen. `lda.counts` keeps those of all
# words in a table; a step draws the ones of 50 documents anew, and estimates from them how often
# each topic has each word. Given these counts $n_k$ topic $k$ has the law
# $\mathrm{Dir}(\beta + n_k)$, for which `scir` makes its move.

# %%
KEYS = jax.random.split(jax.random.key(0), 5)
lda = LDA(num_topics=4, vocabulary=len(vocabulary), alpha=0.2, beta=0.1)
documents, new = lda.documents(counts), lda.documents(new_counts)
kernel = scir(lda.counts(Uniform(50)), step_size=0.5)
run = sample(KEYS[0], kernel, lda.start, documents, num_steps=6_000, thin=10)
drawn = np.asarray(jax.nn.softmax(run.trace))
kept = drawn[len(drawn) // 6 :]  # without the first 1,000 steps
for words in top_words(kept.mean(0), vocabulary, 10):
    print(" ".join(words))

# %% [markdown]
# Topics have no names; those above are in the order in which the chain found them. For the pictures
# each planted one gets the drawn one that is nearest to it.

# %%
match = [int(np.argmin(np.abs(kept.mean(0) - topic).sum(1))) for topic in planted]
print("planted 0, 1, 2, 3 are drawn", match)
fig, axes = plt.subplots(2, 1, figsize=(9, 3.6), sharex=True, layout="constrained")
for ax, topics, title in zip(axes, (planted, kept.mean(0)[match]), ("planted", "posterior mean")):
    ax.imshow(topics, cmap="Blues", vmin=0, vmax=planted.max(), aspect="auto")
    ax.set(title=title, yticks=range(4), yticklabels=SUBJECTS)
axes[1].set_xticks(range(len(vocabulary)), vocabulary, rotation=90, fontsize=8)
plt.show()

# %% [markdown]
# ## Against all documents in every step
#
# `lda.gibbs()` sweeps over all documents and draws the topics from their Dirichlet laws. It is
# exact, and a step of it sees as many documents as twenty of the other. Both are compared entry by
# entry.

# %%
sweeps = sample(KEYS[1], lda.gibbs(), run.trace[-1], documents, num_steps=700, burn_in=100)
exact = np.asarray(jax.nn.softmax(sweeps.trace))
some = exact.mean(0) > 0.01  # entries worth comparing
off = (kept.mean(0) - exact.mean(0))[some] / exact.std(0)[some]
ratio = kept.std(0)[some] / exact.std(0)[some]
print(f"{some.sum()} entries: means off by {np.sqrt(np.mean(off**2)):.2f} sd, root mean square")
print(f"ratios of sds: mean {ratio.mean():.2f}, from {ratio.min():.2f} to {ratio.max():.2f}")
for name, trace in {"scir": kept, "gibbs": exact}.items():
    print(f"{name:6s}effective draws: median {np.median(ess(trace[None])[some]):.0f}")

# %% [markdown]
# Two sets of 215 and 304 independent draws would have means .09 standard deviations apart, and
# these have: no bias is to be seen. For its effective draws `scir` has gone through 250,000
# documents after the burn-in, `gibbs` through 600,000.
#
# ## Documents that were kept out
#
# `perplexity` infers a document's proportions from half of its words and foretells the other half:
# it is the number of equally likely words that would be as hard to guess. Beside it, that of the
# planted topics, and of one law for all documents.

# %%
steps = [i for i in (1, 10, 20, 40, 80, 150, 300, 600) if i <= len(drawn)]  # draws of ten steps
told = [lda.perplexity(KEYS[2], run.trace[i - 1 : i], new) for i in steps]
best = lda.perplexity(KEYS[2], jnp.log(planted), new)
average = lda.perplexity(KEYS[2], run.trace[len(drawn) // 6 :: 10], new)
frequency = (counts.sum(0) + 0.1) / (counts.sum() + 0.1 * len(vocabulary))
alone = np.exp(-np.sum(new_counts.sum(0) * np.log(frequency)) / new_counts.sum())
print(f"one law {alone:.2f}, planted topics {best:.2f}, average over draws {average:.2f}")

fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.semilogx([10 * i for i in steps], told, "o-", color="#0072b2", label="one draw")
ax.axhline(alone, color="0.6", linestyle=":", label="one law for all documents")
ax.axhline(best, color="#d55e00", linestyle="--", label="planted topics")
ax.set(xlabel="steps of 50 documents", ylabel="perplexity of new documents")
ax.legend(fontsize=8)
plt.show()

# %% [markdown]
# After some 800 steps, forty times through the documents, the chain foretells new documents about
# as well as the topics that they were drawn from.
