"""Priors over random measures: what a nonparametric sampler knows of its model besides the family.

A `Process` (process.py) has hyper-parameters, which travel in the position as a dictionary, and
says which of them have a prior. What else it can do depends on who asks. Mixtures ask `PitmanYor`
for weights of clusters given their sizes; slice samplers ask a `Series` for its terms in order, of
which the sticks of `PitmanYor` are one kind. Features ask a `FeatureProcess` (`BetaBernoulli`,
`GammaPoisson`) for the odds of an entry, with its weight or without. Grouped items ask
`HierarchicalDirichletProcess` for weights given the numbers of tables.
"""

from .beta_bernoulli import BetaBernoulli as BetaBernoulli
from .feature_process import FeatureProcess as FeatureProcess
from .gamma_poisson import GammaPoisson as GammaPoisson
from .hierarchical_dirichlet import HierarchicalDirichletProcess as HierarchicalDirichletProcess
from .pitman_yor import DirichletProcess as DirichletProcess
from .pitman_yor import PitmanYor as PitmanYor
from .process import Process as Process
from .process import Series as Series
