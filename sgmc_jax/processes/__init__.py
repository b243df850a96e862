"""Priors over random measures."""

from .beta_bernoulli import BetaBernoulli as BetaBernoulli
from .feature_process import FeatureProcess as FeatureProcess
from .gamma_poisson import GammaPoisson as GammaPoisson
from .hierarchical_dirichlet import HierarchicalDirichletProcess as HierarchicalDirichletProcess
from .pitman_yor import DirichletProcess as DirichletProcess
from .pitman_yor import PitmanYor as PitmanYor
from .process import Process as Process
from .process import Series as Series
