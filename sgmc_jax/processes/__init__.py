"""Priors over random measures: what a nonparametric sampler knows of its model besides the family.

A `Process` (process.py) has hyper-parameters, which travel in the position as a dictionary, and
says which of them have a prior. What else it can do depends on who asks. Mixtures ask `PitmanYor`
for weights of clusters given their sizes; slice samplers ask a `Series` for its atoms as they
arrive, as `PitmanYor` gives them. Features ask a `FeatureProcess` (`BetaBernoulli`, `GammaPoisson`)
for the odds of an entry, with its weight or without. Grouped items ask
`HierarchicalDirichletProcess` for weights given the numbers of tables.

Completely random measures have a rate measure each (measures.py), and series in which their atoms
come one after the other (representation.py, and a file for each), which `slice_features` asks for.
"""

from .beta_bernoulli import BetaBernoulli
from .bondesson import bondesson, delayed_bondesson
from .counts import Bernoulli, CountLikelihood, NegativeBinomial, OddsBernoulli, Poisson
from .feature_process import FeatureProcess
from .gamma_poisson import GammaPoisson
from .hierarchical_dirichlet import HierarchicalDirichletProcess
from .inverse_levy import inverse_levy
from .measures import (
    BetaPrimeProcess,
    BetaProcess,
    GammaProcess,
    GeneralizedGammaProcess,
    RateMeasure,
    StableBetaProcess,
)
from .pitman_yor import DirichletProcess, PitmanYor
from .process import Atoms, Process, Series
from .rejection import rejection
from .representation import MeasureSeries, Representation
from .thinning import thinning

__all__ = [
    "Atoms",
    "Bernoulli",
    "BetaBernoulli",
    "BetaPrimeProcess",
    "BetaProcess",
    "CountLikelihood",
    "DirichletProcess",
    "FeatureProcess",
    "GammaPoisson",
    "GammaProcess",
    "GeneralizedGammaProcess",
    "HierarchicalDirichletProcess",
    "MeasureSeries",
    "NegativeBinomial",
    "OddsBernoulli",
    "PitmanYor",
    "Poisson",
    "Process",
    "RateMeasure",
    "Representation",
    "Series",
    "StableBetaProcess",
    "bondesson",
    "delayed_bondesson",
    "inverse_levy",
    "rejection",
    "thinning",
]
