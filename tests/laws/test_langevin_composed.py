"""Exact laws inside thin, repeat, cycle and gibbs, of Langevin samplers and of estimators.

On a line with a wall, or in a dual coordinate, by the integral equations of one step; where the
chain is linear, by its second moments over all batches. In `gibbs` the other block is drawn from
its conditional law.
"""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from sgmc_jax import (
    SAGA,
    Box,
    Full,
    FunctionModel,
    Minibatch,
    PositiveMirror,
    Stratified,
    Uniform,
    Weighted,
    mirrored_sgld,
    projected_sgld,
    psgld,
    reflected_sgld,
    sgld,
)
from tests.laws.moments import check_law
from tests.laws.wraps import FIRST, SECOND, refused, wrapped, wraps
from tests.laws.wraps import moments as moments_of

pytestmark = [pytest.mark.runs_long, pytest.mark.full]

KEY = jax.random.key(43)
moments = partial(moments_of, KEY)

# ------------------------------------------------------------- a wall, and a dual coordinate

PULL = 0.5  # log p(x, t) = log p(x) + PULL u(x) t - t^2 / 2, u(x) = x or log x
SHAPE, RATE = 3.0, 2.0


def half_line(make):
    def kernel(h, t, **options):
        model = FunctionModel(lambda x: -0.5 * (x - 0.5) ** 2 + PULL * x * t)
        return make(Minibatch(model, Full()), h, Box(0.0), **options)

    return kernel


def dual(h, t, **options):
    model = FunctionModel(lambda x: (SHAPE - 1 + PULL * t) * jnp.log(x) - RATE * x)
    return mirrored_sgld(Minibatch(model, Full()), h, PositiveMirror(), **options)


KINDS = {
    "projected": half_line(projected_sgld),
    "reflected": half_line(reflected_sgld),
    "mirrored": dual,
}


def nodes(kind, num=500):
    low, high = (-8.0, 3.0) if kind == "mirrored" else (0.0, 9.0)
    u, weights = np.polynomial.legendre.leggauss(num)
    return low + (high - low) * (u + 1) / 2, weights * (high - low) / 2


def transition(kind, h, pulled):
    """Of a step, from each node to each, and for a projection from and to the point 0."""
    u, weights = nodes(kind)
    u = np.concatenate([[0.0], u]) if kind == "projected" else u
    force = SHAPE - RATE * np.exp(u) if kind == "mirrored" else 0.5 - u
    drifted = u + h * (force + pulled * PULL**2 * u)
    deviation = np.sqrt(2 * h + pulled * (h * PULL) ** 2)
    density = lambda x: norm.pdf((x - drifted[:, None]) / deviation) / deviation
    if kind == "projected":
        return np.hstack([norm.cdf(-drifted / deviation)[:, None], density(u[1:]) * weights])
    moves = density(u) + density(-u) if kind == "reflected" else density(u)
    return moves * weights


def exact(kind, wrap):
    """E x and E x^2 in the stationary law of what the combinator does."""
    move = transition(kind, FIRST, wrap == "gibbs")
    if wrap == "cycle":
        move = move @ transition(kind, SECOND, False)
    size = len(move)
    law = np.linalg.solve(np.eye(size) - move.T + np.ones((size, size)), np.ones(size))
    u, _ = nodes(kind)
    x = np.exp(u) if kind == "mirrored" else np.concatenate([[0.0] * (size - len(u)), u])
    return np.array([law @ x, law @ x**2]) / np.sum(law)


def walled(kind, wrap, **options):
    u = jnp.log if kind == "mirrored" else lambda x: x
    other = lambda key, x: PULL * u(x) + jax.random.normal(key)
    kernel = wrapped(wrap, partial(KINDS[kind], **options), other)
    return moments(kernel, wrap, jnp.ones(()), lambda x: jnp.stack([x, x**2]))


@wraps
@pytest.mark.parametrize("kind", KINDS)
def test_a_wall_or_a_mirror_keeps_its_law(kind, wrap):
    check_law(walled(kind, wrap), exact(kind, wrap), 0.03)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.at_length
def test_noise_too_large_by_a_twentieth_is_seen(kind):
    with refused():
        check_law(walled(kind, "cycle", temperature=1.05**2), exact(kind, "cycle"), 0.03)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.at_length
def test_a_block_that_stays_is_seen(kind):
    """With t as it was at first: its law is that without a pull."""
    with refused():
        check_law(walled(kind, "thin"), exact(kind, "gibbs"), 0.03)


