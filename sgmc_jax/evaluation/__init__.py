"""What draws are used for: held-out items and words, topics, and features as images.

Positions of all feature samplers are alike, and so are those of samplers of grouped words: these
functions take their arrays, one draw at a time or many by `jax.vmap`.
"""

from .features import held_out_error as held_out_error
from .new_items import NewItems as NewItems
from .perplexity import infer_proportions as infer_proportions
from .perplexity import perplexity as perplexity
from .perplexity import word_probabilities as word_probabilities
from .topics import bnb_proportions as bnb_proportions
from .topics import dirichlet_proportions as dirichlet_proportions
from .topics import hdp_concentrations as hdp_concentrations
from .topics import top_words as top_words
from .topics import topic_counts as topic_counts
from .topics import word_distributions as word_distributions
