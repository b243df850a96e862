"""What draws are used for: held-out items and words, topics, and features as images.

Positions of all feature samplers are alike, and so are those of samplers of grouped words: these
functions take their arrays, one draw at a time or many by `jax.vmap`.
"""

from .features import held_out_error
from .new_items import NewItems
from .perplexity import infer_proportions, perplexity, word_probabilities
from .topics import (
    bnb_proportions,
    dirichlet_proportions,
    hdp_concentrations,
    top_words,
    topic_counts,
    word_distributions,
)

__all__ = [
    "NewItems",
    "bnb_proportions",
    "dirichlet_proportions",
    "hdp_concentrations",
    "held_out_error",
    "infer_proportions",
    "perplexity",
    "top_words",
    "topic_counts",
    "word_distributions",
    "word_probabilities",
]
