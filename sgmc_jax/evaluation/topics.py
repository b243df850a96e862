"""Topics: their words, and how much of each is in a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .. import _checks
from ..bnp.bnb import shapes
from ..families import DirichletCategorical
from ..processes import BetaProcess
from ._arrays import floating, masses, sizes, whole
from .order import likeliest, spelt

_OF_GROUPS = ("rest", "group_concentration")  # numbers in the position of an HDP's sampler


def word_distributions(
    family: DirichletCategorical, statistics: Any, *, rest: bool = False
) -> Float[Array, "K V"]:
    """The probability of each word in each topic, topics integrated out.

        p(w | topic k) = (alpha_w + c_kw) / (A + c_k)

    of c_kw words w among the c_k words of topic k, A being the sum of alpha.

    Args:
        family: the `DirichletCategorical` of `hybrid_hdp`, `slice_bnb` or any mixture of words.
        statistics: of its clusters, `state.sums.statistics`.
        rest: whether a last row is to follow, of a topic that no word is in yet, alpha / A: the
            one that the last of `hdp_concentrations` is for.

    Returns:
        (K, V), or (K + 1, V); free slots have the words of a topic that no word is in.

    Raises:
        TypeError: if the family is another.

    Example:
        >>> import jax.numpy as jnp
        >>> family = DirichletCategorical(0.5, size=2)
        >>> statistics = family.label_statistics(jnp.array([0, 0, 1]), jnp.array([0, 0, 1]), 2)
        >>> word_distributions(family, statistics, rest=True).tolist()
        [[0.83333, 0.16667], [0.25, 0.75], [0.5, 0.5]]
    """
    if not isinstance(family, DirichletCategorical):
        raise TypeError(f"family must be a DirichletCategorical, got {type(family).__name__}")
    _checks.truth("rest", rest)
    if not hasattr(statistics, "total"):
        raise TypeError(
            "statistics must be those of clusters, such as state.sums.statistics, got "
            f"{_checks.shown(statistics)}"
        )
    _checks.shaped("statistics.total", statistics.total, "K", family.size)
    mass = family.predictive(statistics).concentration
    if rest:
        mass = jnp.concatenate([mass, family.concentration.astype(mass.dtype)[None]])
    return mass / jnp.sum(mass, axis=1, keepdims=True)


def topic_counts(
    assignment: Int[Array | np.ndarray, "G L"], size: Int[Array | np.ndarray, " G"], capacity: int
) -> Int[Array, "G K"]:
    """How many words of each document are in each topic.

    Args:
        assignment: (G, L), the words' topics, `local["assignment"]` of a sampler's position.
        size: (G,), the documents' lengths, `Groups.size`; what lies past them is ignored.
        capacity: K, the number of slots.

    Raises:
        ValueError, TypeError: if a shape or dtype does not fit.

    Example:
        >>> import jax.numpy as jnp
        >>> topic_counts(jnp.array([[0, 2, 2], [1, 0, 0]]), jnp.array([3, 1]), 3).tolist()
        [[1, 0, 2], [0, 1, 0]]
    """
    assignment = whole("assignment", assignment, "G", "L")
    size = sizes("size", size, *assignment.shape)
    _checks.whole("capacity", capacity)
    out = lambda z, n: ((z < 0) | (z >= capacity)) & (np.arange(z.shape[1]) < n[:, None])
    if _checks.certainly(out, assignment, size):
        raise ValueError(f"assignment must be of slots 0 to {capacity - 1}, those of the capacity")
    present = (jnp.arange(assignment.shape[1]) < size[:, None]).astype(jnp.int32)
    add = lambda labels, some: jnp.zeros(capacity, jnp.int32).at[labels].add(some, mode="drop")
    return jax.vmap(add)(assignment, present)


def hdp_concentrations(
    shared: dict[str, Any], counts: Int[Array | np.ndarray, " K"]
) -> Float[Array, " K+1"]:
    """g (w_1, ..., w_K, w_0): what a document's proportions have as Dirichlet prior in an HDP.

    Args:
        shared: `state.position.shared` of `hybrid_hdp` or `collapsed_hdp`.
        counts: (K,), the words in each topic, `state.sums.statistics.count`; those not in use have
            no mass of their own, and share the last one's.

    Returns:
        (K + 1,), the last one being that of all topics that no word is in yet.

    Raises:
        ValueError: if `shared` is of another sampler, or a shape does not fit.

    Example:
        >>> import jax.numpy as jnp
        >>> weights = jnp.array([0.5, 0.2, 0.0])
        >>> shared = {"weights": weights, "rest": 0.3, "group_concentration": 2.0}
        >>> hdp_concentrations(shared, jnp.array([7, 4, 0])).tolist()
        [1.0, 0.4, 0.0, 0.6]
    """
    _checks.instance("shared", dict, shared)
    missing = [x for x in ("weights", *_OF_GROUPS) if x not in shared]
    if missing:
        raise ValueError(f"shared must be of an HDP sampler, lacks {', '.join(missing)}")
    weights = floating("shared['weights']", shared["weights"], "K")
    _checks.shaped("counts", counts, len(weights))
    _checks.number("counts", counts)
    rest, g = (_checks.one_number(f"shared['{name}']", shared[name]) for name in _OF_GROUPS)
    used = jnp.asarray(counts) > 0
    lost = jnp.sum(jnp.where(used, 0, weights))  # of topics that have died in the step
    return g * jnp.append(jnp.where(used, weights, 0), rest + lost)


def dirichlet_proportions(
    concentrations: Float[Array | np.ndarray, " K"], counts: Int[Array | np.ndarray, "G J"]
) -> Float[Array, "G K"]:
    """The mean proportions of each document's topics given its words' topics: of HDP and LDA.

        E[theta_dk | z] = (a_k + n_dk) / (sum a + n_d)

    Args:
        concentrations: a, `hdp_concentrations`, or alpha of each topic of an `LDA`.
        counts: n, `topic_counts`; with one topic fewer, the last one has none.

    Returns:
        (G, K), whose rows sum to 1.

    Raises:
        ValueError, TypeError: if a shape or dtype does not fit, or no concentration is positive.

    Example:
        >>> import jax.numpy as jnp
        >>> dirichlet_proportions(jnp.array([1.0, 0.5, 0.5]), jnp.array([[2, 0]])).tolist()
        [[0.75, 0.125, 0.125]]
    """
    concentrations = masses("concentrations", concentrations, "K")
    counts = whole("counts", counts, "G", "K")
    if counts.shape[1] + 1 == len(concentrations):
        counts = jnp.pad(counts, ((0, 0), (0, 1)))
    _checks.shaped("counts", counts, "G", len(concentrations))
    mass = concentrations + counts
    return mass / jnp.sum(mass, axis=1, keepdims=True)


def bnb_proportions(
    process: BetaProcess,
    log_theta: Float[Array | np.ndarray, " K"],
    counts: Int[Array | np.ndarray, "G K"],
    failures: Any = None,
) -> Float[Array, "G K"]:
    """The proportions of each document's topics given its words' topics, of `slice_bnb`.

    With theta_dk ~ Beta(A_k + x_dk, B_k + r_d) and pi_dk ~ Gamma(r_d + x_dk, rate 1 / theta_dk)
    given all labels, where A_k = c s_k and A_k + B_k = c, rates have the means

        E[pi_dk | z, s_k] = (r_d + x_dk) (A_k + x_dk) / (c + r_d + x_dk),

    and proportions are those of these means among the topics in use; others have none.

    Args:
        process: the sampler's `BetaProcess(a, c)`, of the position's mass if that has a prior,
            `process.of_mass(state.position.shared["mass"])`.
        log_theta: (K,), `kernel.log_theta(state.position.shared)`.
        counts: x, `topic_counts` of all documents, as what no document has is not in use.
        failures: r, as given to `slice_bnb`; by default (c - 1) / (a c) times a document's length.

    Returns:
        (G, K), whose rows sum to 1.

    Raises:
        ValueError, TypeError: if a shape or dtype does not fit.

    Example:
        >>> import jax.numpy as jnp
        >>> process, counts = BetaProcess(1.0, 2.0), jnp.array([[3, 1, 0], [0, 4, 0]])
        >>> bnb_proportions(process, jnp.log(jnp.array([0.5, 0.5, 0.1])), counts).tolist()
        [[0.70423, 0.29577, 0.0], [0.11765, 0.88235, 0.0]]

    Reference:
        Broderick, Mackey, Paisley and Jordan (2015), Combinatorial clustering and the beta negative
        binomial process.
    """
    if not isinstance(process, BetaProcess):
        raise TypeError(f"process must be a BetaProcess, got {type(process).__name__}")
    log_theta = floating("log_theta", log_theta, "K")
    x = whole("counts", counts, "G", len(log_theta))
    a, c = process.mass, process.concentration
    size = jnp.sum(x, axis=1, keepdims=True)
    r = size * (c - 1) / (a * c)
    if failures is not None:
        _checks.positive("failures", failures)
        r = _checks.one_number("failures", failures)
    first, _ = shapes(process, log_theta)
    # of a document without words r is 0, and rates are as A, to which they tend
    numbers = jnp.where(r + x.sum(1, keepdims=True) > 0, r + x, 1)
    rate = numbers * (first + x) / (c + r + x) * (jnp.sum(x, axis=0) > 0)
    return rate / jnp.sum(rate, axis=1, keepdims=True)


def top_words(
    topics: Float[Any, "K V"],
    vocabulary: Sequence[str],
    num: int = 8,
    *,
    counts: Any = None,
) -> list[list[str]]:
    """The most probable words of each topic.

    Args:
        topics: (K, V), `word_distributions`, or anything that is larger for likelier words.
        vocabulary: V words, a list, an array or a series of pandas, in the order of the columns.
        num: how many of them.
        counts: (K,), the words in each topic: those in use come alone, the largest first. By
            default all topics in their order.

    Raises:
        ValueError, TypeError: if a shape or a number does not fit.

    Example:
        >>> import numpy as np
        >>> topics = np.array([[0.6, 0.3, 0.1], [0.3, 0.3, 0.3], [0.1, 0.2, 0.7]])
        >>> top_words(topics, ["sea", "ship", "sun"], 2, counts=[4, 0, 9])
        [['sun', 'ship'], ['sea', 'ship']]
    """
    return spelt(vocabulary, likeliest(topics, vocabulary, num, counts)[1])
