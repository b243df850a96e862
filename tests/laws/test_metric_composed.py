"""Exact laws inside thin, repeat, cycle and gibbs, of samplers with a metric and of the recipe.

All chains are linear, so that second moments solve an equation between matrices. Each kernel of a
cycle keeps a momentum of its own; in `gibbs`, where t | x ~ N(-(c, x), 1) is the other block, that
of a metric of the space is drawn anew in every step.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

from sgmc_jax import (
    Euclidean,
    Full,
    FunctionModel,
    Minibatch,
    Splitting,
    recipe,
    sghmc,
    sgrhmc,
    sgrld,
)
from tests.laws.moments import check_law
from tests.laws.wraps import FIRST, SECOND, moments, refused, wrapped, wraps

pytestmark = [pytest.mark.runs_long, pytest.mark.full]

KEY = jax.random.key(47)
FRICTION = 1.3
PRECISION = np.array([[3.0, 1.0], [1.0, 0.8]])
INVERSE = np.array([[0.5, -0.3], [-0.3, 1.0]])
ROOT = np.linalg.cholesky(INVERSE)
PULL = np.array([0.3, 0.2])
EYE, ZERO = np.eye(2), np.zeros((2, 2))
FORCE = np.hstack([-PRECISION, ZERO, -PULL[:, None]])  # of (x, v, t)
KEEP_X, KEEP_V = np.eye(5)[:2], np.eye(5)[2:4]


def target(t):
    precision, pull = jnp.asarray(PRECISION), jnp.asarray(PULL)
    return Minibatch(FunctionModel(lambda x: -0.5 * x @ precision @ x - t * pull @ x), Full())


def hamiltonian(h, t, **options):
    curl = np.block([[ZERO, -EYE], [EYE, ZERO]])
    energy = lambda z: 0.5 * z[1] @ z[1]
    return recipe(target(t), np.array([0, 0, 1, 1]) * FRICTION, curl, h, energy=energy, **options)


METRIC = Euclidean(cholesky=ROOT)
KINDS = {
    "sgrld": lambda h, t, **options: sgrld(target(t), INVERSE, h, **options),
    "sgrhmc": lambda h, t, **options: sgrhmc(target(t), INVERSE, h, FRICTION, **options),
    "recipe": hamiltonian,
    "metric": lambda h, t, **options: sghmc(
        target(t), h, FRICTION, word="EA", space=METRIC, **options
    ),
}


def step(kind, h):
    """The matrix and the noise of (x, v) given (x, v, t)."""
    if kind == "sgrld":
        noise = np.block([[2 * h * INVERSE, ZERO], [ZERO, ZERO]])
        return np.vstack([KEEP_X + h * INVERSE @ FORCE, 0 * KEEP_V]), noise
    if kind == "recipe":
        kicked, flowed = (1 - h * FRICTION) * KEEP_V + h * FORCE, KEEP_X + h * KEEP_V
        noise = np.block([[ZERO, ZERO], [ZERO, 2 * h * FRICTION * EYE]])
        return np.vstack([flowed, kicked]), noise
    # v is a velocity in the space's metric, and R v is one in `sgrhmc`
    inside = kind == "metric"
    decay = FRICTION * (EYE if inside else INVERSE)
    kick = INVERSE if inside else ROOT.T
    kicked = KEEP_V - h * decay @ KEEP_V + h * kick @ FORCE
    spread = 2 * h * FRICTION * INVERSE if inside else 2 * h * decay
    flow = EYE if inside else ROOT
    both = np.vstack([h * flow, EYE])
    return np.vstack([KEEP_X + h * flow @ kicked, kicked]), both @ spread @ both.T


def exact(kind, wrap):
    """E x x', of (x, v, t), or of (x, v, w) with the momentum w of the second kernel of a cycle."""
    move, noise = step(kind, FIRST)
    if wrap in ("thin", "repeat"):
        return solve_discrete_lyapunov(move[:, :4], noise)[:2, :2]
    if wrap == "gibbs":
        again = np.diag([1.0, 1, 0, 0, 1]) if kind == "metric" else np.eye(5)
        fresh = np.zeros((5, 5))
        fresh[2:4, 2:4] = INVERSE if kind == "metric" else 0
        both = np.vstack([np.eye(4), np.concatenate([-PULL, [0, 0]])])
        move, noise = both @ move, both @ noise @ both.T + np.diag([0, 0, 0, 0, 1.0])
        return solve_discrete_lyapunov(move @ again, noise + move @ fresh @ move.T)[:2, :2]
    # the recipe's v is a part of its position, which both of its kernels move
    second = [2, 3] if kind == "recipe" else [4, 5]
    matrices, noises = [], []
    for h, place in ((FIRST, [2, 3]), (SECOND, second)):
        own, (matrix, spread) = [0, 1, *place], step(kind, h)
        whole, added = np.eye(6), np.zeros((6, 6))
        whole[np.ix_(own, own)], added[np.ix_(own, own)] = matrix[:, :4], spread
        matrices.append(whole), noises.append(added)
    size = 4 if kind == "recipe" else 6
    move = (matrices[1] @ matrices[0])[:size, :size]
    noise = (matrices[1] @ noises[0] @ matrices[1].T + noises[1])[:size, :size]
    return solve_discrete_lyapunov(move, noise)[:2, :2]


def second_moments(kind, wrap, **options):
    the_x = (lambda p: p[0]) if kind == "recipe" else lambda p: p

    def other(key, position):
        return jax.random.normal(key) - jnp.asarray(PULL) @ the_x(position)

    def products(position):
        return jnp.outer(the_x(position), the_x(position))

    kernel = wrapped(wrap, partial(KINDS[kind], **options), other)
    start = (jnp.zeros(2), jnp.zeros(2)) if kind == "recipe" else jnp.zeros(2)
    return moments(KEY, kernel, wrap, start, products, num_steps=4_200)


@wraps
@pytest.mark.parametrize("kind", KINDS)
def test_it_keeps_its_law(kind, wrap):
    check_law(second_moments(kind, wrap), exact(kind, wrap), 0.03)


@pytest.mark.parametrize("kind", ["sgrhmc", "metric"])
@pytest.mark.at_length
def test_momenta_that_a_cycle_draws_anew_are_seen(kind, monkeypatch):
    honest = Splitting._renewed

    def renewed(self, renew, keys, state, data, stale):
        return honest(self, renew, keys, state, data, True)

    monkeypatch.setattr(Splitting, "_renewed", renewed)
    with refused():
        check_law(second_moments(kind, "cycle"), exact(kind, "cycle"), 0.03)


@pytest.mark.at_length
def test_momenta_that_gibbs_keeps_in_a_metric_are_seen(monkeypatch):
    monkeypatch.setattr(Splitting, "retarget", Splitting.refresh)
    with refused():
        check_law(second_moments("metric", "gibbs"), exact("metric", "gibbs"), 0.03)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.at_length
def test_a_temperature_too_high_by_a_twentieth_is_seen(kind):
    values = second_moments(kind, "cycle", temperature=1.05)
    with refused():
        check_law(values, exact(kind, "cycle"), 0.03)
