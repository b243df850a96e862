"""What waits for the full tier: it takes long, and what is left in the fast one sees the same."""

# kernels of which the fast tier has laws; each example compiles for five seconds
SLOW_EXAMPLES = frozenset(
    """
    MinibatchCounts
    NormalInverseWishart
    asynchronous_mixture
    default_kernel
    hybrid_features
    hybrid_hdp
    seed_features
    slice_bnb
    slice_crm
    slice_features
    slice_mixture
    split_merge
    """.split()
)

# rows of tests of which other rows stay
SLOW_ROWS = frozenset(
    """
bnp/test_odd_input.py::test_what_lies_past_a_groups_size_is_ignored[bnb]
bnp/test_odd_input.py::test_items_of_single_precision_under_hyper_parameters_of_double[slice]
composition/test_slots.py::test_the_same_chain_on_shards[walkers-2-thin]
diagnostics/test_ess.py::test_ranks_are_average_ranks[True]
engines/test_engines.py::test_chains_on_devices_are_the_chains[Vmap4]
engines/test_engines.py::test_hmc_over_shards_is_hmc[Pmap8]
engines/test_engines.py::test_the_chain_does_not_know_its_engine[ShardMap8-21-None]
engines/test_engines.py::test_hmc_over_shards_is_hmc[Vmap8]
engines/test_engines.py::test_the_chain_does_not_know_its_engine[ShardMap8-5-2]
engines/test_engines.py::test_the_gradient_over_shards_is_unbiased[Pmap8]
engines/test_hybrid.py::test_the_same_chain_on_eight_devices[known]
enumeration/test_likelihoods.py::test_all_columns[factors-hybrid-kwargs1]
families/test_centre.py::test_far_data_keep_their_digits[known-2-0]
families/test_families.py::test_draws_do_not_depend_on_the_capacity[diagonal-True]
families/test_families.py::test_draws_do_not_depend_on_the_capacity[wishart-True]
families/test_families.py::test_empty_clusters_draw_from_the_prior[wishart]
families/test_families.py::test_float32_stays_close_to_float64[known]
families/test_families.py::test_float32_stays_close_to_float64[wishart]
families/test_families.py::test_jit_and_vmap_agree_with_loops[wishart]
families/test_families.py::test_loglik_is_the_textbook_density[known]
families/test_families.py::test_loglik_is_the_textbook_density[wishart]
families/test_families.py::test_marginal_is_the_chain_of_predictives[known]
families/test_families.py::test_marginal_is_the_chain_of_predictives[wishart]
families/test_families.py::test_predictive_is_the_textbook_law[diagonal]
families/test_families.py::test_predictive_is_the_textbook_law[wishart]
families/test_families.py::test_statistics_are_sums_over_items[known]
families/test_families.py::test_statistics_are_sums_over_items[wishart]
families/test_tiles.py::test_bands_leave_out_nothing_but_zeros[16]
families/test_tiles.py::test_bands_leave_out_nothing_but_zeros[1]
families/test_tiles.py::test_label_statistics_are_those_of_the_one_hot_weights[1-wishart]
families/test_tiles.py::test_untile_undoes_take[300-7]
families/test_tiles.py::test_untile_undoes_take[5000-3]
guide/test_own_parts.py::test_a_part_has_its_law[Augmented]
guide/test_own_parts.py::test_a_fault_in_a_part_is_seen[Torus]
guide/test_own_parts.py::test_a_part_has_its_law[Torus]
guide/test_own_parts.py::test_a_step_uses_every_key_once[Collision]
guide/test_own_parts.py::test_a_step_uses_every_key_once[RandomWalk]
guide/test_own_parts.py::test_runs_are_pieced_together[Collision]
laws/test_empirical_fisher.py::test_the_variance_is_that_of_the_exact_gradient[sgld]
laws/test_estimators.py::test_an_item_may_be_a_window_of_a_series[16384]
laws/test_estimators.py::test_control_variate_and_svrg[function]
laws/test_exact.py::test_blocks_keep_the_joint_law[cycle]
laws/test_gaussian.py::test_variance_with_minibatches[ABOBA]
laws/test_gaussian.py::test_variance_with_the_noise_subtracted[sgld]
laws/test_matrix_friction.py::test_a_letter_on_spheres_and_a_plane[F]
laws/test_matrix_friction.py::test_a_letter_on_spheres_and_a_plane[N]
laws/test_refresh.py::test_sums_of_an_old_target_are_seen[control variate]
laws/test_spaces.py::test_tangent_vectors[Stiefel-(2, 6, 3)]
laws/test_spaces.py::test_the_flow[SPD-(2, 3, 3)]
laws/test_structure.py::test_a_step_uses_every_key_once[scir-41]
laws/test_structure.py::test_a_step_uses_every_key_once[sgld replace-1]
laws/test_structure.py::test_runs_are_pieced_together_bit_for_bit[sgrld-20]
laws/test_structure.py::test_step_returns_what_init_returns[float64-slice_mixture scir-61]
laws/test_structure.py::test_step_sizes_share_one_program[scir anchored-42]
laws/test_structure.py::test_vmap_is_a_loop[scir schedule-42]
models/test_lda.py::test_planted_topics_are_found[table]
models/test_linear_gaussian.py::test_the_joint_normal_law[None]
models/test_numpyro.py::test_the_density_is_that_of_numpyro[plate]
processes/test_exposure.py::test_series_know_places_by_their_ratio_to_the_mass[thinning-beta 3]
processes/test_feature_processes.py::test_hyper_parameters_given_columns[BetaBernoulli]
processes/test_representations.py::test_the_number_and_the_mass_above_a_level[thinning-beta 3]
processes/test_representations.py::test_v_has_its_density[bondesson-beta 3]
random/test_gamma.py::test_flagged[0.0-1000]
test_sample.py::test_growth_does_not_change_the_chain[one]
test_sample.py::test_whole_blocks_are_the_same_steps[args2]
random/test_feistel.py::test_the_permutation_does_not_depend_on_the_bound[1000]
random/test_feistel.py::test_the_permutation_does_not_depend_on_the_bound[100000]
random/test_feistel.py::test_a_range_far_below_its_bound_is_shuffled_too[257-1000-2]
test_going_on.py::test_other_data_are_the_target_from_the_first_step_on[inside-repeat]
test_going_on.py::test_other_data_are_the_target_from_the_first_step_on[svrg]
    """.strip().split("\n")
)
