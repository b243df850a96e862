"""Bayesian nonparametric samplers, exact and on many devices."""

from ..families import (
    DirichletCategorical,
    DirichletMultinomial,
    FeatureLikelihood,
    LinearGaussian,
    LinearLogistic,
    LinearPoisson,
    NormalGamma,
    NormalInverseWishart,
    NormalKnownCovariance,
    PoissonGamma,
)
from ..processes import (
    BetaBernoulli,
    BetaPrimeProcess,
    BetaProcess,
    DirichletProcess,
    GammaPoisson,
    GammaProcess,
    GeneralizedGammaProcess,
    HierarchicalDirichletProcess,
    PitmanYor,
    StableBetaProcess,
    bondesson,
    delayed_bondesson,
    inverse_levy,
    rejection,
    thinning,
)
from ._slice import SliceState
from .asynchronous_mixture import asynchronous_mixture
from .auxiliary_mixture import auxiliary_mixture
from .collapsed_features import collapsed_features
from .default_sampler import DefaultSampler, default_sampler
from .groups import Groups
from .hybrid.features import hybrid_features
from .hybrid.hdp import collapsed_hdp, hybrid_hdp
from .hybrid.kernel import HybridState, HybridSums
from .hybrid.mixture import collapsed_mixture, hybrid_mixture
from .hybrid.schedules import Anchored, Asynchronous, Demotion, Published, Warm
from .label_free import traces
from .point_estimates import PointEstimate, point_estimate
from .predictions import Predictive, predictive
from .seed_features import seed_features
from .seeding import kmeans_plus_plus
from .shared_features import RepresentativeDraw, feature_similarity, representative_draw
from .similarities import similarity
from .slice_bnb import slice_bnb
from .slice_crm import SliceCRM, slice_crm
from .slice_features import slice_features
from .slice_mixture import slice_mixture
from .split_merge import SplitMergeInfo, SplitMergeState, split_merge
from .stochastic_slice import StochasticSliceState
from .tables import Table, cluster_table, feature_table
from .uncollapsed_mixture import uncollapsed_mixture
from .warm_features import warm_features
from .warm_mixture import warm_mixture

__all__ = [
    "Anchored",
    "Asynchronous",
    "BetaBernoulli",
    "BetaPrimeProcess",
    "BetaProcess",
    "DefaultSampler",
    "Demotion",
    "DirichletCategorical",
    "DirichletMultinomial",
    "DirichletProcess",
    "FeatureLikelihood",
    "GammaPoisson",
    "GammaProcess",
    "GeneralizedGammaProcess",
    "Groups",
    "HierarchicalDirichletProcess",
    "HybridState",
    "HybridSums",
    "LinearGaussian",
    "LinearLogistic",
    "LinearPoisson",
    "NormalGamma",
    "NormalInverseWishart",
    "NormalKnownCovariance",
    "PitmanYor",
    "PointEstimate",
    "PoissonGamma",
    "Predictive",
    "Published",
    "RepresentativeDraw",
    "SliceCRM",
    "SliceState",
    "SplitMergeInfo",
    "SplitMergeState",
    "StableBetaProcess",
    "StochasticSliceState",
    "Table",
    "Warm",
    "asynchronous_mixture",
    "auxiliary_mixture",
    "bondesson",
    "cluster_table",
    "collapsed_features",
    "collapsed_hdp",
    "collapsed_mixture",
    "default_sampler",
    "delayed_bondesson",
    "feature_similarity",
    "feature_table",
    "hybrid_features",
    "hybrid_hdp",
    "hybrid_mixture",
    "inverse_levy",
    "kmeans_plus_plus",
    "point_estimate",
    "predictive",
    "rejection",
    "representative_draw",
    "seed_features",
    "similarity",
    "slice_bnb",
    "slice_crm",
    "slice_features",
    "slice_mixture",
    "split_merge",
    "thinning",
    "traces",
    "uncollapsed_mixture",
    "warm_features",
    "warm_mixture",
]
