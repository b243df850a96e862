"""Conjugate families: sufficient statistics of clusters, their posteriors and marginals."""

from .dirichlet_categorical import DirichletCategorical as DirichletCategorical
from .dirichlet_multinomial import DirichletMultinomial as DirichletMultinomial
from .family import Family as Family
from .feature_family import EntryLikelihood as EntryLikelihood
from .feature_family import FeatureFamily as FeatureFamily
from .feature_family import FeatureRows as FeatureRows
from .feature_family import RowLikelihood as RowLikelihood
from .feature_likelihood import FeatureLikelihood as FeatureLikelihood
from .linear_gaussian import LinearGaussian as LinearGaussian
from .normal_gamma import NormalGamma as NormalGamma
from .normal_inverse_wishart import NormalInverseWishart as NormalInverseWishart
from .normal_known_covariance import NormalKnownCovariance as NormalKnownCovariance
from .poisson_gamma import PoissonGamma as PoissonGamma
