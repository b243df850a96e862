"""What several packages do with arrays of items: tiles by label, chunks, products, word rows."""

from .chunks import columns_by_chunks as columns_by_chunks
from .chunks import over_chunks as over_chunks
from .products import outer_products as outer_products
from .products import product as product
from .products import real_array as real_array
from .tiles import Tiles as Tiles
from .word_counts import compressed_rows as compressed_rows
from .word_counts import word_rows as word_rows
