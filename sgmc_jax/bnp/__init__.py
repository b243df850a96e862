"""Bayesian nonparametric samplers, exact and on many devices."""

from ..families import DirichletMultinomial as DirichletMultinomial
from ..families import NormalGamma as NormalGamma
from ..families import NormalInverseWishart as NormalInverseWishart
from ..families import NormalKnownCovariance as NormalKnownCovariance
from ..families import PoissonGamma as PoissonGamma
from ..processes import DirichletProcess as DirichletProcess
from ..processes import PitmanYor as PitmanYor
from .hybrid_mixture import collapsed_mixture as collapsed_mixture
from .hybrid_mixture import hybrid_mixture as hybrid_mixture
