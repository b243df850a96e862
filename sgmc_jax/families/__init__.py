"""Conjugate families: sufficient statistics of clusters, their posteriors and marginals."""

from .dirichlet_multinomial import DirichletMultinomial as DirichletMultinomial
from .family import Family as Family
from .normal_gamma import NormalGamma as NormalGamma
from .normal_inverse_wishart import NormalInverseWishart as NormalInverseWishart
from .normal_known_covariance import NormalKnownCovariance as NormalKnownCovariance
from .poisson_gamma import PoissonGamma as PoissonGamma
