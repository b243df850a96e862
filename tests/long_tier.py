"""What waits for the long tier: it takes long, and the full tier has others of its kind.

Of a table of factors, a sampler inside a combinator, say, the full tier has rows with each value
of each factor; of a table whose rows share nothing, or whose values others have, every eighth,
other ones of the next table. What needs its full length to be told, planted faults for the most
part, waits too.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence

# tables whose rows take seconds each, by their files
_TABLES = {
    "bnp/test_broken_parameters.py": """
        test_an_item_without_a_law_stops_the_chain
        test_the_chain_stops
    """,
    "bnp/test_padding.py": """
        test_how_long_the_padding_is
        test_what_fills_the_padding
    """,
    "bnp/test_series_weights.py": """
        test_weights_given_their_columns
    """,
    "bnp/test_sticks.py": """
        test_a_cycle_that_grows_is_one_with_many_slots
    """,
    "calibration/test_sbc.py": """
        test_features
        test_groups
        test_mixtures
        test_without_a_fault_they_pass
    """,
    "composition/test_positions.py": """
        test_a_block_sees_the_hyper_parameters_of_another
        test_a_new_target_brings_its_hyper_parameters
        test_features_see_the_hyper_parameters_of_another_block
        test_mixtures_with_other_names
        test_pairs_of_feature_samplers
        test_pairs_of_hdp_samplers
        test_pairs_of_mixture_samplers
    """,
    "composition/test_slots.py": """
        test_growth_inside_a_combinator
        test_growth_on_shards
        test_the_same_chain_on_shards
    """,
    "engines/test_bnp.py": """
        test_shards_that_grow_are_one_device_with_room
    """,
    "engines/test_engines.py": """
        test_the_chain_does_not_know_its_engine
    """,
    "engines/test_estimates.py": """
        test_chains_of_windows_on_devices
    """,
    "engines/test_features.py": """
        test_the_chain_does_not_depend_on_the_capacity
        test_the_same_chain_on_any_engine
    """,
    "engines/test_hdp.py": """
        test_the_chain_does_not_depend_on_the_capacity
        test_the_same_chain_on_any_engine
    """,
    "engines/test_hybrid.py": """
        test_the_chain_does_not_depend_on_the_capacity
        test_the_same_chain_on_any_engine
        test_the_same_chain_on_eight_devices
    """,
    "engines/test_split_merge.py": """
        test_the_same_chain_on_any_engine
    """,
    "engines/test_synchronisation.py": """
        test_one_reduction_of_a_size_that_does_not_depend_on_the_data
    """,
    "engines/test_warm_features.py": """
        test_the_same_chain_on_any_engine
    """,
    "enumeration/test_awkward.py": """
        test_batches
        test_batches_on_shards
        test_blocks_in_a_cycle_with_split_merge_moves
        test_blocks_on_shards
        test_blocks_that_are_padded
        test_serial_samplers
        test_sticks_in_a_cycle
        test_stochastic_sticks_from_all_points
    """,
    "enumeration/test_comparators.py": """
        test_the_chain_does_not_depend_on_the_capacity
    """,
    "enumeration/test_crm_as_printed.py": """
        test_all_columns
    """,
    "enumeration/test_features.py": """
        test_all_columns_by_demotion
        test_all_columns_by_the_anchored_schedule
        test_random_hyper_parameters
        test_reported_parameters_have_their_posterior_law
        test_what_a_row_leaves_behind
    """,
    "enumeration/test_hdp.py": """
        test_all_partitions_by_the_anchored_schedule
        test_random_concentrations
    """,
    "enumeration/test_lda.py": """
        test_scir_with_all_documents
    """,
    "enumeration/test_likelihoods.py": """
        test_a_wrong_likelihood_is_seen
        test_all_columns
    """,
    "enumeration/test_mixture.py": """
        test_all_partitions_by_the_anchored_schedule
    """,
    "enumeration/test_slice.py": """
        test_all_partitions
    """,
    "enumeration/test_slice_bnb.py": """
        test_all_partitions_on_shards
        test_all_partitions_otherwise
        test_growth
        test_growth_in_combinators
        test_the_same_chain_on_shards
    """,
    "enumeration/test_slice_features.py": """
        test_a_series_with_blanks_in_combinators
        test_any_series_under_any_counts
        test_counts_by_every_series
        test_features_by_every_decay
        test_features_by_every_series
        test_growth
        test_in_combinators
        test_on_shards
        test_the_same_chain_on_shards
    """,
    "enumeration/test_slice_mass.py": """
        test_counts
        test_features_by_every_series
        test_in_combinators
        test_the_same_chain_whatever_the_capacity_and_the_shards
    """,
    "enumeration/test_spherical_admixture.py": """
        test_the_gradient_is_that_of_the_marginal
        test_the_topics_have_their_posterior
    """,
    "enumeration/test_split_merge.py": """
        test_all_partitions_at_length
        test_all_partitions_in_a_cycle
    """,
    "enumeration/test_stochastic_slice.py": """
        test_the_chain_does_not_depend_on_the_capacity
        test_the_same_chain_on_two_shards
    """,
    "families/test_centre.py": """
        test_far_data_keep_their_digits
    """,
    "families/test_families.py": """
        test_draws_do_not_depend_on_the_capacity
    """,
    "laws/test_empirical_fisher.py": """
        test_a_position_may_be_a_matrix_itself
    """,
    "laws/test_euclidean.py": """
        test_the_steps_are_those_of_whitened_coordinates
    """,
    "laws/test_exact.py": """
        test_blocks_keep_the_joint_law
    """,
    "laws/test_gaussian.py": """
        test_a_thermostat_less_estimated_noise_composes
        test_variance_with_minibatches
    """,
    "laws/test_langevin_composed.py": """
        test_a_wall_or_a_mirror_keeps_its_law
        test_an_estimator_keeps_the_law_of_its_chain
    """,
    "laws/test_manifold_composed.py": """
        test_the_joint_law
    """,
    "laws/test_manifold_laws.py": """
        test_stationary_law
        test_the_law_sees
        test_von_mises_fisher_with_noise
    """,
    "laws/test_metric_composed.py": """
        test_it_keeps_its_law
    """,
    "laws/test_orders.py": """
        test_the_order_of_the_bias
    """,
    "laws/test_simplex.py": """
        test_several_simplices_are_dirichlet_for_every_step_size
    """,
    "laws/test_spaces.py": """
        test_float32_does_not_leave
        test_many_points_are_one_array
        test_tangent_vectors
        test_the_flow_has_derivatives_of_both_modes
        test_the_flow_in_single_precision
    """,
    "laws/test_structure.py": """
        test_a_broken_chain_leaves_its_neighbours_alone
        test_a_chain_alone_is_the_first_of_several
        test_a_step_uses_every_key_once
        test_chains_share_batches_only_when_asked
        test_every_kernel_composes
        test_matrix_products_are_in_full_precision
        test_runs_are_pieced_together_bit_for_bit
        test_step_returns_what_init_returns_in_double_precision
        test_step_sizes_share_one_program
        test_vmap_is_a_loop
    """,
    "models/test_linear_gaussian.py": """
        test_windows_against_the_joint_normal_law
    """,
    "processes/test_exposure.py": """
        test_the_expected_number_by_quadrature
    """,
    "processes/test_representations.py": """
        test_places_given_weights
        test_points_of_thinning_are_those_with_atoms
        test_the_number_and_the_mass_above_a_level
    """,
    "random/test_poisson.py": """
        test_law_with_many_draws
    """,
    "test_advice.py": """
        test_the_excess_of_the_temperature
    """,
    "test_chains_at_once.py": """
        test_groups_are_all
    """,
    "test_notebooks.py": """
        test_it_runs_at_a_small_size
    """,
    "test_properties.py": """
        test_a_position_is_any_tree
        test_a_tree_moves_as_its_numbers_do
        test_each_leaf_has_a_dtype_of_its_own
    """,
}
# of these, samplers, combinators and shards are those of other tables
OF_OTHERS = {
    "bnp/test_broken_parameters.py": "test_an_item_without_a_law_stops_the_chain",
    "calibration/test_sbc.py": "test_features",
    "composition/test_positions.py": "test_pairs_of_mixture_samplers",
    "composition/test_slots.py": "test_growth_inside_a_combinator test_the_same_chain_on_shards",
    "engines/test_engines.py": "test_the_chain_does_not_know_its_engine",
    "engines/test_features.py": """
        test_the_chain_does_not_depend_on_the_capacity test_the_same_chain_on_any_engine
    """,
    "enumeration/test_awkward.py": """
        test_batches_on_shards test_blocks_in_a_cycle_with_split_merge_moves
        test_stochastic_sticks_from_all_points
    """,
    "enumeration/test_features.py": "test_random_hyper_parameters",
    "enumeration/test_likelihoods.py": "test_a_wrong_likelihood_is_seen",
    "enumeration/test_slice_bnb.py": "test_all_partitions_on_shards",
}
TABLES = {file: frozenset(names.split()) for file, names in _TABLES.items()}
_ONE_IN = 8


def waiting(items: Iterable) -> Iterator:
    """The tests marked full that wait: for their full length, or since others have their values."""
    tables: dict[str, dict[str, list]] = defaultdict(dict)
    for item in items:
        file, _, name = item.nodeid.removeprefix("tests/").partition("::")
        test = name.split("[")[0]
        if "long" in item.keywords:  # by a mark of its own
            continue
        if {"full", "at_length"} <= set(item.keywords):
            yield item
        elif test in TABLES.get(file, ()):
            tables[file].setdefault(test, []).append(item)
    for file, named in tables.items():
        for place, (test, rows) in enumerate(named.items()):
            alike = test in OF_OTHERS.get(file, "").split()
            values = [[] for _ in rows] if alike else _factors(rows)
            waits = [i for i, row in enumerate(rows) if "full" in row.keywords]
            held = [values[i] for i in range(len(rows)) if i not in waits]
            stay = staying([values[i] for i in waits], held, place)
            yield from (rows[i] for j, i in enumerate(waits) if j not in stay)


def staying(
    rows: Sequence[Sequence[Hashable]], held: Sequence[Sequence[Hashable]], place: int
) -> set[int]:
    """Which rows of a table stay in the full tier, where it is the `place`-th of its file.

    Those with each value of each factor that `held` lacks: one after another, the row with most
    that no row has yet, and of those the one of whose values the fewest are held. Without a factor
    every eighth.
    """
    if not any(rows):
        first = place % min(_ONE_IN, max(len(rows), 1))
        return set(range(first, len(rows), _ONE_IN))
    uses = Counter(value for row in held for value in enumerate(row))
    stay: set[int] = set()
    while left := [i for i, row in enumerate(rows) if not all(uses[x] for x in enumerate(row))]:
        best = min(left, key=lambda i: sorted(uses[value] for value in enumerate(rows[i])))
        uses.update(enumerate(rows[best]))
        stay.add(best)
    return stay


def _factors(rows: Sequence) -> list[list[Hashable]]:
    """Each row's values of the factors: the parameters of which rows share a value."""
    simple = lambda value: value if isinstance(value, str | int | float) else id(value)
    values = [[simple(value) for value in row.callspec.params.values()] for row in rows]
    factors = [column for column in zip(*values, strict=True) if len(set(column)) < len(column)]
    return [list(row) for row in zip(*factors, strict=True)] if factors else [[] for _ in rows]
