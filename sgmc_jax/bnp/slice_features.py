"""Slice sampling of latent features: beta-Bernoulli and gamma-Poisson, without truncation."""

from __future__ import annotations

from typing import Any

from ..families import FeatureFamily
from ..processes import FeatureProcess
from ._starts import check_parts
from ._weights import ProcessWeights, series_of
from .slice_crm import SliceCRM, SliceModel


def slice_features(
    process: FeatureProcess,
    family: FeatureFamily,
    *,
    representation: Any = None,
    decay: Any = 2.0,
    capacity: int = 16,
) -> SliceCRM:
    """Slice sampling of latent features, all rows at once and without truncation.

    Weights and parameters of all features are instantiated, those of as many empty ones as a slice
    of each row asks for included. Given them rows are independent. A step draws, in this order,

        hyper-parameters that have a prior                       given Z, all else integrated out
        mu_k | Z     Beta(m_k, n - m_k + c) or Gamma(m_k, c + n)            of features in use
        the place of each in a series, and the empty ones among them        see `slice_crm`
        theta | Z, X                                                        of all features
        K_i = k_i + J_i,   P(J_i = j) = (1 - q) q^j,   q = e^(-1 / decay)

    k_i being the last feature of row i in the order of the series; and then column by column, from
    the last to the first,

        P(Z_ik = z) ~ h(z | mu_k) f(x_i | Z_ik = z, rest) e^(k_i(z) / decay)    for k <= K_i,

    with k_i(z) the row's last feature if the entry is z. Rows need nothing of each other: a step
    is a few matrix products over all items, on any number of devices, where `hybrid_features`
    visits the rows of a block one by one. It moves the features of large data slowly, since their
    parameters are fixed while entries move; see the guide for when which is better.

    Targets:
        the posterior of the features, in no order, their parameters, and the hyper-parameters that
        have a prior, exactly.

    Args:
        process: `BetaBernoulli(mass, concentration)` or `GammaPoisson`, of any concentration.
        family: `LinearGaussian(dim)`, `LinearLogistic(dim)`, `LinearPoisson(dim)`, or
            `FeatureLikelihood` for a likelihood of your own.
        representation: a series of the process's measure, or what makes one of it: `bondesson`,
            `inverse_levy`, `thinning`, ...; by default Bondesson's, delayed for a `BetaBernoulli`
            whose concentration is below 1 or has a prior. It decides in which order features come,
            and with it how many empty ones a step tries, and nothing else.
        decay: how far slices reach, in features; the larger, the more empty ones are tried.
        capacity: the number of slots to begin with; the runner doubles it when it is used up, and
            the chain, its start given, does not depend on it.

    State:
        as of `hybrid_features`, whose positions are valid here, and the other way round.

    Info:
        `active`, the number of features; `overflow`, whether there were too few slots.

    Raises:
        ValueError, TypeError: if a number is out of its range, the data unfit for the family, or
            the representation none of the process's measure.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import sample
        >>> from sgmc_jax.bnp import BetaBernoulli, LinearGaussian, slice_features
        >>> X = jnp.tile(jnp.array([[3.0, 0.0], [0.0, 3.0], [3.0, 3.0]]), (4, 1))
        >>> kernel = slice_features(BetaBernoulli(1.0), LinearGaussian(2, 0.3, 3.0), capacity=32)
        >>> run = sample(jax.random.key(0), kernel, None, X, num_steps=30)
        >>> run.trace.local["features"].shape
        (30, 12, 32)

    Reference:
        Nand, Bouchard-Cote and Campbell (2020), Slice sampling for general completely random
        measures. Here levels are drawn directly, weights of features in use with those of all
        others integrated out, and their order anew in every step, where the paper moves them one
        by one between their neighbours; empty features are drawn exactly, not by Metropolis; and
        k_i follows every entry. Theirs is biased where these matter.
    """
    check_parts(process, family, (FeatureProcess, FeatureFamily))
    measure = process.measure(process.start())
    series = process.series() if representation is None else series_of(measure, representation)
    # the series is taken of the measure at every concentration that the chain comes to
    if process.priors["concentration"] is not None and not series.every_concentration:
        raise ValueError(
            "representation must hold for every concentration, which has a prior: "
            f"{type(series).__name__} does not"
        )
    model = SliceModel(ProcessWeights(process, series), family)
    return SliceCRM(model, decay=decay, capacity=capacity)
