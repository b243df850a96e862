"""The partition that is closest to all draws."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import jax
import numpy as np
from jaxtyping import Int

from .. import _checks
from ._draws import by_appearance, label_draws

Loss = Literal["binder", "vi"]

_CANDIDATES = 32  # draws, of which the one that is closest to the others is a start
_SWEEPS = 50  # at most, of a start
_TIE = 1e-9  # what is less is rounding


class PointEstimate(NamedTuple):
    """A partition, its clusters numbered in the order of appearance, and its expected loss.

    Example: two draws of one partition, by other names.
        >>> from sgmc_jax.bnp import point_estimate
        >>> found = point_estimate([[4, 4, 1], [0, 0, 7]], "binder")
        >>> found.labels.tolist(), round(found.expected_loss, 3)
        ([0, 0, 1], 0.0)
    """

    labels: Int[np.ndarray, " n"]
    expected_loss: float


def point_estimate(
    labels: Any,
    loss: Loss = "vi",
    *,
    max_clusters: int | None = None,
    starts: int = 3,
    key: Any = None,
    size: Any = None,
) -> PointEstimate:
    """The partition of least expected loss under draws of a partition.

    With n_a, n_b and n_ab the sizes of the clusters of two partitions and of their intersections,

        L(a, b) = (sum phi(n_a) + sum phi(n_b) - 2 sum phi(n_ab)) / c

    is, for phi(m) = m^2 and c = n^2, Binder's loss: the share of (ordered) pairs of items that are
    together in just one of them; for phi(m) = m log m and c = n the variation of information in
    nats. Its mean over all draws, which knows these by their tables n_ab alone, is minimised
    greedily. The first search begins with the most central of 32 draws, the second with one
    cluster, others with items placed one by one in a random order; then items move one by one, in
    random orders, to the cluster (or a new one) that suits best, until none does; then each cluster
    in turn is dissolved and its items are placed anew, which is kept if it is better. Costs O(D K)
    an item and sweep, of D draws and K clusters, and memory for D K^2 numbers besides the labels.

    Args:
        labels: draws of labels, (draw, n) or (chain, draw, n), or of items in groups, or draws of
            a position; see `similarity`.
        loss: "binder" or "vi". Binder's finds more and smaller clusters, of items between others.
        max_clusters: how many clusters there may be; by default as many as a draw has at most. A
            minimiser of Binder's loss without a bound may be mostly items by themselves.
        starts: how many searches are made, of which the best is returned.
        key: of their random orders; by default `jax.random.key(0)`.
        size: of labels of items in groups, the size of each group, (S,), or the `Groups`.

    Returns:
        `labels`, (n,), the clusters numbered in the order of appearance; and `expected_loss`. It is
        the least of the local minima found, and not above the loss of the first start. Of items in
        groups, `np.split(labels, np.cumsum(size)[:-1])` has those of each group.

    Raises:
        TypeError: unless the labels are whole numbers.
        ValueError: if the labels have no leading axis of draws, an argument is unknown, or the size
            does not fit.

    Example:
        >>> from sgmc_jax.bnp import point_estimate
        >>> draws = [[0, 0, 1, 1], [5, 5, 2, 2], [0, 0, 0, 1]]
        >>> labels, expected_loss = point_estimate(draws, "binder")
        >>> labels.tolist(), round(expected_loss, 3)
        ([0, 0, 1, 1], 0.125)

    Reference:
        Dahl, Johnson and Mueller (2022), Search algorithms and loss functions for Bayesian
        clustering: the expected variation of information itself, not the lower bound of Wade and
        Ghahramani (2018), Bayesian cluster analysis. Here clusters are dissolved one after the
        other, not in random order and number, and a draw is one of the starts.
    """
    draws = label_draws(labels, size)
    _checks.choice("loss", loss, get_args(Loss))
    _checks.whole("starts", starts)
    most = int(draws.max()) + 1 if max_clusters is None else max_clusters
    _checks.whole("max_clusters", most)
    key = jax.random.key(0) if key is None else key
    _checks.random_key(key)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    # spread evenly over all draws: those next to each other are much alike
    some = draws[:: -(-len(draws) // _CANDIDATES)]
    among = _Search(some, loss, int(some.max()) + 1, rng)
    first = min(some, key=lambda labels: among.begin(labels).loss())

    search, found = _Search(draws, loss, most, rng), []
    # clusters past the bound are dissolved, and their items placed by the search
    first = np.where(first < most, first, -1)
    unplaced = [np.full_like(first, -1)] * max(starts - 2, 0)
    for labels in [first, np.zeros_like(first), *unplaced][:starts]:
        search.begin(labels).improve()
        found.append(PointEstimate(by_appearance(search.labels), search.loss()))
    return min(found, key=lambda estimate: estimate.expected_loss)


class _Search:
    """A partition under the tables that it makes with all draws, and moves of its items.

    A row of the tables is a cluster of a draw, a column one of the partition, or empty: `counts`
    are n_ab and `gains` are phi(n_ab + 1) - phi(n_ab). Items with the label -1 are in no cluster.
    """

    def __init__(
        self,
        draws: Int[np.ndarray, "draws n"],
        loss: Loss,
        max_clusters: int,
        rng: np.random.Generator,
    ):
        self.max_clusters, self.rng, (num_draws, n) = max_clusters, rng, draws.shape
        sizes = draws.max(axis=1) + 1
        # each draw's clusters have rows of their own, one draw below the other
        first = np.cumsum(sizes) - sizes
        self.rows = np.ascontiguousarray((draws + first[:, None]).T)
        self.num_rows, m = int(sizes.sum()), np.arange(n + 2.0)
        self.phi = m**2 if loss == "binder" else m * np.log(np.maximum(m, 1))
        self.scale = n**2 if loss == "binder" else n
        self.gain, self.mean = np.diff(self.phi), np.full(num_draws, 1 / num_draws)
        # the mean of sum phi(n_b), which no move of an item changes
        self.drawn = self.phi[np.bincount(self.rows.ravel())].sum() / num_draws

    def begin(self, labels: Int[np.ndarray, " n"]) -> _Search:
        """At a partition."""
        self.labels, some, num = labels.copy(), labels >= 0, self.max_clusters
        cells = (self.rows[some] * num + labels[some, None]).ravel()
        counts = np.bincount(cells, minlength=self.num_rows * num)
        self.counts = counts.reshape(self.num_rows, num)
        self.sizes = np.bincount(labels[some], minlength=num)
        self.gains = self.gain[self.counts]
        return self

    def loss(self) -> float:
        """The expected loss."""
        shared = self.phi[self.counts].sum() * self.mean[0]
        return float((self.phi[self.sizes].sum() + self.drawn - 2 * shared) / self.scale)

    def improve(self) -> None:
        """Place all items, move them, and dissolve each cluster that is better dissolved."""
        self._settle()
        for k in range(self.max_clusters):
            before, kept = self.loss(), self._tables()
            self._dissolve(k)
            if self.loss() < before - _TIE:
                self._settle()
            else:
                # as it was: placing the items of k one by one has led to no better partition
                self.labels, self.sizes, self.counts, self.gains = kept

    def _settle(self) -> None:
        """Move one item after the other until none is better off elsewhere."""
        self._place()
        for _ in range(_SWEEPS):
            if not sum([self._move(i) for i in self.rng.permutation(len(self.labels))]):
                return

    def _place(self) -> None:
        for i in self.rng.permutation(np.flatnonzero(self.labels < 0)):
            self._move(i)

    def _dissolve(self, column: int) -> None:
        """Place the items of a cluster anew."""
        self.labels[self.labels == column] = -1
        self.sizes[column], self.counts[:, column], self.gains[:, column] = 0, 0, self.gain[0]
        self._place()

    def _move(self, i: int | np.integer) -> bool:
        """Item i to the cluster that suits it best, its own if that is as good as others."""
        rows, own = self.rows[i], self.labels[i]
        # what c L gains: n_a grows by 1, and in each draw the n_ab of the item's own cluster b
        cost = self.gain[self.sizes] - 2 * (self.mean @ np.take(self.gains, rows, axis=0))
        if own >= 0:  # as it is without the item
            joined = self.mean @ self.gain[self.counts[rows, own] - 1]
            cost[own] = self.gain[self.sizes[own] - 1] - 2 * joined
        new = int(np.argmin(cost))
        # or items would go to and fro between clusters that suit them alike
        if own >= 0 and cost[new] > cost[own] - _TIE:
            return False
        if own >= 0:
            self._count(rows, own, -1)
        self._count(rows, new, 1)
        self.labels[i] = new
        return True

    def _count(self, rows: Int[np.ndarray, " draws"], column: int | np.integer, by: int) -> None:
        self.sizes[column] += by
        counts = self.counts[rows, column] + by
        self.counts[rows, column], self.gains[rows, column] = counts, self.gain[counts]

    def _tables(self) -> tuple[np.ndarray, ...]:
        return tuple(x.copy() for x in (self.labels, self.sizes, self.counts, self.gains))
