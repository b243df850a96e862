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

from .beta_bernoulli import BetaBernoulli as BetaBernoulli
from .bondesson import bondesson as bondesson
from .bondesson import delayed_bondesson as delayed_bondesson
from .counts import Bernoulli as Bernoulli
from .counts import CountLikelihood as CountLikelihood
from .counts import NegativeBinomial as NegativeBinomial
from .counts import OddsBernoulli as OddsBernoulli
from .counts import Poisson as Poisson
from .feature_process import FeatureProcess as FeatureProcess
from .gamma_poisson import GammaPoisson as GammaPoisson
from .hierarchical_dirichlet import HierarchicalDirichletProcess as HierarchicalDirichletProcess
from .inverse_levy import inverse_levy as inverse_levy
from .measures import BetaPrimeProcess as BetaPrimeProcess
from .measures import BetaProcess as BetaProcess
from .measures import GammaProcess as GammaProcess
from .measures import GeneralizedGammaProcess as GeneralizedGammaProcess
from .measures import RateMeasure as RateMeasure
from .measures import StableBetaProcess as StableBetaProcess
from .pitman_yor import DirichletProcess as DirichletProcess
from .pitman_yor import PitmanYor as PitmanYor
from .process import Atoms as Atoms
from .process import Process as Process
from .process import Series as Series
from .rejection import rejection as rejection
from .representation import MeasureSeries as MeasureSeries
from .representation import Representation as Representation
from .thinning import thinning as thinning
