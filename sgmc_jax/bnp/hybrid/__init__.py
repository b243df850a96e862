"""Partially collapsed Gibbs sampling in blocks of items: one step, three models, five schedules.

Items lie in blocks. In every step (`kernel.py`) shards first agree on sums over all items, and from
these each draws the same weights and parameters of the instantiated atoms (clusters, features or
topics). Then every block works by itself: in one of them, the designated one, items are swept one
by one with all other atoms integrated out, and atoms are born and die there; the items of all other
blocks choose among the instantiated atoms, all at once. The new sums end the step.

What atoms are, and how items move among them, is a model: `mixture.py`, `features.py`, `hdp.py`,
each over its sweep, `points.py`, `rows.py`, `grouped.py`. Which atoms are instantiated, which
entries may move, and where atoms are born, is a schedule (`schedules.py`); the rule that makes
sweeps in all blocks at once exact is in `anchors.py`.
"""
