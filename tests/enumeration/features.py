"""The exact law of the features of three items, by enumeration of the multisets of columns."""

import itertools
import math
from functools import cached_property, lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import betaln, gammaln, logsumexp

X = np.array([[-1.0, 0.3], [0.5, 1.0], [1.2, -0.4]])
NUM = len(X)
MOST = 5  # the largest number of features that is told from larger ones


class States:
    """Multisets of columns: how often each one of `types` occurs in each of the states.

    A state is left out if the sizes of its columns add up to more than `limit`.
    """

    def __init__(self, types, sizes, limit):
        self.types, self.limit = np.array(types), limit
        self.counts = np.array(list(_multisets(sizes, limit)))
        self.edge = self.counts @ np.array(sizes) == limit
        self.gram = np.einsum("th,hi,hj->tij", self.counts, self.types, self.types)

    def law(self, log_weight, few):
        """The expected statistics of the states, and the probability of the largest ones."""
        weight = np.exp(log_weight - logsumexp(log_weight))
        small = self.counts[:, :few]
        num = np.minimum(self.counts.sum(1), MOST).astype(int)
        parts = [
            small,
            (small[:, :, None] * small[:, None])[:, *np.triu_indices(few)],
            np.eye(MOST + 1)[num],
            self.counts @ self.types,
            self.gram[:, *np.triu_indices(NUM)],
        ]
        assert weight[self.edge].sum() < 1e-4
        return weight @ np.concatenate(parts, axis=1)

    @cached_property
    def _spectrum(self):
        return np.linalg.eigh(self.gram)

    def log_likelihood(self, noise, scale, x=X):
        """log p(x | Z) of every state: x has covariance s^2 I + s_A^2 Z Z' in each dimension."""
        values, vectors = self._spectrum
        square = np.sum((np.swapaxes(vectors, 1, 2) @ x) ** 2, axis=2)
        variance = noise**2 + scale**2 * values
        return -0.5 * np.sum(square / variance + x.shape[1] * np.log(variance), axis=1)

    def log_prior(self, log_columns, mass, exposure):
        """a^K e^(-a E) times the product over columns, over the factorials of those that agree."""
        num = self.counts.sum(1)
        same = gammaln(self.counts + 1).sum(1)
        return self.counts @ log_columns + num * math.log(mass) - mass * exposure - same


def _multisets(sizes, limit):
    if not sizes or limit < sizes[0]:  # the sizes increase
        yield (0,) * len(sizes)
        return
    for count in range(limit // sizes[0] + 1):
        for rest in _multisets(sizes[1:], limit - count * sizes[0]):
            yield (count, *rest)


@lru_cache
def binary():
    """The multisets of at most nine of the seven columns of zeros and ones."""
    types = sorted(itertools.product((0, 1), repeat=NUM), key=sum)[1:]
    return States(types, [1] * len(types), 9)


@lru_cache
def whole():
    """The multisets of columns of whole numbers that add up to at most nine."""
    types = [v for v in itertools.product(range(10), repeat=NUM) if 0 < sum(v) <= 9]
    types = sorted(types, key=sum)
    return States(types, [sum(v) for v in types], 9)


def beta_columns(c):
    """log (c B(m, n - m + c)) of the columns of `binary`, and the sum of c / (c + i - 1)."""
    m = binary().types.sum(1)
    return math.log(c) + betaln(m, NUM - m + c), sum(c / (c + i) for i in range(NUM))


def gamma_columns(c):
    """log (c Gamma(m) / ((c + n)^m prod z!)) of the columns of `whole`, and c log(1 + n / c)."""
    types = whole().types
    m = types.sum(1)
    log = math.log(c) + gammaln(m) - m * math.log(c + NUM) - gammaln(types + 1).sum(1)
    return log, c * math.log1p(NUM / c)


@lru_cache
def statistics(states, few):
    """What `States.law` expects, of one state of a chain: a function for `reduce`."""
    types = states.types[:few]

    def of(state, info):
        z = state.position.local["features"].astype(jnp.int32)
        small = jnp.sum(jnp.all(z.T[:, None] == types, axis=2), axis=0)
        num = jnp.minimum(jnp.sum(jnp.any(z > 0, axis=0)), MOST)
        parts = [
            small,
            jnp.outer(small, small)[np.triu_indices(few)],
            jax.nn.one_hot(num, MOST + 1),
            jnp.sum(z, axis=1),
            (z @ z.T)[np.triu_indices(NUM)],
        ]
        return jnp.concatenate([part.astype(jnp.float32) for part in parts])

    return of


def reconstructions(states, noise, scale):
    """E[Z theta | Z, X], E[(Z theta)^2 | Z, X] and E[|theta|^2 | Z, X] of every state, in a row.

    With G = Z Z' and H = (G + (s / s_A)^2 I)^-1, given Z and X each column of Z theta is normal
    with the mean G H X and the covariance s^2 G H, and theta has the mean Z' H X and the covariance
    s_A^2 (I - Z' H Z).
    """
    gram, num = states.gram, states.counts.sum(1)
    inverse = np.linalg.inv(gram + (noise / scale) ** 2 * np.eye(NUM))
    smooth = gram @ inverse
    mean, variance = smooth @ X, noise**2 * np.diagonal(smooth, axis1=1, axis2=2)
    weights = inverse @ X
    size = np.sum(weights * (gram @ weights), axis=(1, 2))
    size = size + X.shape[1] * scale**2 * (num - np.trace(smooth, axis1=1, axis2=2))
    squares = mean**2 + variance[:, :, None]
    flat = [part.reshape(len(num), -1) for part in (mean, squares, size)]
    return np.concatenate(flat, axis=1)


def reconstruction(state, info):
    """The same of one state of a chain, from the parameters that it reports."""
    theta = state.position.shared["parameters"]
    mean = state.position.local["features"].astype(theta.dtype) @ theta
    return jnp.concatenate([mean.ravel(), mean.ravel() ** 2, jnp.sum(theta**2)[None]])
