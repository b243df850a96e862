"""Batchers: which items a step sees, and the weight of each."""

from .stratified import Stratified as Stratified
from .stratified import neyman_sizes as neyman_sizes
from .uniform import Batch as Batch
from .uniform import Batcher as Batcher
from .uniform import Epoch as Epoch
from .uniform import Full as Full
from .uniform import Given as Given
from .uniform import Uniform as Uniform
from .weighted import Weighted as Weighted
from .weighted import optimal_probabilities as optimal_probabilities
from .window import SeriesWindow as SeriesWindow
from .window import Window as Window
