"""What waits for the long tier: combinations of parts that the full tier has in others.

Of a table of two factors, a sampler inside a combinator, say, the full tier has rows with each
value of each factor, of a table of three with each two values; the long tier has all rows.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import combinations

# tables whose rows take seconds each, by their files
_TABLES = {
    "composition/test_positions.py": """
        test_a_new_target_brings_its_hyper_parameters
        test_pairs_of_feature_samplers
        test_pairs_of_mixture_samplers
    """,
    "composition/test_slots.py": """
        test_growth_inside_a_combinator
        test_the_same_chain_on_shards
    """,
    "engines/test_features.py": """
        test_the_same_chain_on_any_engine
    """,
    "enumeration/test_awkward.py": """
        test_batches
        test_sticks_in_a_cycle
        test_stochastic_sticks_from_all_points
    """,
    "enumeration/test_slice_features.py": """
        test_features_by_every_series
        test_growth
    """,
}
TABLES = {file: frozenset(names.split()) for file, names in _TABLES.items()}


def combinations_of(items: Iterable) -> Iterator:
    """The rows of tables that cover no value which the other rows do not."""
    tables: dict[tuple, list] = {}
    for item in items:
        file, _, name = item.nodeid.removeprefix("tests/").partition("::")
        test = name.split("[")[0]
        if test in TABLES.get(file, ()):
            tables.setdefault((file, test), []).append(item)
    for rows in tables.values():
        waits = [row for row in rows if "full" in row.keywords]
        held = [_values(row) for row in rows if row not in waits]
        chosen = cover([_values(row) for row in waits], held)
        yield from (row for i, row in enumerate(waits) if i not in chosen)


def cover(rows: Sequence[Sequence[Hashable]], held: Sequence[Sequence[Hashable]]) -> list[int]:
    """The places of rows with all that `held` lacks: each value of two factors, each two of more.

    One after another, the row with most that no row has yet, and of those the one of whose values
    the fewest are held.
    """
    uses = Counter(part for row in held for part in _parts(row))
    chosen: list[int] = []
    while left := [i for i, row in enumerate(rows) if any(not uses[part] for part in _parts(row))]:
        best = min(left, key=lambda i: sorted(uses[part] for part in _parts(rows[i])))
        uses.update(_parts(rows[best]))
        chosen.append(best)
    return sorted(chosen)


def _parts(row: Sequence[Hashable]) -> list[tuple]:
    return list(combinations(enumerate(row), 1 if len(row) < 3 else 2))


def _values(item) -> list[Hashable]:
    """The row's value of each factor, or which object it is."""
    values = item.callspec.params.values()
    return [value if isinstance(value, (str, int, float)) else id(value) for value in values]
