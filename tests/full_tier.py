"""What waits for the full tier: it takes a second or more, and is not the only one of its kind.

The fast tier keeps one law of every sampler, estimator, space, family and process, and one of what
runs them.
"""

import pytest

# which tests of which files pytest has read, those of other tiers too
COLLECTED = pytest.StashKey[set[str]]()

# examples of public names
SLOW_EXAMPLES = frozenset(
    """
    BayesianNetwork
    ControlVariate
    Cyclical
    HiddenMarkov
    LDA
    LDA.counts
    Laplace.draw
    LinearGaussianStateSpace
    LogisticRegression
    MatrixFactorization
    MinibatchCounts
    NewItems
    NormalGamma
    NormalInverseWishart
    Run.summary
    SAGACounts
    SoftmaxRegression
    SphericalAdmixture
    StochasticVolatility
    Stratified
    Transformed
    asynchronous_mixture
    auxiliary_mixture
    collapsed_mixture
    default_kernel
    from_numpyro
    grid_search
    hybrid_features
    hybrid_hdp
    hybrid_mixture
    inverse_levy
    kmeans_plus_plus
    mirrored_sgld
    plot_ksd
    plot_trace
    predictive
    scir
    seed_features
    sggmc
    sgrhmc
    slice_bnb
    slice_crm
    slice_features
    slice_mixture
    split_merge
    successive_halving
    tune_decay
    uncollapsed_mixture
    warm_features
    warm_mixture
    """.split()
)