# ----------------------------------------------------------------------- linear: psgld

CURVATURE, COUPLING = np.array([0.5, 4.0]), np.array([0.3, 1.0])
START, DECAY, EPSILON = np.array([1.0, 2.0]), 0.5, 0.1


def preconditioned(h, t, freeze_after=1):
    """Of -x' L x / 2 - t (c, x): it is frozen by one gradient, which is known."""
    logdensity = lambda x: -0.5 * CURVATURE @ x**2 - t * COUPLING @ x
    grad = Minibatch(FunctionModel(logdensity), Full())
    if h == SECOND:
        return sgld(grad, h)
    return psgld(grad, h, decay=DECAY, epsilon=EPSILON, freeze_after=freeze_after)


def solve(maps, noise):
    """S = E M S M' + E r r' + noise, over maps (probability, M, r)."""
    size = len(noise)
    linear = sum(p * np.kron(m, m) for p, m, _ in maps)
    constant = noise + sum(p * np.outer(r, r) for p, _, r in maps)
    return np.linalg.solve(np.eye(size**2) - linear, constant.ravel()).reshape(size, size)


def preconditioned_law(wrap):
    gradient = CURVATURE * START
    square = DECAY * np.mean(gradient**2) + (1 - DECAY) * gradient**2
    # the first step is by the mean alone, and every other by this
    step = FIRST / (EPSILON + np.sqrt(square))
    move, noise = np.diag(1 - step * CURVATURE), np.diag(2 * step)
    if wrap == "cycle":
        again = np.diag(1 - SECOND * CURVATURE)
        move, noise = again @ move, again @ noise @ again + 2 * SECOND * np.eye(2)
    if wrap == "gibbs":
        # (x, t): x by the old t, then t ~ N(-(c, x), 1)
        both = np.vstack([np.eye(2), -COUPLING])
        move = both @ np.hstack([move, -(step * COUPLING)[:, None]])
        noise = both @ noise @ both.T + np.diag([0, 0, 1.0])
    return solve([(1.0, move, np.zeros(len(move)))], noise)[:2, :2]


def preconditioned_moments(wrap, **options):
    other = lambda key, x: -jnp.asarray(COUPLING) @ x + jax.random.normal(key)
    kernel = wrapped(wrap, partial(preconditioned, **options), other)
    return moments(kernel, wrap, jnp.asarray(START), lambda x: jnp.outer(x, x))


@wraps
def test_a_frozen_preconditioner_keeps_its_law(wrap):
    check_law(preconditioned_moments(wrap), preconditioned_law(wrap), 0.04)


@pytest.mark.parametrize("wrap", ["repeat", "gibbs"])
@pytest.mark.at_length
def test_a_preconditioner_that_moves_on_is_seen(wrap):
    with refused():
        check_law(preconditioned_moments(wrap, freeze_after=None), preconditioned_law(wrap), 0.04)


# -------------------------------------------------------- linear: SAGA, and batches with weights

Y = np.array([1.5, -0.5, 0.3, -2.0, 0.9])
N, BATCH = len(Y), 2
SHARES = np.array([0.1, 0.3, 0.15, 0.25, 0.2])
LABELS = np.array([1, 0, 1, 0, 1])
SCALE = 0.3  # step sizes are this times those above
BATCHERS = {
    "SAGA": Uniform(BATCH),
    "Weighted": Weighted(BATCH, SHARES),
    "Stratified": Stratified((1, 1), LABELS),
}


def estimated(name, h, t, temperature=1.0):
    """y_i ~ N(x + t, 1), x ~ N(0, 1)."""
    model = FunctionModel(lambda x: -0.5 * x**2, lambda x, y: -0.5 * (y - x - t) ** 2)
    grad = Minibatch(model, BATCHERS[name])
    return sgld(SAGA(grad) if name == "SAGA" else grad, SCALE * h, temperature=temperature)


def batches(name):
    """(probability, weight of each item) of every batch."""
    if name == "Weighted":
        for i, j in itertools.product(range(N), repeat=BATCH):
            yield SHARES[i] * SHARES[j], (np.eye(N)[i] + np.eye(N)[j]) / (BATCH * SHARES)
    elif name == "Stratified":
        for i, j in itertools.product(*(np.flatnonzero(LABELS == s) for s in (0, 1))):
            yield 1 / 6, 2 * np.eye(N)[i] + 3 * np.eye(N)[j]
    else:
        for i, j in itertools.combinations(range(N), BATCH):
            yield 1 / 10, N / BATCH * (np.eye(N)[i] + np.eye(N)[j])


