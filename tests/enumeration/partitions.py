"""All partitions of a few points, their law, and chains checked against it."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import multivariate_normal

from tests.laws.moments import check_law, run_law

KEY = jax.random.key(3)


def partitions(num_points):
    """Every labelling in order of appearance: 15 of four points, 52 of five, 203 of six."""
    for labels in itertools.product(*(range(i + 1) for i in range(num_points))):
        if all(labels[i] <= max(labels[:i]) + 1 for i in range(1, num_points)):
            yield labels


def clusters(labels):
    """The members of each cluster."""
    return [np.flatnonzero(np.array(labels) == k) for k in range(max(labels) + 1)]


def code(labels):
    """A partition as a whole number: each point's first companion, in mixed radix."""
    first = [labels.index(k) for k in labels]
    return sum(i * math.factorial(j) for j, i in enumerate(first))


def number(labels):
    """The place of a chain's partition in the list of all."""
    num_points = len(labels)
    table = np.zeros(math.factorial(num_points), np.int32)
    for i, each in enumerate(partitions(num_points)):
        table[code(each)] = i
    first = jnp.argmax(labels[:, None] == labels, axis=1)
    radix = np.array([math.factorial(j) for j in range(num_points)])
    return jnp.asarray(table)[jnp.sum(first * radix)]


def partition(state, info):
    """The partition of a chain's points, one-hot in the list of all: to be averaged."""
    labels = state.position.local["assignment"]
    return jax.nn.one_hot(number(labels), len(list(partitions(len(labels)))))


def likelihoods(marginal, x):
    """prod_k p(x_k) of every partition."""
    each = ([marginal(x[c]) for c in clusters(labels)] for labels in partitions(len(x)))
    return np.exp([sum(logs) for logs in each])


def exact(process, marginal, x):
    """prod_{j<K} (a + j d) prod_k prod_{i<m_k} (i - d) prod_k p(x_k), normalised."""
    weights = prior(float(process.concentration), float(process.discount), len(x))
    weights = weights * likelihoods(marginal, x)
    return weights / weights.sum()


def prior(a, d, num_points):
    """prod_{j<K} (a + j d) prod_k prod_{i<m_k} (i - d) of every partition; a and d may be grids."""

    def weight(members):
        births = [a + j * d for j in range(1, len(members))]
        return math.prod(births + [i - d for c in members for i in range(1, len(c))])

    weights = [weight(clusters(labels)) for labels in partitions(num_points)]
    return np.array([np.broadcast_to(weight, np.shape(a)) for weight in weights])


def random_concentration(shape, rate, marginal, x):
    """The law under a Dirichlet process whose concentration is Gamma(shape, rate), by quadrature.

    With a concentration a the weights of `prior` sum to (a + 1) ... (a + n - 1).
    """
    a = (np.arange(8_000) + 0.5) / 400
    density = a ** (shape - 1) * np.exp(-rate * a)
    density = density / np.prod([a + i for i in range(1, len(x))], axis=0)
    law = (prior(a, 0.0, len(x)) * density).sum(1) * likelihoods(marginal, x)
    return law / law.sum()


def normal_marginal(x, variance=0.5, prior=1.5):
    """log p(x) of normal points around a normal mean."""
    covariance = variance * np.eye(len(x)) + prior
    return multivariate_normal.logpdf(x, np.zeros(len(x)), covariance)


def chains(kernel, data, key=KEY, **kwargs):
    """How often each chain was in each partition."""
    args = {"num_chains": 1024, "num_steps": 1_500, "burn_in": 50} | kwargs
    return np.asarray(run_law(key, kernel, None, data, reduce=partition, **args).trace.mean)


def check_partitions(kernel, law, data, tolerance=0.025, least=0.0, **kwargs):
    """Chains are in each partition as often as the law says; see `check_law`.

    Partitions with a probability below `least` are counted as one: of a few visits no standard
    error can be told.
    """
    values = chains(kernel, data, **kwargs)
    distance, noise = total_variation(values, law)
    print(f"total variation {distance:.4f}, by chance {noise:.4f}")
    rare = law < least
    if rare.any():
        values, law = (
            np.append(p[..., ~rare], p[..., rare].sum(-1, keepdims=True), -1) for p in (values, law)
        )
    check_law(values, law, tolerance)


def total_variation(values, law):
    """That of the chains' mean, and what it would be by chance were their law the right one."""
    standard = values.std(0, ddof=1) / np.sqrt(len(values))
    distance = np.abs(values.mean(0, dtype=np.float64) - law).sum() / 2
    return distance, np.sqrt(2 / np.pi) * standard.sum() / 2
