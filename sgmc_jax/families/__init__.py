"""Conjugate families: sufficient statistics of clusters, their posteriors and marginals."""

from .dirichlet_categorical import DirichletCategorical
from .dirichlet_multinomial import DirichletMultinomial
from .family import Family
from .feature_family import EntryLikelihood, FeatureFamily, FeatureRows, RowLikelihood
from .feature_likelihood import FeatureLikelihood
from .linear_gaussian import LinearGaussian
from .linear_logistic import LinearLogistic
from .linear_poisson import LinearPoisson
from .normal_gamma import NormalGamma
from .normal_inverse_wishart import NormalInverseWishart
from .normal_known_covariance import NormalKnownCovariance
from .poisson_gamma import PoissonGamma

__all__ = [
    "DirichletCategorical",
    "DirichletMultinomial",
    "EntryLikelihood",
    "Family",
    "FeatureFamily",
    "FeatureLikelihood",
    "FeatureRows",
    "LinearGaussian",
    "LinearLogistic",
    "LinearPoisson",
    "NormalGamma",
    "NormalInverseWishart",
    "NormalKnownCovariance",
    "PoissonGamma",
    "RowLikelihood",
]