def linear_maps(name, h, table, size, residuals):
    """Of x less its mode, and of the points of table number `table`, by every batch."""
    h = SCALE * h
    for p, weight in batches(name):
        move, shift = np.eye(size), np.zeros(size)
        move[0, 0] = 1 - h - h * weight.sum()
        if name == "SAGA":
            for i in range(N):
                place = 1 + N * table + i
                move[0, place] = h * (weight[i] - 1)
                if weight[i]:
                    move[place], move[place, 0] = 0, 1
        else:
            shift[0] = h * (weight @ residuals - residuals.sum())
        yield p, move, shift


def estimated_law(name, wrap):
    """The variance of x about its mode."""
    mode = Y.sum() / (N + 1)
    if wrap == "gibbs":
        return estimated_law_of_blocks(name)
    size = 1 + 2 * N if name == "SAGA" else 1
    corner = np.zeros((size, size))
    corner[0, 0] = 2 * SCALE
    maps = list(linear_maps(name, FIRST, 0, size, Y - mode))
    noise = FIRST * corner
    if wrap == "cycle":
        later = list(linear_maps(name, SECOND, 1, size, Y - mode))
        noise = sum(p * m @ noise @ m.T for p, m, _ in later) + SECOND * corner
        maps = [(p * q, b @ a, b @ r + s) for p, a, r in maps for q, b, s in later]
    else:
        keep = 1 + N if name == "SAGA" else 1  # the second table stays as it is
        maps = [(p, m[:keep, :keep], r[:keep]) for p, m, r in maps]
        noise = noise[:keep, :keep]
    return solve(maps, noise)[0, 0]


def estimated_law_of_blocks(name):
    """Of (x, t), t | x ~ N(sum (y - x) / (N + 1), 1 / (N + 1)); SAGA has a new table each time."""
    mode = Y.sum() / (2 * N + 1)
    both, h, maps = np.array([[1.0], [-N / (N + 1)]]), SCALE * FIRST, []
    for p, weight in batches(name):
        total = N if name == "SAGA" else weight.sum()
        residuals = Y - 2 * mode
        shift = 0.0 if name == "SAGA" else h * (weight @ residuals - residuals.sum())
        maps.append((p, both @ np.array([[1 - h - h * total, -h * total]]), both[:, 0] * shift))
    noise = 2 * h * both @ both.T + np.diag([0, 1 / (N + 1)])
    return solve(maps, noise)[0, 0]


def estimated_moments(name, wrap, **options):
    other = lambda key, x: (Y.sum() - N * x) / (N + 1) + jax.random.normal(key) / np.sqrt(N + 1)
    mode = Y.sum() / (2 * N + 1 if wrap == "gibbs" else N + 1)
    kernel = wrapped(wrap, partial(estimated, name, **options), other)
    statistic = lambda x: (x - mode) ** 2
    size = {"num_chains": 512, "num_steps": 2_200}
    return moments(kernel, wrap, jnp.zeros(()), statistic, jnp.asarray(Y), **size)


@wraps
@pytest.mark.parametrize("name", BATCHERS)
def test_an_estimator_keeps_the_law_of_its_chain(name, wrap):
    check_law(estimated_moments(name, wrap), estimated_law(name, wrap), 0.03)


@pytest.mark.parametrize("name", ["Weighted", "Stratified"])
@pytest.mark.at_length
def test_equal_batches_in_their_place_are_seen(name, monkeypatch):
    monkeypatch.setitem(BATCHERS, name, Uniform(BATCH))
    with refused():
        check_law(estimated_moments(name, "cycle"), estimated_law(name, "cycle"), 0.03)


@pytest.mark.at_length
def test_a_table_made_for_another_block_is_seen(monkeypatch):
    """`gibbs` makes it anew: the summands have changed with t."""
    monkeypatch.setattr(SAGA, "retarget", lambda self, key, estate, position, data: estate)
    with refused():
        check_law(estimated_moments("SAGA", "gibbs"), estimated_law("SAGA", "gibbs"), 0.03)


@pytest.mark.at_length
def test_a_table_that_a_cycle_makes_anew_is_seen(monkeypatch):
    """It may stay, and then its law is that of two tables; anew it has no noise at first."""
    monkeypatch.setattr(SAGA, "refresh", SAGA.retarget)
    with refused():
        check_law(estimated_moments("SAGA", "cycle"), estimated_law("SAGA", "cycle"), 0.03)
