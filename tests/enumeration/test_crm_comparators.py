"""What the experiments compare slice samplers with, against the exact law of three items."""

import itertools

import numpy as np
import pytest

from sgmc_jax.bnp import BetaBernoulli, slice_features
from sgmc_jax.processes import Bernoulli, BetaProcess, bondesson
from tests.enumeration import features as exact
from tests.enumeration import test_slice_bnb as bnb
from tests.enumeration.test_features import LINEAR, NOISE, SCALE
from tests.enumeration.test_slice_features import MASS, beta, binary, check
from tests.laws.moments import fault_is_seen

pytest.importorskip("matplotlib")
pytest.importorskip("experiments")  # which the source distribution comes without
from experiments.crm_slice import comparators, superposition  # noqa: E402

pytestmark = pytest.mark.runs_long
full = pytest.mark.full


def double():
    sliced = slice_features(BetaBernoulli(MASS), LINEAR, capacity=32)
    return comparators.double_slice(sliced)


@full
def test_the_double_slice():
    check(double(), binary(beta(1.0)), num_steps=600, tolerance=0.15)


@full
@pytest.mark.at_length
def test_levels_of_rows_without_entries(monkeypatch):
    """Planted: on k_n, ..., 2 k_n, as printed, which leaves an empty row empty."""
    printed = lambda self, last, uniforms: last + (uniforms * (last + 1)).astype(last.dtype)
    monkeypatch.setattr(comparators.DoubleSlice, "_level", printed)
    fault_is_seen(check, double(), binary(beta(1.0)), num_steps=600, tolerance=0.15)


def two_atoms():
    """Of the first two places g_1 < g_2, by quadrature; theta = e^(-g / mass)."""
    states = exact.binary()
    nodes, weights = np.polynomial.laguerre.laggauss(80)
    first = np.exp(-nodes[:, None] / MASS)
    theta = np.stack(np.broadcast_arrays(first, first * np.exp(-nodes / MASS)))
    weight = weights[:, None] * weights
    columns = [np.zeros(3, int), *states.types]
    place = {tuple(row): i for i, row in enumerate(states.counts.tolist())}
    law = np.zeros(len(states.counts))
    for pair in itertools.product(range(8), repeat=2):
        m = [columns[i].sum() for i in pair]
        parts = [theta[i] ** m[i] * (1 - theta[i]) ** (3 - m[i]) for i in range(2)]
        counts = np.bincount([i - 1 for i in pair if i], minlength=7)
        law[place[tuple(counts.tolist())]] += np.sum(weight * parts[0] * parts[1])
    assert abs(law.sum() - 1) < 1e-6
    with np.errstate(divide="ignore"):
        log_prior = np.log(law)
    return states.law(log_prior + states.log_likelihood(NOISE, SCALE), 7), states, 7, exact.X


def cut(num):
    return comparators.truncated(bondesson(BetaProcess(MASS)), Bernoulli(), LINEAR, num)


def test_two_atoms():
    check(cut(2), two_atoms())


@full
@pytest.mark.optimised
def test_twenty_atoms_are_as_good_as_all():
    check(cut(20), binary(beta(1.0)))


@full
@pytest.mark.at_length
def test_places_with_half_their_prior(monkeypatch):
    """Planted: e^(-max g / 2)."""
    honest = comparators._last
    monkeypatch.setattr(comparators, "_last", lambda g: honest(g) / 2)
    fault_is_seen(check, cut(2), two_atoms())


# ---------------------------------------------------------------------------- superposition


def rounds():
    return superposition.superposition_bnb(bnb.PROCESS, bnb.NORMAL, decay=1.0, capacity=64)


@full
@pytest.mark.optimised
def test_superposition():
    bnb.check(rounds(), tolerance=0.3)


@full
@pytest.mark.at_length
def test_square_roots_of_weights(monkeypatch):
    """Planted."""
    honest = superposition.Rounds.draw

    def wrong(self, key, shared, *args):
        shared, used = honest(self, key, shared, *args)
        return shared, used._replace(log_weight=used.log_weight / 2)

    monkeypatch.setattr(superposition.Rounds, "draw", wrong)
    fault_is_seen(bnb.check, rounds(), tolerance=0.3)
