"""Bayesian nonparametric samplers, exact and on many devices."""

from ..families import DirichletCategorical as DirichletCategorical
from ..families import DirichletMultinomial as DirichletMultinomial
from ..families import FeatureLikelihood as FeatureLikelihood
from ..families import LinearGaussian as LinearGaussian
from ..families import NormalGamma as NormalGamma
from ..families import NormalInverseWishart as NormalInverseWishart
from ..families import NormalKnownCovariance as NormalKnownCovariance
from ..families import PoissonGamma as PoissonGamma
from ..processes import BetaBernoulli as BetaBernoulli
from ..processes import DirichletProcess as DirichletProcess
from ..processes import GammaPoisson as GammaPoisson
from ..processes import HierarchicalDirichletProcess as HierarchicalDirichletProcess
from ..processes import PitmanYor as PitmanYor
from .groups import Groups as Groups
from .hybrid_features import collapsed_features as collapsed_features
from .hybrid_features import hybrid_features as hybrid_features
from .hybrid_hdp import collapsed_hdp as collapsed_hdp
from .hybrid_hdp import hybrid_hdp as hybrid_hdp
from .hybrid_mixture import collapsed_mixture as collapsed_mixture
from .hybrid_mixture import hybrid_mixture as hybrid_mixture
from .seed_features import seed_features as seed_features
from .seeding import kmeans_plus_plus as kmeans_plus_plus
from .slice_mixture import slice_mixture as slice_mixture
from .split_merge import split_merge as split_merge
from .warm_mixture import warm_mixture as warm_mixture
