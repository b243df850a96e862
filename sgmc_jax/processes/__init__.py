"""Priors over random measures."""

from .pitman_yor import DirichletProcess as DirichletProcess
from .pitman_yor import PitmanYor as PitmanYor
