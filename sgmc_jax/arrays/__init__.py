"""Work on arrays of items that several packages share: tiles by label, chunks, and products."""

from .chunks import columns_by_chunks as columns_by_chunks
from .chunks import over_chunks as over_chunks
from .products import outer_products as outer_products
from .products import product as product
from .products import real_array as real_array
from .tiles import Tiles as Tiles
