"""Dirichlet-process mixtures of normal laws with full covariances: a sweep, and a solution."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.special import logsumexp
from sklearn.metrics import normalized_mutual_info_score
from sklearn.mixture import BayesianGaussianMixture

from sgmc_jax import cycle, sample
from sgmc_jax.bnp import (
    DirichletProcess,
    NormalInverseWishart,
    hybrid_mixture,
    kmeans_plus_plus,
    slice_mixture,
    split_merge,
)

from .table import Line, Table, compare, plain
from .timing import Case, clock, num_blocks, race, steps_of

_KEY = jax.random.key(0)
_CONCENTRATION = 1.0
_STRENGTH = 0.1  # kappa, what the prior mean is worth
_HELD_OUT = 2000
_SPREAD = 2.6  # the standard deviation of the means in 8 dimensions


class Row(NamedTuple):
    """A data set, and its bars.

    The seconds of a sweep; then the seconds to a solution, its normalised mutual information with
    the truth, how far a held-out item's log predictive density may fall short of the true labels',
    and the clusters too many or too few.
    """

    num_items: int
    dim: int
    num_clusters: int
    sweep: float
    seconds: float = np.inf
    information: float = 0.0
    gap: float = np.inf
    clusters: float = np.inf


ROWS = [
    Row(10_000, 8, 20, 0.025, 8.0, 0.985, 0.01, 2),
    Row(100_000, 8, 50, 0.2, 30.0, 0.97, 0.03),
    Row(10_000, 64, 20, 0.15, 60.0, 0.97),
    Row(100_000, 64, 50, 1.5),
]


class Mixture(NamedTuple):
    """Items of a mixture of normal laws, their labels, and held-out items."""

    items: np.ndarray
    labels: np.ndarray
    held_out: np.ndarray


def mixture(row: Row, seed: int = 0) -> Mixture:
    """Means N(0, s^2 I), the nearer the more dimensions; covariances Wishart(I / 4 D, 4 D)."""
    rng = np.random.default_rng(seed)
    k, d, n = row.num_clusters, row.dim, row.num_items
    means = rng.standard_normal((k, d)) * (_SPREAD * (8 / d) ** 0.25)
    factors = rng.standard_normal((k, 4 * d, d)) / np.sqrt(4 * d)
    weights = rng.dirichlet(np.full(k, 5.0))
    labels = rng.choice(k, n + _HELD_OUT, p=weights)
    x = rng.standard_normal((len(labels), 4 * d), dtype=np.float32)
    items = np.zeros((len(labels), d), np.float32)
    for j in range(k):
        items[labels == j] = means[j] + x[labels == j] @ factors[j]
    return Mixture(items[:n], labels[:n], items[n:])


def run(scale: float, rounds: int) -> Iterator[Table]:
    """Two tables for each data set, but for the last, which has no bar on its solution."""
    rows = ROWS if scale == 1 else [row._replace(num_items=row.num_items // 20) for row in ROWS[:1]]
    for row in rows:
        yield _sweeps(row, rounds)
        if row.seconds < np.inf:
            yield _solutions(row)


def _freedom(row: Row) -> tuple[float, float]:
    """nu = 3 D / 2 and Psi = (nu - D - 1) I, so that the prior mean of a covariance is I.

    With nu = D + 2 and D = 64 the posterior itself is for a handful of clusters: the true ones have
    a log probability lower by ten thousands.
    """
    freedom = 1.5 * row.dim
    return freedom, freedom - row.dim - 1


def _parts(row: Row) -> tuple[DirichletProcess, NormalInverseWishart]:
    freedom, scale = _freedom(row)
    family = NormalInverseWishart(
        row.dim, mean_strength=_STRENGTH, degrees_of_freedom=freedom, scale=scale
    )
    return DirichletProcess(_CONCENTRATION), family


def _capacity(row: Row) -> int:
    return 32 if row.num_clusters <= 20 else 64


def _title(what: str, row: Row) -> str:
    return f"F. {what}: N={row.num_items:,}, D={row.dim}, K={row.num_clusters}"


def _sweeps(row: Row, rounds: int) -> Table:
    """The time of a sweep from the true labels, beside its matrix products."""
    data, capacity, blocks = mixture(row), _capacity(row), num_blocks(row.num_items)
    x, start = jnp.asarray(data.items), jnp.asarray(data.labels, jnp.int32)
    floor = jax.jit(_products)
    factors = jnp.zeros((row.dim, capacity, row.dim), jnp.float32)
    hybrid = hybrid_mixture(*_parts(row), blocks=blocks, capacity=capacity)
    cases = {
        "matrix products": Case(lambda: floor(x, factors), 1),
        "hybrid_mixture": _steps(hybrid, start, x),
        "split_merge": _steps(split_merge(*_parts(row), capacity=capacity), start, x),
        "slice_mixture": _steps(slice_mixture(*_parts(row), capacity=capacity), start, x),
    }
    timings = race(cases, rounds)
    bar = row.sweep / timings["matrix products"].median
    lines = [
        Line("matrix products"),
        Line("hybrid_mixture", "matrix products", None, {"matrix products": bar}),
        Line("split_merge", "matrix products"),
        Line("slice_mixture", "matrix products"),
    ]
    note = (
        f"From the true labels; {capacity} slots, {blocks} blocks. The bar is {row.sweep:g} s. The "
        "matrix products are those of all items' densities in all slots and of second moments."
    )
    return compare(_title("A sweep", row), note, "ms", "sweep", timings, lines)


def _steps(kernel: Any, start: Array, x: Array, num: int = 4) -> Case:
    """Some steps of a kernel, in one compiled loop."""
    state, compiled = jax.jit(kernel.init)(_KEY, start, x), jax.jit(steps_of(kernel, num))
    return Case(lambda: compiled(state, x), num)


def _products(x: Array, factors: Array) -> tuple[Array, Array]:
    dim, num, _ = factors.shape

    def chunk(x: Array) -> Array:
        y = (x @ factors.reshape(dim, -1)).reshape(len(x), num, dim)
        return jnp.sum(y * y, axis=2)

    return jax.lax.map(chunk, x.reshape(-1, min(len(x), 500), dim)), x.T @ x


def _solutions(row: Row) -> Table:
    """What a chain finds, and a peer, in how long."""
    data = mixture(row)
    oracle = _score(row, data, data.labels)
    finders: dict[str, Callable] = {
        "from one cluster": partial(_chain, row, data, seeded=False),
        "from k-means++": partial(_chain, row, data, seeded=True),
        "scikit-learn, 10 iterations": partial(_sklearn, row, data, 10),
        "scikit-learn": partial(_sklearn, row, data, 200),
    }
    rows = [_verdict(row, data, oracle, name, *find()) for name, find in finders.items()]
    note = (
        f"`cycle(hybrid_mixture, split_merge)`, {_num_steps(row)} steps, and scikit-learn's "
        "variational `BayesianGaussianMixture`, of 200 iterations at most. The score is the log "
        "predictive density of a held-out item given labels, under one prior: "
        f"{oracle:.3f} with the true ones. Labels are each item's likeliest cluster. CPU seconds "
        "after compilation."
    )
    header = ["case", "CPU s; NMI; clusters; score", "bar", "met"]
    return Table(_title("A solution", row), note, header, rows)


def _num_steps(row: Row) -> int:
    return 150 if row.num_items > 50_000 else 300


def _active(state: Any, info: Any) -> Array:
    return info.active


def _chain(row: Row, data: Mixture, seeded: bool) -> tuple[float, np.ndarray]:
    blocks, x = num_blocks(row.num_items), jnp.asarray(data.items)
    kernel = cycle(
        hybrid_mixture(*_parts(row), blocks=blocks, capacity=_capacity(row)),
        split_merge(*_parts(row), capacity=_capacity(row)),
    )
    num_seeds = min(_capacity(row), 3 * row.num_clusters // 2)
    seed = jax.jit(lambda key, x: kmeans_plus_plus(key, x, num_seeds))

    def find() -> np.ndarray:
        start = seed(_KEY, x) if seeded else jnp.zeros(len(x), jnp.int32)
        run = sample(_KEY, kernel, start, x, num_steps=_num_steps(row), record=_active)
        return _likeliest(row, data, np.asarray(run.state.position.local["assignment"]))

    find()
    began = clock()
    labels = find()
    return clock() - began, labels


def _sklearn(row: Row, data: Mixture, most: int) -> tuple[float, np.ndarray]:
    freedom, scale = _freedom(row)
    began = clock()
    peer = BayesianGaussianMixture(
        n_components=_capacity(row),
        weight_concentration_prior_type="dirichlet_process",
        weight_concentration_prior=_CONCENTRATION,
        mean_precision_prior=_STRENGTH,
        mean_prior=np.zeros(row.dim),
        degrees_of_freedom_prior=freedom,
        covariance_prior=scale * np.eye(row.dim),
        max_iter=most,
        random_state=0,
    )
    labels = peer.fit_predict(data.items)
    return clock() - began, labels


def _likeliest(row: Row, data: Mixture, labels: np.ndarray) -> np.ndarray:
    return np.argmax(_log_predictive(row, data, labels, data.items)[:, :-1], axis=1)


def _score(row: Row, data: Mixture, labels: np.ndarray) -> float:
    return float(logsumexp(_log_predictive(row, data, labels, data.held_out), axis=1).mean())


def _log_predictive(row: Row, data: Mixture, labels: np.ndarray, items: np.ndarray) -> np.ndarray:
    """Each item's log predictive density in each cluster and in a new one, with its weight."""
    _, family = _parts(row)
    labels = np.unique(labels, return_inverse=True)[1]
    counts = np.bincount(labels)
    x = jnp.asarray(data.items)
    stats = family.label_statistics(x, jnp.asarray(labels, jnp.int32), len(counts) + 1)
    weights = np.append(counts, _CONCENTRATION) / (len(labels) + _CONCENTRATION)
    return np.asarray(_of_each(family, stats, jnp.asarray(items))) + np.log(weights)


@jax.jit
def _of_each(family: NormalInverseWishart, stats: Any, items: Array) -> Array:
    return jax.lax.map(partial(family.log_predictive, stats), items)


def _verdict(
    row: Row, data: Mixture, oracle: float, name: str, seconds: float, labels: np.ndarray
) -> list[str]:
    information = normalized_mutual_info_score(data.labels, labels)
    score, num = _score(row, data, labels), len(np.unique(labels))
    met = (
        seconds <= row.seconds
        and information >= row.information
        and oracle - score <= row.gap
        and abs(num - row.num_clusters) <= row.clusters
    )
    bars = [f"<= {row.seconds:g} s", f">= {row.information:g}"]
    bars += [f"{row.num_clusters} +- {row.clusters:g}"] if row.clusters < np.inf else []
    bars += [f">= {oracle - row.gap:.3f}"] if row.gap < np.inf else []
    found = f"{seconds:.1f}; {information:.3f}; {num}; {score:.3f}"
    if name == "scikit-learn":
        return [name, found, "", ""]
    return plain(name, found, "; ".join(bars), met)
