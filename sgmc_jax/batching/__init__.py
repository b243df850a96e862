"""Batchers: which items a step sees, and the weight of each."""

from .stratified import Stratified, neyman_sizes
from .uniform import Batch, Batcher, Epoch, Full, Given, Uniform
from .weighted import Weighted, optimal_probabilities
from .window import SeriesWindow, Window

__all__ = [
    "Batch",
    "Batcher",
    "Epoch",
    "Full",
    "Given",
    "SeriesWindow",
    "Stratified",
    "Uniform",
    "Weighted",
    "Window",
    "neyman_sizes",
    "optimal_probabilities",
]