# tests by their files, one a line, whole or a row of them
_TESTS = {
    "bnp/test_anchors.py": """
        test_items_with_a_label_each[0]
    """,
    "bnp/test_blocks.py": """
        test_every_place_of_every_item_has_numbers_of_its_own[16]
        test_every_place_of_every_item_has_numbers_of_its_own[4294967296]
    """,
    "bnp/test_bnb.py": """
        test_a_difference_of_two_large_sums_is_seen
        test_the_chance_of_no_item_in_float32
    """,
    "bnp/test_broken_parameters.py": """
        test_a_mass_out_of_range_that_no_door_has_seen_stops_the_chain
        test_all_shards_stop
        test_an_item_without_a_law_stops_the_chain[features]
        test_an_item_without_a_law_stops_the_chain[predictive]
        test_an_item_without_a_law_stops_the_chain[slices]
        test_one_item_of_a_negative_concentration[hybrid_mixture]
        test_the_chain_stops[auxiliary]
        test_the_chain_stops[hybrid]
        test_the_chain_stops[slice features]
        test_the_chain_stops[uncollapsed]
    """,
    "bnp/test_label_free.py": """
        test_chains_with_other_names_agree
    """,
    "bnp/test_odd_input.py": """
        test_a_chain_whose_sums_are_not_finite_is_flagged
        test_items_of_single_precision_under_hyper_parameters_of_double
        test_sizes_of_bytes_are_those_sizes[collapsed_hdp]
        test_sizes_of_bytes_are_those_sizes[hybrid_hdp]
        test_the_mass_of_a_block_of_gibbs_is_the_one_it_is_given
        test_the_noise_of_items_that_lie_far_off
        test_what_lies_past_a_groups_size_is_ignored[bnb]
        test_what_lies_past_a_groups_size_is_ignored[hdp]
    """,
    "bnp/test_order_of_draws.py": """
        test_weights_of_failures_know_the_new_mass
    """,
    "bnp/test_padding.py": """
        test_padding_that_is_an_anchor
        test_what_fills_the_padding[anchored]
        test_what_fills_the_padding[batches]
    """,
    "bnp/test_predictions.py": """
        test_counts_are_items_too
        test_draws_have_the_density_of_one_item_more
        test_draws_of_many_chains_are_known_by_their_positions
    """,
    "bnp/test_schedules.py": """
        test_clusters_are_born_in_their_cradles
    """,
    "bnp/test_seeding.py": """
        test_a_round_does_not_raise_the_cost
        test_planted_clusters_are_found_from_any_seed[20-16]
        test_planted_clusters_are_found_from_any_seed[6-2]
        test_seeds_of_few_and_of_equal_items
        test_two_means_divides_each_group_by_itself
    """,
    "bnp/test_series_weights.py": """
        test_a_product_of_zero_and_infinity_is_seen
        test_a_weight_that_begins_far_too_small_is_found
        test_weights_given_their_columns[bondesson, beta]
        test_weights_given_their_columns[inverse, beta]
        test_weights_given_their_columns[inverse, gamma, far]
        test_weights_given_their_columns[inverse, gamma]
        test_weights_given_their_columns[inverse, near 1]
        test_weights_given_their_columns[own, near 1]
        test_weights_given_their_columns[rejection, beta]
        test_weights_given_their_columns[rejection, gamma]
        test_weights_given_their_columns[stable beta]
        test_weights_given_their_columns[thinning, beta]
        test_weights_given_their_columns[thinning, gamma]
        test_weights_given_their_columns[thinning, near 1]
        test_weights_that_another_has_set_keep_their_law
        test_weights_that_are_read_off_their_places_are_seen
        test_weights_that_round_to_one_are_drawn_by_how_fast_their_density_falls
    """,
    "bnp/test_starts.py": """
        test_a_cycle_that_divides_clusters_begins_with_one[2]
        test_a_cycle_that_divides_clusters_begins_with_one[None]
        test_a_mass_with_a_prior_begins_at_its_own_value
        test_a_start_of_arrays_of_numpy
        test_what_has_a_prior_does_not_begin_outside_of_it[shared0-collapsed_mixture]
        test_what_has_a_prior_does_not_begin_outside_of_it[shared0-hybrid_mixture]
        test_what_has_a_prior_does_not_begin_outside_of_it[shared0-slice_mixture]
        test_what_has_a_prior_does_not_begin_outside_of_it[shared0-split_merge]
        test_what_has_a_prior_does_not_begin_outside_of_it[shared1-collapsed_mixture]
        test_what_has_a_prior_does_not_begin_outside_of_it[shared1-hybrid_mixture]
        test_what_has_a_prior_does_not_begin_outside_of_it[shared1-slice_mixture]
        test_what_has_a_prior_does_not_begin_outside_of_it[shared1-split_merge]
        test_whole_numbers_of_a_start_do_not_cut_off_the_kernels_own[1.0]
        test_whole_numbers_of_a_start_do_not_cut_off_the_kernels_own[1]
        test_whole_numbers_of_a_start_do_not_cut_off_the_kernels_own[given2]
        test_whole_numbers_of_a_start_do_not_cut_off_the_kernels_own[given3]
    """,
    "bnp/test_sticks.py": """
        test_an_empty_cluster_has_no_sums
        test_an_order_of_another_law[discount]
        test_an_order_of_another_law[rest]
        test_an_order_where_hardly_anything_is_left[process0]
        test_an_order_where_hardly_anything_is_left[process1]
        test_batches_of_shards_have_their_size_and_an_unbiased_sum[1-2]
        test_batches_of_shards_have_their_size_and_an_unbiased_sum[1-3]
        test_batches_of_shards_have_their_size_and_an_unbiased_sum[2-3]
        test_batches_of_shards_have_their_size_and_an_unbiased_sum[3-2]
        test_batches_of_shards_have_their_size_and_an_unbiased_sum[5-1]
        test_empty_sticks_have_the_free_slots_in_turn
        test_no_slot_more_changes_the_order
        test_sticks_by_langevin_steps_are_beta_variates
        test_sticks_that_miss_those_of_later_points_are_seen
        test_the_order_has_its_law[process0]
        test_the_order_has_its_law[process1]
        test_the_order_has_its_law[process2]
    """,
    "composition/test_positions.py": """
        test_a_block_grows_and_is_thinned
        test_a_new_target_brings_its_hyper_parameters[hybrid-cycle]
        test_a_new_target_brings_its_hyper_parameters[split-merge-cycle]
    """,
    "composition/test_slots.py": """
        test_a_capacity_of_numpy_is_a_number
        test_a_grown_run_is_continued_inside_gibbs
        test_a_kernel_without_slots_before_one_that_has_some[alone]
        test_a_kernel_without_slots_before_one_that_has_some[in a cycle]
        test_a_kernel_without_slots_before_one_that_has_some[in gibbs]
        test_an_overflow_that_thinning_loses
        test_blocks_of_a_gibbs_kernel_grow_together
        test_blocks_that_a_combinator_forgets
        test_growth_inside_a_combinator[hybrid-plain]
        test_growth_inside_a_combinator[slice-plain]
        test_growth_inside_a_combinator[walkers-all in gibbs]
        test_growth_inside_a_combinator[walkers-cycle]
        test_growth_inside_a_combinator[walkers-gibbs]
        test_growth_inside_a_combinator[walkers-repeat]
        test_growth_inside_a_combinator[walkers-thin of gibbs]
        test_growth_on_shards[gibbs]
        test_labels_before_a_mixture
        test_the_same_chain_on_shards[walkers-2-cycle]
        test_the_same_chain_on_shards[walkers-2-gibbs]
        test_the_same_chain_on_shards[walkers-2-thin]
    """,
    "diagnostics/test_ess.py": """
        test_draws_of_one_chain_are_not_many_chains[ess]
        test_ess_is_that_of_arviz[False-4 draws-bulk]
        test_ess_is_that_of_arviz[False-5 draws-bulk]
        test_ess_is_that_of_arviz[False-5 draws-mean]
        test_ess_is_that_of_arviz[False-6 draws-mean]
        test_ess_is_that_of_arviz[False-7 draws-bulk]
        test_ess_is_that_of_arviz[False-7 draws-mean]
        test_ess_is_that_of_arviz[False-8 draws-mean]
        test_ess_is_that_of_arviz[False-9 draws-bulk]
        test_ess_is_that_of_arviz[False-all chains stuck-mean]
        test_ess_is_that_of_arviz[False-antithetic -.5-bulk]
        test_ess_is_that_of_arviz[False-antithetic -.5-mean]
        test_ess_is_that_of_arviz[False-antithetic -.95-mean]
        test_ess_is_that_of_arviz[False-ar .5-bulk]
        test_ess_is_that_of_arviz[False-ar .9-bulk]
        test_ess_is_that_of_arviz[False-ar .9-mean]
        test_ess_is_that_of_arviz[False-ar .99-bulk]
        test_ess_is_that_of_arviz[False-constant-bulk]
        test_ess_is_that_of_arviz[False-heavy tails-bulk]
        test_ess_is_that_of_arviz[False-iid-mean]
        test_ess_is_that_of_arviz[False-odd draws-bulk]
        test_ess_is_that_of_arviz[False-odd draws-mean]
        test_ess_is_that_of_arviz[False-offset-bulk]
        test_ess_is_that_of_arviz[False-offset-mean]
        test_ess_is_that_of_arviz[False-one chain-mean]
        test_ess_is_that_of_arviz[False-poisson-bulk]
        test_ess_is_that_of_arviz[False-random walk-bulk]
        test_ess_is_that_of_arviz[False-random walk-mean]
        test_ess_is_that_of_arviz[False-stuck chain-bulk]
        test_ess_is_that_of_arviz[False-stuck chain-mean]
        test_ess_is_that_of_arviz[False-tiny scale-mean]
        test_ess_is_that_of_arviz[False-two-valued-bulk]
        test_ess_is_that_of_arviz[False-two-valued-mean]
        test_many_parameters_are_handled_alike_in_every_layout
        test_ranks_are_average_ranks
        test_scores_of_a_large_array_keep_both_tails
    """,
    "diagnostics/test_ksd.py": """
        test_a_wrong_sign_of_the_cross_terms_is_seen
        test_against_the_double_loop[False-0.7--0.2-u-joint]
        test_against_the_double_loop[False-0.7--0.2-v-coordinate]
        test_against_the_double_loop[False-1.0--0.5-u-coordinate]
        test_against_the_double_loop[False-1.0--0.5-u-joint]
        test_against_the_double_loop[False-1.0--0.5-v-coordinate]
        test_against_the_double_loop[False-2.0--0.8-u-joint]
        test_against_the_double_loop[False-2.0--0.8-v-coordinate]
        test_against_the_double_loop[False-2.0--0.8-v-joint]
        test_blocked_is_unblocked[1100-coordinate]
        test_blocked_is_unblocked[1100-joint]
        test_blocked_is_unblocked[513-coordinate]
        test_float32_is_accurate_at_4000_draws[coordinate]
        test_u_statistic_is_unbiased_under_score_noise_and_v_is_not
    """,
    "diagnostics/test_rhat.py": """
        test_many_parameters_trees_and_vmap
        test_rhat_is_that_of_arviz[False-5 draws]
        test_rhat_is_that_of_arviz[False-7 draws]
        test_rhat_is_that_of_arviz[False-8 draws]
        test_rhat_is_that_of_arviz[False-chain stuck in the tail]
        test_rhat_is_that_of_arviz[False-constant]
        test_rhat_is_that_of_arviz[False-heavy tails]
        test_rhat_is_that_of_arviz[False-negative zeros]
        test_rhat_is_that_of_arviz[False-odd draws]
        test_rhat_is_that_of_arviz[False-offset]
        test_rhat_is_that_of_arviz[False-poisson]
        test_rhat_is_that_of_arviz[False-shifted chain]
        test_rhat_is_that_of_arviz[False-trend]
        test_rhat_is_that_of_arviz[False-two-valued]
        test_rhat_is_that_of_arviz[False-wide chain]
    """,
    "diagnostics/test_rosenblatt.py": """
        test_the_level_of_exact_draws[alike]
        test_the_level_of_exact_draws[far apart]
        test_the_level_of_exact_draws[sparse]
    """,
    "engines/test_bnp.py": """
        test_shards_that_grow_are_one_device_with_room[mixture]
        test_shards_that_grow_are_one_device_with_room[slices]
    """,
    "engines/test_engines.py": """
        test_a_checkpoint_is_resumed_on_another_engine
        test_a_device_holds_its_share_of_the_data_alone[Pmap]
        test_a_device_holds_its_share_of_the_data_alone[ShardMap]
        test_a_run_goes_on_under_another_engine
        test_arrays_that_somebody_has_put_on_one_device[data]
        test_chains_on_devices_are_swept_saved_and_continued
        test_chains_on_devices_are_the_chains[Pmap8]
        test_chains_on_devices_are_the_chains[ShardMap8]
        test_chains_on_devices_are_the_chains[Vmap4]
        test_every_estimator_over_shards_is_unbiased[ControlVariate]
        test_every_estimator_over_shards_is_unbiased[Epoch]
        test_every_estimator_over_shards_is_unbiased[SVRG]
        test_every_estimator_over_shards_is_unbiased[replace]
        test_hmc_over_shards_is_hmc[Pmap8]
        test_hmc_over_shards_is_hmc[ShardMap8]
        test_hmc_over_shards_is_hmc[Vmap8]
        test_record_sees_the_items_in_their_order
        test_sharded_kernels_can_spread_their_chains_instead
        test_the_chain_does_not_know_its_engine[ShardMap8-21-None]
        test_the_chain_does_not_know_its_engine[ShardMap8-5-2]
        test_the_gradient_law_sees_a_prior_counted_on_every_shard
        test_the_gradient_over_shards_is_unbiased[None]
        test_the_gradient_over_shards_is_unbiased[Pmap8]
        test_the_gradient_over_shards_is_unbiased[ShardMap8]
        test_the_law_sees_a_planted_fault[KeyedByRow]
        test_the_law_sees_a_planted_fault[NeverMeeting]
        test_the_law_sees_a_planted_fault[PriorOnEveryShard]
        test_what_each_shard_keeps_is_resumed
    """,
    "engines/test_estimates.py": """
        test_chains_of_windows_on_devices
        test_derivatives_of_a_sum_over_shards[Vmap]
    """,
    "engines/test_hybrid.py": """
        test_the_same_chain_on_eight_devices[known]
    """,
    "engines/test_split_merge.py": """
        test_other_data_have_another_centre
    """,
    "engines/test_warm_features.py": """
        test_blocks_draw_numbers_of_their_own
        test_features_are_born_in_all_blocks_and_in_slots_of_their_own
        test_parameters_of_a_feature_are_those_that_its_block_has_drawn
    """,
    "engines/test_warm_mixture.py": """
        test_it_cools_to_one_block
    """,
    "enumeration/test_comparators.py": """
        test_a_finite_tail_is_not_exact
        test_atoms_of_a_finite_tail_share_the_concentration
    """,
    "enumeration/test_crm_comparators.py": """
        test_two_atoms
    """,
    "enumeration/test_features.py": """
        test_all_columns_by_demotion[linear]
        test_columns_are_visited_in_any_order_and_in_another_at_each_visit
    """,
    "enumeration/test_hdp.py": """
        test_all_partitions_by_demotion
        test_an_item_off_the_block_does_not_count_itself
        test_births_where_the_weight_of_what_is_new_underflows
        test_clusters_without_items_weigh_nothing[schedule0]
        test_clusters_without_items_weigh_nothing[schedule1]
    """,
    "enumeration/test_lda.py": """
        test_a_word_that_counts_itself_is_seen
        test_collapsed_gibbs
    """,
    "enumeration/test_likelihoods.py": """
        test_all_columns[factors-hybrid-kwargs1]
        test_all_columns[logistic-hybrid-kwargs0]
        test_answers_of_one_feature_by_quadrature
        test_counts_of_one_feature_by_quadrature[column0]
        test_counts_of_one_feature_by_quadrature[column1]
    """,
    "enumeration/test_mixture.py": """
        test_all_partitions_by_demotion[py]
    """,
    "enumeration/test_series.py": """
        test_all_partitions[3]
    """,
    "enumeration/test_slice.py": """
        test_a_step_of_a_warm_start_is_one_of_online_em
        test_a_warm_start_adds_no_slots_for_sticks_without_points
        test_a_warm_start_from_drawn_labels
        test_before_that_the_sums_are_averages_over_batches
        test_few_slots_for_five_points
    """,
    "enumeration/test_slice_bnb.py": """
        test_a_mass_of_its_law_keeps_it
        test_levels_past_the_known_clusters_ask_for_slots
        test_rates_given_the_counts
    """,
    "enumeration/test_slice_features.py": """
        test_any_series_under_any_counts[beta]
        test_in_combinators[gibbs]
        test_one_row_and_constant_columns
        test_parameters_of_features_that_no_item_has_are_of_the_prior
    """,
    "enumeration/test_slice_mass.py": """
        test_a_draw_of_the_mass_keeps_the_weights
        test_features
        test_the_mass_is_in_the_position
        test_where_weights_come_to_an_end_no_slot_is_missed
    """,
    "enumeration/test_spherical_admixture.py": """
        test_faults_of_the_gradient_are_seen
        test_perplexity_is_that_of_quadrature
        test_proportions_of_new_documents_are_their_posterior_means
        test_the_gradient_is_that_of_the_marginal
    """,
    "enumeration/test_stochastic_slice.py": """
        test_a_cluster_on_the_last_stick_asks_for_another_slot
        test_a_level_that_is_rounded_to_the_weight_of_the_points_own_atom
        test_bad_input
        test_langevin_steps_are_nearly_right_if_they_are_small
        test_sticks_past_the_last_cluster_are_of_the_new_concentration
    """,
    "evaluation/test_new_items.py": """
        test_a_law_that_was_recorded_with_fewer_slots
        test_a_position_has_hyper_parameters_of_its_own[process0]
        test_a_position_has_hyper_parameters_of_its_own[process1]
        test_births_beyond_those_that_are_summed_are_told_of
        test_counts_are_those_of_the_process
        test_counts_have_no_entries_above_their_own_bound
        test_counts_of_other_measures
        test_draws_average_to_the_predictive_density
        test_entries_are_summed_out[0.3-False]
        test_entries_are_summed_out[0.3-True]
        test_entries_are_those_of_the_process
        test_estimates_are_unbiased
        test_features_of_single_precision_in_double
        test_the_largest_are_the_likeliest
    """,
    "evaluation/test_topics.py": """
        test_probabilities_are_averaged_before_logarithms
        test_words_of_a_type_that_does_not_hold_the_vocabulary[int8-200]
        test_words_of_a_type_that_does_not_hold_the_vocabulary[uint8-256]
        test_words_of_topics_are_those_of_the_predictive
    """,
    "families/test_bessel.py": """
        test_at_zero
        test_out_of_range[log_bessel_i]
        test_transformations
        test_whole_numbers_and_broadcasting
    """,
    "families/test_centre.py": """
        test_far_data_keep_their_digits
        test_the_centre_knows_no_shards_no_padding_and_no_empty_groups
    """,
    "families/test_directional.py": """
        test_derivatives_are_differences
        test_shapes_and_ranges
    """,
    "families/test_edges.py": """
        test_families_are_built_under_vmap
        test_features_of_no_item_have_the_scale_that_is_drawn
        test_one_dimension_takes_flat_items
        test_small_shapes_stay_finite
        test_the_noise_of_large_items_does_not_know_from_where_they_were_measured
    """,
    "families/test_families.py": """
        test_a_planted_fault_is_seen[diagonal]
        test_a_planted_fault_is_seen[multinomial]
        test_a_planted_fault_is_seen[poisson]
        test_a_planted_fault_is_seen[wishart]
        test_draws_do_not_depend_on_the_capacity[categorical-True]
        test_draws_do_not_depend_on_the_capacity[diagonal-True]
        test_draws_do_not_depend_on_the_capacity[known-True]
        test_draws_do_not_depend_on_the_capacity[multinomial-True]
        test_draws_do_not_depend_on_the_capacity[poisson-True]
        test_draws_do_not_depend_on_the_capacity[wishart-True]
        test_empty_clusters_draw_from_the_prior[wishart]
        test_float32_stays_close_to_float64[categorical]
        test_float32_stays_close_to_float64[diagonal]
        test_float32_stays_close_to_float64[known]
        test_float32_stays_close_to_float64[multinomial]
        test_float32_stays_close_to_float64[poisson]
        test_float32_stays_close_to_float64[wishart]
        test_jit_and_vmap_agree_with_loops[categorical]
        test_jit_and_vmap_agree_with_loops[diagonal]
        test_jit_and_vmap_agree_with_loops[known]
        test_jit_and_vmap_agree_with_loops[multinomial]
        test_jit_and_vmap_agree_with_loops[poisson]
        test_jit_and_vmap_agree_with_loops[wishart]
        test_loglik_is_the_textbook_density[diagonal]
        test_loglik_is_the_textbook_density[known]
        test_loglik_is_the_textbook_density[wishart]
        test_marginal_is_the_chain_of_predictives[diagonal]
        test_marginal_is_the_chain_of_predictives[known]
        test_marginal_is_the_chain_of_predictives[multinomial]
        test_marginal_is_the_chain_of_predictives[wishart]
        test_no_items_at_all
        test_predictive_is_the_textbook_law[diagonal]
        test_predictive_is_the_textbook_law[known]
        test_predictive_is_the_textbook_law[multinomial]
        test_predictive_is_the_textbook_law[wishart]
        test_statistics_are_sums_over_items[diagonal]
        test_statistics_are_sums_over_items[known]
        test_statistics_are_sums_over_items[multinomial]
        test_statistics_are_sums_over_items[poisson]
        test_statistics_are_sums_over_items[wishart]
    """,
    "families/test_feature_likelihood.py": """
        test_an_energy_that_forgets_the_masses_is_seen
        test_padding_has_no_part_in_the_gradient
        test_parameters_move_beside_padding[None-2]
        test_parameters_move_beside_padding[Vmap(size=4)-8]
        test_slots_that_a_chain_grew_by_do_not_stop_its_moves
    """,
    "families/test_from_data.py": """
        test_units_do_not_matter[NormalGamma]
        test_units_do_not_matter[NormalInverseWishart]
    """,
    "families/test_large_counts.py": """
        test_a_column_that_all_items_have_under_any_concentration[1e-30-1]
        test_a_rows_numbers_are_its_own[loglik-multinomial]
        test_a_rows_numbers_are_its_own[loglik-poisson]
        test_a_rows_numbers_are_its_own[scores-multinomial]
        test_a_rows_numbers_are_its_own[scores-normal]
        test_documents_of_words_of_their_own_are_divided
        test_likelihoods_and_scores_keep_their_digits[0-poisson]
        test_likelihoods_and_scores_keep_their_digits[1000000-multinomial]
        test_likelihoods_and_scores_keep_their_digits[100000000-multinomial]
        test_likelihoods_and_scores_keep_their_digits[30-poisson]
        test_likelihoods_have_gradients[large-multinomial]
        test_likelihoods_have_gradients[large-normal]
        test_likelihoods_have_gradients[large-poisson]
        test_likelihoods_have_gradients[small-multinomial]
        test_likelihoods_have_gradients[small-normal]
        test_likelihoods_have_gradients[small-poisson]
        test_predictions_from_whole_numbers_of_64_bits_are_refused[data]
        test_predictions_from_whole_numbers_of_64_bits_are_refused[items]
        test_rows_of_any_total_have_their_predictive_density[0]
        test_rows_of_any_total_have_their_predictive_density[10000000]
        test_rows_of_any_total_have_their_predictive_density[1000000]
        test_rows_of_any_total_have_their_predictive_density[1000]
        test_rows_of_any_total_have_their_predictive_density[100]
        test_rows_of_any_total_have_their_predictive_density[1]
        test_shards_of_large_counts_are_checked_as_a_whole
        test_small_rows_cost_a_batch_of_calls_no_deviances[loglik-multinomial]
        test_small_rows_cost_a_batch_of_calls_no_deviances[loglik-poisson]
        test_small_rows_cost_a_batch_of_calls_no_deviances[scores-poisson]
    """,
    "families/test_linear_likelihoods.py": """
        test_answers_may_be_true_or_false
    """,
    "families/test_linear_tail.py": """
        test_of_a_batch_the_worn_alone_are_made_anew
        test_rounding_that_adds_up_is_seen
        test_what_is_kept_up_is_as_exact_as_what_is_made_anew[False-0.0001]
        test_what_is_kept_up_is_as_exact_as_what_is_made_anew[False-0.01]
        test_what_is_kept_up_is_as_exact_as_what_is_made_anew[False-0.1]
        test_what_is_kept_up_is_as_exact_as_what_is_made_anew[True-0.0001]
        test_what_is_kept_up_is_as_exact_as_what_is_made_anew[True-0.1]
        test_what_no_row_has_is_as_at_first
    """,
    "families/test_special.py": """
        test_a_factorial_that_falls[17.0--0.5]
        test_a_factorial_that_falls[20.0--19.5]
        test_a_factorial_that_falls[20.0--4.5]
        test_a_factorial_that_falls[40.0--10.0]
        test_log_rising_factorial[float32-3e-06]
        test_no_rise_is_none_where_division_is_not_rounded
        test_ratios_that_float32_cannot_hold
    """,
    "families/test_tiles.py": """
        test_bands_leave_out_nothing_but_zeros[16]
        test_bands_leave_out_nothing_but_zeros[17]
        test_bands_leave_out_nothing_but_zeros[1]
        test_counts_of_symbols_go_on_beyond_those_that_float32_counts_by_ones
        test_every_labelled_item_is_in_one_tile_of_its_label[1-1]
        test_every_labelled_item_is_in_one_tile_of_its_label[16-3]
        test_every_labelled_item_is_in_one_tile_of_its_label[300-7]
        test_label_statistics_are_those_of_the_one_hot_weights[1-wishart]
        test_moved_statistics_are_gains_less_losses[family0]
        test_untile_undoes_take
    """,
    "guide/test_contributing.py": """
        test_a_part_costs_what_the_table_says[EulerLangevin]
        test_a_part_costs_what_the_table_says[SVRG]
        test_a_part_costs_what_the_table_says[Sphere]
    """,
    "guide/test_own_parts.py": """
        test_a_fault_in_a_part_is_seen
        test_a_fault_in_a_part_is_seen[Torus]
        test_a_part_composes
        test_a_part_composes[cycle-Torus]
        test_a_part_composes[gibbs-Torus]
        test_a_part_composes[repeat-Torus]
        test_a_part_composes[thin-Torus]
        test_a_part_has_at_most_fifteen_lines
        test_a_part_has_at_most_fifteen_lines[Torus]
        test_a_part_has_its_law[Augmented]
        test_a_part_has_its_law[Collision]
        test_a_part_has_its_law[Exponential]
        test_a_part_has_its_law[RandomWalk]
        test_a_part_has_its_law[Torus]
        test_a_step_returns_what_init_returns
        test_a_step_returns_what_init_returns[Torus]
        test_a_step_returns_what_init_returns_in_double_precision
        test_a_step_returns_what_init_returns_in_double_precision[Torus]
        test_a_step_uses_every_key_once[Collision]
        test_a_step_uses_every_key_once[RandomWalk]
        test_a_step_uses_every_key_once[Torus]
        test_lines_are_counted
        test_runs_are_pieced_together
        test_step_sizes_share_one_program
        test_step_sizes_share_one_program[Torus]
    """,
    "laws/test_constrained.py": """
        test_far_from_the_boundary_a_step_is_one_of_sgld[projected]
        test_far_from_the_boundary_a_step_is_one_of_sgld[reflected]
        test_points_of_a_large_set_are_of_it
    """,
    "laws/test_cyclical.py": """
        test_a_search_beside_another_kernel_weighs_nothing[cycle]
        test_a_search_beside_another_kernel_weighs_nothing[gibbs]
        test_a_search_that_begins_a_step_late_is_seen
        test_a_search_without_noise_is_left_out_of_averages[0.3]
        test_a_search_without_noise_is_left_out_of_averages[step_size0]
        test_several_steps_that_end_in_a_search_weigh_nothing[repeat]
        test_several_steps_that_end_in_a_search_weigh_nothing[thin]
        test_the_cycle_of_each_draw[3-2]
        test_the_cycle_of_each_draw[7-5]
        test_what_is_always_cold_is_no_search
    """,
    "laws/test_empirical_fisher.py": """
        test_a_step_is_that_of_a_kernel_that_is_given_what_is_estimated[sgld sphere-False]
        test_a_step_is_that_of_a_kernel_that_is_given_what_is_estimated[sgld sphere-True]
        test_a_step_is_that_of_a_kernel_that_is_given_what_is_estimated[sgld-False]
        test_a_step_is_that_of_a_kernel_that_is_given_what_is_estimated[sgld-True]
        test_a_streamed_batch_on_shards_is_one_batch[False-3]
        test_a_streamed_batch_on_shards_is_one_batch[False-5]
        test_a_streamed_batch_on_shards_is_one_batch[True-3]
        test_a_streamed_batch_on_shards_is_one_batch[True-4]
        test_a_streamed_batch_on_shards_is_one_batch[True-5]
        test_in_a_metric_it_is_that_of_the_plain_one_in_its_units[cholesky-ABOBA-False]
        test_in_a_metric_it_is_that_of_the_plain_one_in_its_units[cholesky-ABOBA-True]
        test_in_a_metric_it_is_that_of_the_plain_one_in_its_units[cholesky-AFBNFA-False]
        test_in_a_metric_it_is_that_of_the_plain_one_in_its_units[cholesky-AFBNFA-True]
        test_in_a_metric_it_is_that_of_the_plain_one_in_its_units[cholesky-EA-False]
        test_in_a_metric_it_is_that_of_the_plain_one_in_its_units[cholesky-EA-True]
        test_in_a_metric_it_is_that_of_the_plain_one_in_its_units[cholesky-sgld-False]
        test_in_a_metric_it_is_that_of_the_plain_one_in_its_units[cholesky-sgld-True]
        test_in_a_metric_it_is_that_of_the_plain_one_in_its_units[cholesky-sgnht-False]
        test_in_a_metric_it_is_that_of_the_plain_one_in_its_units[cholesky-sgnht-True]
        test_in_a_metric_it_is_that_of_the_plain_one_in_its_units[product-sgld-False]
        test_in_a_metric_it_is_that_of_the_plain_one_in_its_units[product-sgld-True]
        test_in_a_metric_it_is_that_of_the_plain_one_in_its_units[scale-ABOBA-False]
        test_in_a_metric_it_is_that_of_the_plain_one_in_its_units[scale-ABOBA-True]
        test_in_a_metric_it_is_that_of_the_plain_one_in_its_units[scale-AFBNFA-False]
        test_in_a_metric_it_is_that_of_the_plain_one_in_its_units[scale-AFBNFA-True]
        test_in_a_metric_it_is_that_of_the_plain_one_in_its_units[scale-EA-False]
        test_in_a_metric_it_is_that_of_the_plain_one_in_its_units[scale-EA-True]
        test_in_a_metric_it_is_that_of_the_plain_one_in_its_units[scale-sgld-False]
        test_in_a_metric_it_is_that_of_the_plain_one_in_its_units[scale-sgld-True]
        test_in_a_metric_it_is_that_of_the_plain_one_in_its_units[scale-sgnht-False]
        test_in_a_metric_it_is_that_of_the_plain_one_in_its_units[scale-sgnht-True]
        test_it_is_unbiased_over_all_batches[False]
        test_on_a_sphere
        test_the_running_mean_is_that_of_earlier_batches[alone-False]
        test_the_running_mean_is_that_of_earlier_batches[alone-True]
        test_the_running_mean_is_that_of_earlier_batches[epoch-True]
        test_the_running_mean_is_that_of_earlier_batches[full-True]
        test_the_running_mean_is_that_of_earlier_batches[given-False]
        test_the_running_mean_is_that_of_earlier_batches[half-False]
        test_the_running_mean_is_that_of_earlier_batches[replace-False]
        test_the_running_mean_is_that_of_earlier_batches[replace-True]
        test_the_running_mean_is_that_of_earlier_batches[uniform-True]
        test_the_running_mean_sees[biased]
        test_the_running_mean_sees[large population]
        test_the_running_mean_sees[present]
        test_the_variance_is_that_of_the_exact_gradient
        test_what_is_clipped_is_counted[make2-True]
        test_what_is_clipped_is_counted[sghmc-True]
        test_what_is_clipped_is_counted[sgld-False]
        test_without_it_the_variance_is_larger[sgld]
    """,
    "laws/test_estimators.py": """
        test_a_centre_in_a_wider_dtype_than_the_position[bfloat16]
        test_a_centre_in_a_wider_dtype_than_the_position[float16]
        test_a_full_pass_in_pieces
        test_a_matrix_valued_linear_model
        test_a_pass_over_rows_in_place_of_windows_is_seen
        test_all_reduce_over_ragged_shards[sizes1]
        test_all_reduce_over_ragged_shards[sizes2]
        test_an_item_may_be_a_window_of_a_series
        test_control_variate_and_svrg[function]
        test_control_variate_and_svrg[sum]
        test_estimates_differ_by_their_terms_near_a_centre_and_far_from_it
        test_inclusion_and_pairs[1000]
        test_inclusion_and_pairs[3]
        test_inclusion_and_pairs[60]
        test_permutations_are_bijections[100000]
        test_permutations_are_bijections[1000]
        test_permutations_are_bijections[257]
        test_permutations_are_bijections[2]
        test_permutations_are_bijections[60]
        test_svrg_recentres_every_few_steps
    """,
    "laws/test_euclidean.py": """
        test_its_parts[dense]
        test_its_parts[diagonal]
        test_the_steps_are_those_of_whitened_coordinates[sghmc-dense]
        test_the_steps_are_those_of_whitened_coordinates[sgld-number]
        test_the_steps_are_those_of_whitened_coordinates[sgnht-diagonal]
    """,
    "laws/test_exact.py": """
        test_a_change_of_variables_needs_its_jacobian
        test_a_cycle_of_a_gibbs_sweep_and_a_joint_move
        test_blocks_keep_the_joint_law[cycle]
        test_blocks_keep_the_joint_law[mala]
        test_mala_accepts_by_the_rule_of_its_proposal
        test_metropolis_is_exact[one length]
        test_metropolis_is_exact[thin]
        test_the_joint_law_sees_stale_caches
        test_the_law_sees_an_energy_without_the_momentum
    """,
    "laws/test_gaussian.py": """
        test_a_thermostat_less_noise_that_is_known[diagonal]
        test_sgld_covariance_with_real_minibatches[False-False-function]
        test_sgld_covariance_with_real_minibatches[False-True-function]
        test_sgld_covariance_with_real_minibatches[True-True-function]
        test_the_law_sees_a_wrong_denominator
        test_the_law_sees_noise_too_large_by_a_twentieth
        test_two_chains_of_one_noise_approach_at_the_rate_of_the_drift[0.5]
        test_two_chains_of_one_noise_approach_at_the_rate_of_the_drift[1.0]
        test_variance_with_minibatches[ABOBA]
        test_variance_with_minibatches[BAOAB]
        test_variance_with_minibatches[density]
        test_variance_with_the_noise_subtracted
    """,
    "laws/test_latent_counts.py": """
        test_a_stopped_chain_keeps_its_table
        test_a_table_counts_what_it_holds
        test_anchored_counts_have_their_floor_on_shards_too
        test_new_totals_make_latent_allocations_exact
    """,
    "laws/test_letters.py": """
        test_a_preconditioner_that_is_lost_is_seen
    """,
    "laws/test_manifold_laws.py": """
        test_a_dirichlet_law_by_metropolis
        test_stationary_law[exponential-gmc]
        test_stationary_law[gamma-gmc]
        test_stationary_law[matrix_langevin-gmc]
    """,
    "laws/test_manifolds.py": """
        test_a_space_with_a_metric_of_its_own[hmc]
        test_a_space_with_a_metric_of_its_own[thermostat]
        test_its_product_with_a_line
        test_the_law_sees_the_metric_of_the_embedding
        test_the_sphere_law_sees_noise_too_large_by_a_twentieth
        test_von_mises_fisher[ABOBA]
        test_von_mises_fisher[AFBNFA]
        test_von_mises_fisher[geodesic hmc]
    """,
    "laws/test_matrix_friction.py": """
        test_a_flow_of_ones_own_is_used[sgnht_on]
        test_a_letter_on_spheres_and_a_plane
        test_a_multiple_of_the_identity_is_a_number[ABOBA-matrix]
        test_a_multiple_of_the_identity_is_a_number[AFBNFA-None]
        test_a_multiple_of_the_identity_is_a_number[AFBNFA-matrix]
        test_a_multiple_of_the_identity_is_a_number[EA-None]
        test_a_step_is_its_letters[ABOBA-matrix]
        test_a_step_is_its_letters[AFBNFA-matrix]
        test_a_step_is_its_letters[EA-None]
        test_a_step_sees[kicks that do not decay]
        test_a_step_sees[twice the friction in N]
        test_a_step_sees[twice the friction in O]
        test_noise_of_minibatches_is_subtracted
        test_the_law_sees_what_is_not_subtracted
        test_the_letters_see[friction not projected]
        test_the_letters_see[kicks that do not decay]
        test_the_letters_see[noise of the diagonal]
        test_the_letters_see[twice the friction in N]
        test_the_letters_see[twice the friction in O]
        test_two_halves_of_o_are_one
        test_von_mises_fisher[ABOBA-0.1]
    """,
    "laws/test_mirrored.py": """
        test_a_coordinate_that_rounds_to_zero_goes_on
        test_a_covariance_in_the_units_of_the_position_is_seen
        test_means_of_a_dirichlet_posterior_are_exact_from_batches
        test_the_covariance_is_one_of_dual_coordinates[False]
        test_the_covariance_is_one_of_dual_coordinates[True]
        test_the_noise_of_counts_is_subtracted[estimated]
        test_the_noise_of_counts_is_subtracted[known]
        test_what_is_left_is_clean_to_first_order
        test_what_is_subtracted_cools_a_step
    """,
    "laws/test_precision.py": """
        test_models[counts]
        test_models[linear Gaussian]
        test_models[logistic]
        test_models[normal chain]
        test_models[softmax]
    """,
    "laws/test_psgld.py": """
        test_once_the_preconditioner_is_fixed_gamma_adds_nothing
        test_the_noise_of_the_gradient_is_subtracted[given]
        test_the_variance_without_noise_is_one_with_gamma_alone
        test_what_is_left_of_the_noise[diagonal]
        test_what_is_left_of_the_noise[matrix]
        test_what_is_left_of_the_noise[number]
    """,
    "laws/test_recipe.py": """
        test_a_diagonal_that_knows_other_coordinates_is_refused[start0]
        test_a_diagonal_that_knows_other_coordinates_is_refused[start2]
        test_a_step_of_the_thermostat
        test_coordinates_that_cancel_in_pairs_are_seen
        test_hamiltonian_monte_carlo_from_minibatches
        test_noise_is_turned_by_a_curl_and_not_back
        test_with_the_identity_it_is_sgld_step_for_step
    """,
    "laws/test_refresh.py": """
        test_momenta_are_tangent_where_others_have_moved_the_position
        test_momenta_have_the_law_of_the_metric_that_another_block_has_changed
        test_momenta_have_the_temperature_that_another_block_has_changed[alone]
        test_momenta_that_stay_behind_are_seen
        test_sums_of_an_old_target_are_seen[control variate]
    """,
    "laws/test_riemannian.py": """
        test_a_gaussian_from_minibatches[sgrld-factor-False]
        test_noise_is_subtracted_in_the_coordinates_of_the_momentum
        test_the_bias_is_of_order_one
    """,
    "laws/test_rounding.py": """
        test_a_metropolis_test_accepts_nothing_at_random
        test_a_negative_binomial_of_a_large_size
        test_a_small_drift_far_from_zero
        test_a_small_drift_of_a_large_gamma[1040000.0]
        test_a_small_drift_of_a_large_gamma[990000.0]
        test_friction_and_noise_in_half_precision[piece0-bfloat16]
        test_friction_and_noise_in_half_precision[piece0-float16]
        test_friction_and_noise_in_half_precision[piece1-float16]
        test_kernels_in_half_precision[matrix friction, V estimated]
        test_kernels_in_half_precision[psgld, V estimated]
        test_kernels_in_half_precision[sgrhmc, V]
        test_kernels_in_half_precision[sgrhmc, a matrix]
        test_kernels_in_half_precision[sgrld, V]
        test_moves_below_the_rounding_of_a_position_add_up[alone-0.005-sghmc]
        test_moves_below_the_rounding_of_a_position_add_up[alone-0.025-sgnht]
        test_noise_that_is_subtracted_in_half_precision
    """,
    "laws/test_simplex.py": """
        test_misprinted_moments_are_seen
        test_moments_of_scir_after_some_moves[without]
        test_positions_in_half_precision[refresh]
        test_the_variance_of_the_geometric_ornstein_uhlenbeck_process
        test_what_a_move_adds_decays_in_the_moves_after_it
    """,
    "laws/test_spaces.py": """
        test_a_flow_that_slows_by_a_hundred_thousandth_is_seen
        test_a_matrix_of_size_one_is_a_positive_number
        test_a_random_point_is_uniform[frames]
        test_a_random_point_is_uniform[rotations and reflections]
        test_a_random_point_is_uniform[spheres in a tree]
        test_dirichlet_densities_are_normalised[2.0]
        test_exponentials[0.0-float32-2e-07]
        test_exponentials[0.0-float64-1e-14]
        test_exponentials[0.01-float32-2e-07]
        test_exponentials[0.01-float64-1e-14]
        test_exponentials[1.0-float64-1e-14]
        test_exponentials[30.0-float32-2e-07]
        test_exponentials[30.0-float64-1e-14]
        test_exponentials_of_what_shrinks_and_of_what_grows[float32]
        test_exponentials_of_what_shrinks_and_of_what_grows[float64]
        test_float32_does_not_leave[space0-like0-10000]
        test_measures_of_many_points_are_those_of_each
        test_one_column_is_a_sphere
        test_points_in_half_precision_are_of_their_space[bfloat16]
        test_positions_are_put_back_whatever_their_frame
        test_tangent_vectors[Hyperboloid-(4, 3)]
        test_tangent_vectors[Positive-(5,)]
        test_tangent_vectors[SPD-(2, 3, 3)]
        test_tangent_vectors[Simplex-(4, 5)]
        test_tangent_vectors[Sphere-(4, 5)]
        test_tangent_vectors[Stiefel-(2, 6, 3)]
        test_the_flow[SPD-(2, 3, 3)]
        test_the_flow_has_derivatives_of_both_modes[Hyperboloid-(4, 3)]
        test_the_flow_has_derivatives_of_both_modes[Positive-(5,)]
        test_the_flow_has_derivatives_of_both_modes[SPD-(2, 3, 3)]
        test_the_flow_has_derivatives_of_both_modes[Simplex-(4, 5)]
        test_the_flow_has_derivatives_of_both_modes[Stiefel-(2, 6, 3)]
        test_the_flow_in_single_precision[Hyperboloid-(4, 3)]
        test_the_flow_in_single_precision[SPD-(2, 3, 3)]
        test_the_flow_in_single_precision[Simplex-(4, 5)]
        test_the_flow_in_single_precision[Sphere-(4, 5)]
        test_the_flow_in_single_precision[Stiefel-(2, 6, 3)]
        test_the_flow_of_a_product_is_that_of_its_parts[float32-1e-06]
        test_the_flow_of_a_product_is_that_of_its_parts[float64-1e-14]
        test_without_a_step_to_the_polar_factor_it_would
    """,
    "laws/test_stochastic_density.py": """
        test_all_data_are_exact_and_metropolis_takes_them
        test_in_float64_and_with_momenta
        test_it_is_unbiased_over_all_batches[1]
        test_it_is_unbiased_over_all_batches[4]
        test_streams_of_batches
        test_the_chain_is_that_of_a_model[batcher0]
        test_the_chain_is_that_of_a_model[batcher2]
        test_the_chain_is_that_of_a_model[batcher3]
        test_the_chain_is_that_of_a_model_with_any_weights[batcher0]
        test_the_chain_is_that_of_a_model_with_any_weights[batcher1]
        test_the_chain_is_that_of_a_model_with_any_weights[batcher2]
        test_the_law_sees_a_missing_scale_a_prior_too_many_and_padding_that_counts
        test_windows_of_a_series
    """,
    "laws/test_structure.py": """
        test_a_broken_chain_leaves_its_neighbours_alone[psgld frozen-12]
        test_a_broken_chain_leaves_its_neighbours_alone[sghmc fisher-24]
        test_a_broken_chain_leaves_its_neighbours_alone[sgld window-36]
        test_a_step_uses_every_key_once[scir saga-89]
        test_a_step_uses_every_key_once[scir-41]
        test_a_step_uses_every_key_once[sghmc OBABO-25]
        test_a_step_uses_every_key_once[sghmc fisher-29]
        test_a_step_uses_every_key_once[sgld replace-1]
        test_a_step_uses_every_key_once[sgld stratified-85]
        test_chains_share_batches_only_when_asked[psgld frozen-12]
        test_chains_share_batches_only_when_asked[scir anchored-42]
        test_chains_share_batches_only_when_asked[sggmc matrix-36]
        test_every_kernel_composes[repeat-reflected-15]
        test_every_kernel_composes[thin-slice_mixture of batches-60]
        test_runs_are_pieced_together_bit_for_bit[sgld all reduce-9]
        test_runs_are_pieced_together_bit_for_bit[sgld density-81]
        test_runs_are_pieced_together_bit_for_bit[sgld latent-90]
        test_runs_are_pieced_together_bit_for_bit[sgrld simplex-45]
        test_runs_are_pieced_together_bit_for_bit[sgrld-20]
        test_step_sizes_share_one_program[scir anchored-42]
        test_vmap_is_a_loop[hmc-32]
        test_vmap_is_a_loop[mirrored-16]
        test_vmap_is_a_loop[scir schedule-42]
    """,
    "laws/test_temperature.py": """
        test_a_constant_schedule_is_that_number[sgld]
        test_a_covariance_beside_a_search_that_is_cold_at_first[<lambda>]
        test_a_momentum_that_is_drawn_anew_is_as_hot_as_its_step
        test_at_any_temperature_the_same_is_subtracted_from_the_noise[ABOBA matrix]
        test_at_any_temperature_the_same_is_subtracted_from_the_noise[AFBNFA matrix]
        test_at_any_temperature_the_same_is_subtracted_from_the_noise[AFBNFA]
        test_at_any_temperature_the_same_is_subtracted_from_the_noise[EA matrix]
        test_at_any_temperature_the_same_is_subtracted_from_the_noise[EA]
        test_at_any_temperature_the_same_is_subtracted_from_the_noise[sgld]
        test_what_a_metric_adds_to_a_step_is_linear_in_the_temperature[psgld gamma]
        test_what_a_metric_adds_to_a_step_is_linear_in_the_temperature[recipe]
        test_what_a_metric_adds_to_a_step_is_linear_in_the_temperature[sgrhmc]
        test_what_a_metric_adds_to_a_step_is_linear_in_the_temperature[sgrld]
    """,
    "laws/test_trajectory.py": """
        test_one_as_long_as_a_period_comes_back_unless_it_is_jittered[0.0-0.0-0.02]
    """,
    "laws/test_transformed.py": """
        test_bijectors_of_others[constraint0]
        test_correlations_near_one_in_float32
        test_far_from_the_origin_nothing_overflows
        test_jacobians_are_those_of_differentiation[correlation]
        test_jacobians_are_those_of_differentiation[covariance]
        test_the_check_sees_a_weight_that_is_off_by_one
        test_the_laws_are_those_of_the_users_coordinates
    """,
    "laws/test_window.py": """
        test_windows_are_those_of_the_definition[(10, 6, 1)-False]
        test_windows_are_those_of_the_definition[(10, 6, 1)-True]
        test_windows_are_those_of_the_definition[(5, 2, 1)-False]
        test_windows_are_those_of_the_definition[(7, 2, 7)-False]
        test_windows_are_those_of_the_definition[(7, 7, 0)-False]
        test_windows_are_those_of_the_definition[(8, 3, 2)-True]
        test_windows_are_those_of_the_definition[(9, 1, 0)-True]
        test_windows_are_those_of_the_definition[(9, 4, 9)-True]
    """,
    "models/test_bayesian_network.py": """
        test_a_network_that_is_a_function_of_its_weights
    """,
    "models/test_flax.py": """
        test_a_bayesian_network_of_a_module
        test_parameters_of_linen_are_a_position
        test_parameters_of_nnx_are_a_position
    """,
    "models/test_hidden_markov.py": """
        test_a_rare_state_beside_quick_ones_in_float32
        test_any_kind_of_key_simulates[Poisson]
        test_any_kind_of_key_simulates[categorical]
        test_any_kind_of_key_simulates[normal]
        test_long_buffers_are_unbiased
        test_rows_that_a_state_cannot_emit
        test_simulated_series_have_the_law[Poisson]
        test_three_states
    """,
    "models/test_lda.py": """
        test_a_burn_in_is_of_the_sweeps_before_the_first_that_counts[0-1]
        test_a_burn_in_is_of_the_sweeps_before_the_first_that_counts[0-2]
        test_a_burn_in_is_of_the_sweeps_before_the_first_that_counts[2-3]
        test_a_burn_in_is_of_the_sweeps_before_the_first_that_counts[3-1]
        test_a_chain_begins_with_documents_of_the_host[collapsed]
        test_a_chain_begins_with_documents_of_the_host[gibbs]
        test_a_corpus_on_disk
        test_a_corpus_without_words_gives_the_prior[collapsed]
        test_a_corpus_without_words_gives_the_prior[gibbs]
        test_a_small_alpha_is_not_lost_beside_a_word
        test_a_vocabulary_that_the_type_of_its_words_does_not_hold[int16-40000-collapsed]
        test_a_vocabulary_that_the_type_of_its_words_does_not_hold[int16-40000-counts]
        test_a_vocabulary_that_the_type_of_its_words_does_not_hold[int16-40000-gibbs]
        test_a_vocabulary_that_the_type_of_its_words_does_not_hold[int8-128-collapsed]
        test_a_vocabulary_that_the_type_of_its_words_does_not_hold[int8-128-counts]
        test_a_vocabulary_that_the_type_of_its_words_does_not_hold[int8-128-gibbs]
        test_a_vocabulary_that_the_type_of_its_words_does_not_hold[uint8-256-collapsed]
        test_a_vocabulary_that_the_type_of_its_words_does_not_hold[uint8-256-counts]
        test_a_vocabulary_that_the_type_of_its_words_does_not_hold[uint8-256-gibbs]
        test_chains_with_batches_of_their_own_are_those_of_a_loop
        test_draws_do_not_depend_on_lanes_nor_on_padding
        test_float64
        test_perplexity_of_known_topics
        test_planted_topics_are_found[table]
        test_proportions_of_a_new_document
        test_the_position_of_collapsed_gibbs_is_the_topics_mean
        test_topics_of_half_precision_are_drawn_as_those_of_single_precision
        test_unseen_words_keep_their_prior_mass
        test_whole_numbers_of_numpy
        test_words_of_any_whole_type_are_those_words
    """,
    "models/test_linear_gaussian.py": """
        test_a_series_far_from_zero_keeps_its_digits
        test_simulated_series_have_the_law[None]
        test_smoothed_states_have_the_conditional_law[None]
        test_smoothed_states_have_the_conditional_law[given]
        test_the_buffers_error_is_that_of_the_formula
        test_the_joint_normal_law[None]
    """,
    "models/test_matrix_factorization.py": """
        test_sums_and_differences_are_those_of_automatic_differentiation
        test_users_of_a_type_that_does_not_hold_their_number[int8-200]
        test_users_of_a_type_that_does_not_hold_their_number[uint16-65536]
        test_users_of_a_type_that_does_not_hold_their_number[uint8-256]
    """,
    "models/test_numpyro.py": """
        test_deterministic_sites_are_told_but_for_those_of_rows
        test_rows_and_priors_of_any_kind_have_the_density_of_numpyro[flat]
        test_rows_and_priors_of_any_kind_have_the_density_of_numpyro[rows of shares]
        test_the_density_is_that_of_numpyro[by index of a size]
        test_the_density_is_that_of_numpyro[plate]
        test_the_predictive_has_the_probabilities_of_the_likelihood
    """,
    "models/test_particles.py": """
        test_rows_that_fill_up_a_window_weigh_nothing
    """,
    "models/test_regressions.py": """
        test_gradients_and_curvature_are_those_of_the_dense_formula[model0-dense_logistic-y0-shape0]
        test_simulated_data_have_the_law_of_the_model
        test_the_posterior_mean_is_that_of_a_quadrature
    """,
    "models/test_series_coordinates.py": """
        test_matrices_but_those_that_are_known[linear]
        test_runs_report_parameters_and_say_where_they_do_not[of_volatility]
        test_there_and_back_with_any_leading_axes[known]
        test_there_and_back_with_any_leading_axes[linear]
    """,
    "models/test_series_doors.py": """
        test_a_first_state_that_is_known
        test_a_position_in_single_precision_takes_a_series_in_double
    """,
    "models/test_spherical_admixture.py": """
        test_a_document_of_negative_numbers_counts
        test_a_step_of_variational_inference_of_three_words
        test_chains_of_proportions_go_on_from_where_they_were
        test_documents_that_are_read_batch_by_batch
        test_documents_without_words_say_nothing
        test_other_bad_input_is_refused
        test_stochastic_variational_inference_goes_up
        test_sums_of_directions_that_are_nothing
        test_the_first_trajectory_may_count
        test_the_gradient_given_proportions_is_the_derivative[0]
        test_the_gradient_given_proportions_is_the_derivative[32]
    """,
    "processes/test_exposure.py": """
        test_a_concentration_that_was_traced_out_of_range_is_no_number[bondesson]
        test_columns_are_sums_over_real_items[few failures]
        test_columns_are_sums_over_real_items[negative binomial]
        test_columns_are_sums_over_real_items[twice]
        test_series_know_places_by_their_ratio_to_the_mass[bondesson-beta 3]
        test_series_know_places_by_their_ratio_to_the_mass[rejection-gamma]
        test_series_know_places_by_their_ratio_to_the_mass[thinning-beta 3]
        test_the_expected_number_in_closed_form[1]
        test_the_expected_number_of_counts_of_a_large_mean[1-1000000000.0]
        test_the_expected_number_of_counts_of_a_large_mean[1-1e+20]
        test_the_expected_number_of_counts_of_a_large_mean[1000-1000.0]
        test_the_expected_number_of_counts_of_a_large_mean[1000-1000000000.0]
    """,
    "processes/test_feature_processes.py": """
        test_a_step_up_of_small_odds_in_float32[feature]
        test_columns_of_large_concentrations_in_float32[10-1000.0]
        test_columns_of_large_concentrations_in_float32[10-10000.0]
        test_columns_of_weights_that_are_rounded
        test_hyper_parameters_given_columns
        test_pairs_of_neighbours
        test_weights
        test_weights_of_columns_alike[BetaBernoulli]
    """,
    "processes/test_hyper_parameters.py": """
        test_a_concentration_and_a_discount[of_sizes]
        test_a_concentration_given_columns
        test_it_is_the_process_of_these_constants[DirichletProcess]
        test_it_is_the_process_of_these_constants[GammaPoisson]
        test_it_is_the_process_of_these_constants[PitmanYor]
    """,
    "processes/test_pitman_yor.py": """
        test_a_discount_comes_near_zero_as_often_as_it_should
        test_concentrations_that_are_larger_than_the_data[0.001]
        test_factorials_that_swamp_the_rest_are_seen
        test_hyper_parameters_given_sticks[process0]
        test_hyper_parameters_given_sticks[process1]
        test_it_is_the_probability_of_a_partition
        test_of_three_million_items
        test_sticks_that_are_counted_from_zero_are_seen
        test_the_concentration_of_no_points_has_its_prior
        test_the_discount_of_a_dirichlet_process_is_its_own
    """,
    "processes/test_representations.py": """
        test_a_tail_that_falls_fast[0.5]
        test_a_tail_that_falls_fast[100.0]
        test_an_inverse_of_too_few_iterations_is_seen
        test_envelopes[beta 1]
        test_envelopes[beta 3]
        test_places_given_weights
        test_places_given_weights[bondesson-beta 3]
        test_points_of_thinning_are_as_many_as_there_are_atoms
        test_points_of_thinning_are_those_with_atoms
        test_points_of_thinning_come_in_order[beta prime]
        test_special_functions_in_float32
        test_tails_by_quadrature[beta 1/2]
        test_tails_by_quadrature[beta 1]
        test_tails_by_quadrature[beta 3]
        test_tails_of_stable_beta_processes_in_single_precision[0.1-1.0]
        test_tails_of_stable_beta_processes_in_single_precision[0.1-100.0]
        test_tails_of_stable_beta_processes_in_single_precision[0.1-10000.0]
        test_tails_of_stable_beta_processes_in_single_precision[0.9-1.0]
        test_the_inverse_of_the_tail[beta 3]
        test_the_inverse_of_the_tail[gamma 300]
        test_the_number_and_the_mass_above_a_level
        test_the_number_and_the_mass_above_a_level[bondesson-beta 3]
        test_the_number_and_the_mass_above_a_level[rejection-gamma]
        test_the_number_and_the_mass_above_a_level[thinning-beta 3]
        test_v_has_its_density
        test_v_has_its_density[bondesson-beta 3]
        test_v_has_its_density[thinning-beta 3]
    """,
    "random/test_cir.py": """
        test_broadcasting_types_keys_and_bad_values
        test_law_of_the_branch_without_poisson
        test_promise_of_large_shapes
        test_the_law_test_sees_a_shape_wrong_by_two_per_cent[(0.499, -200.0, 1e-06)]
        test_the_law_test_sees_a_shape_wrong_by_two_per_cent[(0.6, -3.0, 0.05)]
        test_vmap_is_a_loop
    """,
    "random/test_feistel.py": """
        test_a_range_far_below_its_bound_is_shuffled_too[100-1000-5]
        test_a_range_far_below_its_bound_is_shuffled_too[257-1000-2]
        test_a_range_far_below_its_bound_is_shuffled_too[3-1000-1]
        test_strata_of_very_different_sizes[counts1-sizes1]
        test_the_permutation_does_not_depend_on_the_bound[100000]
        test_the_permutation_does_not_depend_on_the_bound[1000]
        test_the_permutation_does_not_depend_on_the_bound[257]
        test_the_permutation_does_not_depend_on_the_bound[4097]
        test_the_permutation_does_not_depend_on_the_bound[524289]
    """,
    "random/test_gamma.py": """
        test_any_kind_of_key[rbg]
        test_any_kind_of_key[unsafe_rbg]
        test_flagged[0.0-1000]
        test_flagged[0.05-1000]
        test_flagged[1.0-1000]
        test_log_gamma_law_float64
        test_rejections_beyond_the_buffer[512]
        test_rejections_beyond_the_buffer[513]
        test_shapes_types_and_bad_values
        test_the_law_test_sees_a_shape_wrong_by_two_per_cent[1000.0]
        test_the_law_test_sees_a_shape_wrong_by_two_per_cent[2.5]
        test_vmap_is_a_loop_and_few_are_the_first_of_many
        test_words_float32
        test_words_float64
    """,
    "random/test_normal.py": """
        test_a_number_depends_on_the_key_and_its_flat_index[PRNGKey]
        test_a_number_depends_on_the_key_and_its_flat_index[key]
        test_law_float64
        test_normals_of_half_precision_are_rounded[float16-4000000-0.003-threefry2x32]
        test_uniforms_of_half_precision_are_rounded[float16]
    """,
    "random/test_poisson.py": """
        test_edges
        test_large_rates_stay_whole_numbers_in_float32
        test_the_law_test_sees_a_cancelling_ratio
        test_the_law_test_sees_a_wrong_rate[100000.0-1.0001]
        test_the_law_test_sees_a_wrong_rate[50.0-1.005]
        test_vmap_is_a_loop_and_few_are_the_first_of_many
    """,
    "random/test_von_mises_fisher.py": """
        test_angles[10]
        test_shapes_types_and_bad_values
        test_the_derivative_in_the_concentration[2]
        test_the_derivative_in_the_concentration[3]
        test_the_derivative_in_the_mean_direction
        test_the_derivative_of_the_mean[10-0.0]
        test_the_derivative_of_the_mean[10-1e-06]
        test_the_derivative_of_the_mean[2-0.0]
        test_the_derivative_of_the_mean[2-1e-06]
        test_the_derivative_of_the_mean[3-0.0]
        test_the_derivative_of_the_mean[3-3.0]
        test_vmap_is_a_loop_and_few_are_the_first_of_many
    """,
    "test_advice.py": """
        test_a_length_in_other_units_is_seen
        test_a_run_says_what_is_wrong_and_what_to_do[kernel0-args0-words0]
        test_a_run_says_what_is_wrong_and_what_to_do[kernel1-args1-words1]
        test_a_run_says_what_is_wrong_and_what_to_do[kernel10-args10-words10]
        test_a_run_says_what_is_wrong_and_what_to_do[kernel11-args11-words11]
        test_a_run_says_what_is_wrong_and_what_to_do[kernel12-args12-words12]
        test_a_run_says_what_is_wrong_and_what_to_do[kernel2-args2-words2]
        test_a_run_says_what_is_wrong_and_what_to_do[kernel3-args3-words3]
        test_a_run_says_what_is_wrong_and_what_to_do[kernel4-args4-words4]
        test_a_run_says_what_is_wrong_and_what_to_do[kernel5-args5-words5]
        test_a_run_says_what_is_wrong_and_what_to_do[kernel6-args6-words6]
        test_a_run_says_what_is_wrong_and_what_to_do[kernel7-args7-words7]
        test_a_run_says_what_is_wrong_and_what_to_do[kernel9-args9-words9]
        test_a_step_of_size_zero_heats_nothing
        test_a_summary_tells_the_temperature_and_chains_that_disagree
        test_energies_in_bfloat16_are_told_and_nothing_is_lost
        test_kernels_that_cannot_tell_say_nothing
        test_one_chain_that_stands_is_told_of[False]
        test_one_chain_that_stands_is_told_of[True]
        test_one_kernel_of_a_stack_is_told_of
        test_the_excess_of_the_temperature
    """,
    "test_benchmarks.py": """
        test_every_case_of_suite_c_is_a_row_with_its_bars
        test_the_command_writes_its_tables
    """,
    "test_by_hand.py": """
        test_a_state_that_is_left_as_it_is_is_seen
        test_an_anchor_of_all_items_is_refused_inside_of_shards
        test_clipped_eigenvalues_are_told_in_the_mean
        test_infos_of_a_cycle_without_slots
        test_methods_under_jit[cycle]
        test_methods_under_jit[hmc]
        test_modes_of_densities_with_parts_that_are_no_arrays[{}-a number]
        test_the_mode_of_a_single_precision_position_of_double_precision_data
        test_what_a_state_of_ones_own_keeps_is_made_anew_in_a_cycle
    """,
    "test_chains_at_once.py": """
        test_groups_are_all[data on shards-1]
        test_groups_are_all[plain-4]
        test_one_alone_is_one_chain
    """,
    "test_checkpoint.py": """
        test_an_object_is_known_by_its_attributes[<lambda>-False]
        test_an_object_is_known_by_its_attributes[Own-False]
        test_an_object_is_known_by_its_attributes[Own-True]
        test_an_object_is_known_by_its_attributes[Record-True]
    """,
    "test_code.py": """
        test_what_a_gibbs_block_has_captured_is_of_the_run[batch]
        test_what_a_gibbs_block_has_captured_is_of_the_run[prior]
    """,
    "test_compiler.py": """
        test_directions_of_any_number_have_unit_length
    """,
    "test_edges.py": """
        test_a_run_in_which_nothing_moves_is_told
        test_new_items_may_be_made_while_something_is_traced
        test_the_theory_of_scir_at_its_edges
    """,
    "test_experiments_common.py": """
        test_what_is_timed_goes_on_from_the_run[5]
    """,
    "test_frames.py": """
        test_batches_that_are_frames
        test_mixtures
        test_networks_and_ratings
    """,
    "test_geodesic_experiment.py": """
        test_distances_in_a_tree
        test_gradients_of_faces_are_tangent
        test_no_draw_is_lost_where_thinning_does_not_divide
        test_noise_put_on_a_gradient
        test_runs_are_kept_after_half_as_many_steps
        test_the_picture_of_the_sphere_asks_for_densities_on_it_alone
    """,
    "test_going_on.py": """
        test_a_chain_that_stopped_goes_on_towards_another_target
        test_a_chunk_that_fills_its_buffers_is_made_again_whole
        test_a_kernel_that_is_made_again_is_the_same[<lambda>0]
        test_a_kernel_that_is_made_again_is_the_same[<lambda>1]
        test_a_loop_that_goes_on_counts_on[False]
        test_a_loop_that_goes_on_counts_on[True]
        test_a_metropolis_test_compares_with_the_density_of_the_new_data
        test_a_run_at_its_positions_begins_at_its_own_temperature[<lambda>0]
        test_a_run_at_its_positions_begins_at_its_own_temperature[<lambda>1]
        test_a_thermostat_is_no_friction_of_another_sampler
        test_another_capacity_changes_no_chain[32]
        test_another_capacity_changes_no_chain[4]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[baoab-baoab]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[baoab-hmc]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[baoab-mala]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[baoab-sghmc]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[baoab-sgnht]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[cycle-baoab]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[cycle-hmc]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[cycle-mala]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[cycle-sgld]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[cycle-sgnht]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[hmc-baoab]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[hmc-cycle]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[hmc-mala]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[hmc-psgld]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[hmc-sghmc]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[hmc-sgld]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[mala-baoab]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[mala-hmc]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[mala-mala]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[mala-sgld]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[mala-sgnht]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[psgld-baoab]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[psgld-cycle]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[psgld-mala]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[psgld-psgld]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[psgld-sghmc]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[sghmc-cycle]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[sghmc-hmc]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[sghmc-psgld]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[sghmc-sghmc]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[sghmc-sgld]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[sghmc-sgnht]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[sgld-baoab]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[sgld-cycle]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[sgld-mala]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[sgld-psgld]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[sgld-sghmc]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[sgld-sgnht]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[sgnht-cycle]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[sgnht-hmc]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[sgnht-psgld]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[sgnht-sghmc]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[sgnht-sgld]
        test_another_sampler_of_the_same_gradient_takes_the_positions_alone[sgnht-sgnht]
        test_batches_longer_than_the_first_on_shards[3-4]
        test_batches_longer_than_the_first_on_shards[3-5]
        test_batches_longer_than_the_first_on_shards[4-3]
        test_other_data_are_seen_of_a_run_that_was_pickled
        test_other_data_are_the_target_from_the_first_step_on
        test_other_numbers_of_chains_are_refused
        test_the_number_of_chains_is_that_of_the_run[options2]
        test_the_same_data_are_gone_on_with_bit_for_bit[numpy]
        test_the_same_data_are_gone_on_with_bit_for_bit[same]
        test_variances_of_a_matrix_of_parameters
        test_without_it_the_old_target_stays
    """,
    "test_inference_data.py": """
        test_a_run_without_draws_has_groups_without_any
        test_a_series_has_no_likelihood_of_items
        test_a_step_that_explodes_diverges
        test_an_arviz_before_the_first
        test_coordinates_and_further_groups
        test_kernels_are_a_dimension_of_all_but_the_data
        test_without_arviz_the_message_says_what_to_install
    """,
    "test_many_items.py": """
        test_a_running_count_loses_nobody[TableCounts]
        test_energies_of_many_rows_are_about_their_start
        test_friction_and_noise_have_one_rounding[0.01]
        test_friction_and_noise_have_one_rounding[1e-06]
        test_new_items_with_features_that_may_be_many_times_there
        test_ratings_of_factors_in_single_precision
        test_variational_topics_begin_in_single_precision
        test_words_are_counted_in_whole_numbers
    """,
    "test_notebooks.py": """
        test_it_runs_at_a_small_size[quickstart]
    """,
    "test_numerics.py": """
        test_a_first_state_as_wide_as_single_precision_cannot_filter
        test_a_space_without_a_dimension[sggmc]
        test_averages_of_networks_of_half_precision
        test_densities_are_finite_where_positions_underflow[simplex]
        test_derivatives_of_rising_factorials[3000000.0-1.0]
        test_entries_that_are_cut_off_are_told
        test_missing_rows_are_told
        test_negative_binomials_in_double_precision[3-40.0]
        test_negative_binomials_in_single_precision[0.5-2.0]
        test_negative_binomials_in_single_precision[40.0-3.0]
        test_negative_binomials_in_single_precision[500000.0-50.0]
        test_negative_binomials_in_single_precision[5000000.0-50.0]
        test_negative_binomials_in_single_precision[50000000.0-50.0]
        test_paths_of_long_series
        test_poisson_densities_at_the_ends
        test_poisson_densities_in_single_precision[0.3]
        test_poisson_densities_in_single_precision[10000.0]
        test_poisson_densities_in_single_precision[100000.0]
        test_poisson_densities_in_single_precision[1000000.0]
        test_poisson_densities_in_single_precision[20.0]
        test_the_differential_of_a_flow_at_rest_is_the_identity[Hyperboloid-ArrayImpl]
        test_the_differential_of_a_flow_at_rest_is_the_identity[SPD-ArrayImpl]
        test_the_differential_of_a_flow_at_rest_is_the_identity[Sphere-ArrayImpl]
        test_the_differential_of_a_flow_at_rest_is_the_identity[Stiefel-ArrayImpl]
    """,
    "test_run.py": """
        test_a_name_of_a_dimension_is_numbered[draw]
        test_a_name_of_a_dimension_is_numbered[kernel]
        test_layers_of_a_network_are_kept
    """,
    "test_runner.py": """
        test_a_batch_of_all_items_has_no_noise
        test_a_word_that_uses_one_batch_twice_is_told_of
        test_an_interrupt_before_draws_are_kept[fill]
        test_an_interrupt_while_chains_grow[_begin_at]
        test_an_interrupt_while_chains_grow[grow]
        test_noise_of_passes_is_not_subtracted[<lambda>1]
        test_whole_numbers_of_numpy
    """,
    "test_runtime_edges.py": """
        test_a_chain_that_breaks_asks_for_no_more_slots
        test_a_record_that_fails_with_more_slots_keeps_its_draws
        test_a_search_that_is_interrupted_ends
        test_infos_of_slots_grow_with_them[arguments0]
        test_infos_of_slots_grow_with_them[arguments1]
        test_infos_of_slots_grow_with_them[arguments2]
        test_slots_do_not_grow_after_the_last_step
    """,
    "test_sample.py": """
        test_a_grown_run_is_resumed_and_continued
        test_a_model_whose_code_has_changed_is_another_run
        test_a_run_and_what_it_went_on_with_are_one
        test_a_sweep_is_its_single_runs_in_one_program
        test_code_is_the_same_in_another_process
        test_errors_name_chain_and_step
        test_growth_does_not_change_the_chain
        test_many_chains_of_a_stream_are_told_of
        test_moments_grow_too
        test_moments_of_kernels_in_turn_are_weighted_by_their_step_sizes
        test_one_move_by_each_batch_is_not
        test_one_of_64_chains_breaks_and_the_others_go_on[1]
        test_one_of_64_chains_breaks_and_the_others_go_on[7]
        test_one_of_64_chains_breaks_and_the_others_go_on[None]
        test_reduce_keeps_the_moments_of_the_trace[fixed]
        test_several_moves_by_one_batch_are_told_of[kernel1]
        test_several_moves_by_one_batch_are_told_of[kernel2]
        test_the_start_of_every_chain_is_looked_at[0]
        test_the_start_of_every_chain_is_looked_at[1]
        test_to_arviz
        test_whole_blocks_are_the_same_steps
    """,
    "test_streams.py": """
        test_a_slow_stream_is_read_once
        test_a_stray_index_of_a_later_batch_stops_the_chain[0-5]
        test_a_stray_index_of_a_later_batch_stops_the_chain[4-0]
        test_a_stray_label_of_a_later_batch_stops_the_chain[2]
        test_a_stray_word_of_a_later_batch_stops_the_chain
        test_a_stray_word_on_the_sphere_stops_the_chain[100]
        test_a_stray_word_on_the_sphere_stops_the_chain[5]
        test_the_mode_of_a_regression_is_the_closed_form[<lambda>]
    """,
    "test_summary.py": """
        test_a_record_that_knows_the_slots_is_let_be
        test_chains_that_stopped_are_told
        test_columns_are_those_of_arviz
        test_coordinates_of_the_user
        test_coordinates_of_the_user_are_those_of_the_model_inside
        test_draws_of_unconstrained_numbers_say_so
        test_faults_are_seen
        test_kernels_are_no_chains
        test_long_tables_are_cut
        test_more_chains_than_draws_are_no_mistake_of_a_run
        test_slots_are_known_by_their_growth[None]
        test_slots_are_known_by_their_growth[engine1]
        test_the_tail_is_the_worse_of_two
        test_what_passes_without_a_remark
    """,
    "test_tune.py": """
        test_positions_and_data_of_other_precisions
    """,
    "test_tune_decay.py": """
        test_all_decays_share_one_program
        test_each_goes_on_where_the_last_stopped
        test_the_best_of_the_table_is_frozen
    """,
    "test_tune_default.py": """
        test_a_line_search_of_optax_finds_the_mode[batcher1]
        test_a_noise_that_is_measured_at_few_draws_is_seen
        test_a_valley_beyond_the_inflection_has_a_kernel
        test_draws_of_the_approximation
        test_it_samples_the_posterior[40000]
        test_the_noise_of_a_diagonal_scale
        test_the_noise_of_batches_makes_variances_too_large_by_a_twentieth
        test_the_size_of_batches_hardly_depends_on_the_key
        test_the_step_of_a_diagonal_scale_is_stable
        test_weights_are_chosen_where_a_few_items_carry_the_noise
        test_where_there_is_no_mode
    """,
    "test_tune_search.py": """
        test_a_picture_joins_no_settings_of_different_rounds
        test_a_picture_joins_settings_that_were_judged_by_as_many_draws
        test_a_position_may_have_an_empty_part
        test_a_series_has_a_scale_of_its_own[grid_search]
        test_a_series_has_a_scale_of_its_own[successive_halving]
        test_draws_far_out_in_flat_tails_are_seen
        test_halving_is_cheap_and_as_good
        test_more_chains_than_the_judge_takes_draws[40]
        test_more_chains_than_the_judge_takes_draws[64]
        test_no_layout_is_doubted_that_the_judge_has_made
        test_noisy_scores_judge_without_bias
        test_scales_that_no_step_size_suits_are_told_of[grid_search]
        test_scales_that_no_step_size_suits_are_told_of[successive_halving]
        test_settings_of_numpy_are_shown
        test_settings_that_are_all_too_hot_are_told_of[successive_halving]
        test_settings_that_are_arrays
        test_settings_that_differ_in_numbers_share_a_program
        test_the_first_share_of_the_steps_is_not_judged[grid_search]
        test_the_first_share_of_the_steps_is_not_judged[successive_halving]
        test_what_is_refused
        test_words_and_batches_compete_at_equal_cost
    """,
    "test_tune_streams.py": """
        test_each_set_of_items_is_as_probable
        test_the_approximation_is_that_of_the_arrays
    """,
    "test_wrong_data.py": """
        test_a_chain_may_begin_at_a_discount_of_none
        test_moments_of_whole_numbers_are_not_rounded
    """,
    "test_wrong_functions.py": """
        test_whole_terms_keep_the_fractions_of_the_weights
    """,
    "test_wrong_kernels.py": """
        test_right_returns_pass_in_float64
    """,
}
SLOW_TESTS = {
    file: {line.strip() for line in lines.splitlines() if line.strip()}
    for file, lines in _TESTS.items()
}
