"""Collapsed sampling of latent features, row by row."""

from __future__ import annotations

from ..families import FeatureFamily
from ..processes import FeatureProcess
from .hybrid.features import hybrid_features
from .hybrid.kernel import Hybrid


def collapsed_features(
    process: FeatureProcess, family: FeatureFamily, *, capacity: int = 16
) -> Hybrid:
    """Collapsed Gibbs sampling of latent features, row by row.

    P(Z_ik = 1) : P(Z_ik = 0) = m f(x_i | Z_ik = 1, rest) : (n - 1 + c - m) f(x_i | Z_ik = 0, rest)
    for a feature that m other rows have, f with the parameters of all features integrated out. It
    is `hybrid_features` with one block, and its reference.

    Targets:
        the posterior of the features, in no order, exactly.

    Args:
        process: `BetaBernoulli(mass, concentration)` or `GammaPoisson`.
        family: as of `hybrid_features`.
        capacity: the number of slots to begin with.

    Example:
        >>> from sgmc_jax.bnp import BetaBernoulli, LinearGaussian
        >>> kernel = collapsed_features(BetaBernoulli(1.0), LinearGaussian(2))

    Reference:
        Griffiths and Ghahramani (2011), The Indian buffet process: an introduction and review,
        with columns in a random order for every row.
    """
    return hybrid_features(process, family, capacity=capacity)
