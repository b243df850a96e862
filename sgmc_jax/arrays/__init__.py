"""What several packages do with arrays: tiles by label, chunks, rows, products, words, batches."""

from .batches import largest_of_batch
from .chunks import columns_by_chunks, over_chunks
from .indices import as_indices
from .products import (
    outer_products,
    product,
    real_array,
    squared_distances,
    weighted_sum,
)
from .rows import over_rows
from .tiles import Tiles
from .word_counts import compressed_rows, word_rows

__all__ = [
    "Tiles",
    "as_indices",
    "columns_by_chunks",
    "compressed_rows",
    "largest_of_batch",
    "outer_products",
    "over_chunks",
    "over_rows",
    "product",
    "real_array",
    "squared_distances",
    "weighted_sum",
    "word_rows",
]
