"""Public names that have no row in the fuzzer's tables, and why."""

from sgmc_jax import (
    Batch,
    Collective,
    Contract,
    Dist,
    Estimate,
    Full,
    Keys,
    Moments,
    Run,
    RunInfo,
    SeriesWindow,
    SlotInfo,
    Summary,
    arrays,
    as_keys,
    bnp,
    combinators,
    gradients,
    kernels,
    models,
    processes,
    random,
    special,
    transitions,
    tune,
)

LEFT_OUT = {
    "what the library returns, or hands to a function of the user's": (
        *(Batch, Contract, Dist, Estimate, Keys, SeriesWindow, SlotInfo),
        *(Moments, Run, RunInfo, Summary, bnp.DefaultSampler, bnp.PointEstimate, bnp.Predictive),
        *(bnp.RepresentativeDraw, bnp.Table, models.NumpyroModel, processes.Atoms),
        *(transitions.Phase, tune.Arm, tune.DecayTable, tune.Laplace, tune.Tuned, tune.TunedDecay),
    ),
    "a state or an info of a kernel or an estimator": (
        *(bnp.HybridState, bnp.HybridSums, bnp.SliceState, bnp.SplitMergeInfo),
        *(bnp.SplitMergeState, bnp.StochasticSliceState, combinators.CycleInfo),
        *(combinators.CycleState, combinators.DrawState, combinators.GibbsState),
        *(combinators.MetropolisInfo, combinators.MetropolisState, gradients.AnchoredState),
        *(gradients.FisherState, gradients.KeptState, gradients.SAGAState, gradients.SVRGState),
        *(gradients.TableState, kernels.SplittingInfo, kernels.SplittingState, models.RowPrior),
        models.TopicState,
    ),
    "a class that a function of its own makes": (bnp.SliceCRM, combinators.Metropolis),
    "takes no argument": (
        *(Full, bnp.Anchored, bnp.Asynchronous, bnp.Demotion, bnp.Published),
        *(processes.Bernoulli, processes.OddsBernoulli, processes.Poisson),
    ),
    "set by the engines": (Collective,),
    "for the inside of a kernel or a family, on what has been checked": (
        *(arrays.Tiles, arrays.columns_by_chunks, arrays.outer_products, arrays.over_chunks),
        *(arrays.product, arrays.real_array, as_keys, combinators.require_kernel, random.accept),
        *(special.exponential_integral, special.log1mexp, special.softplus_tail),
        transitions.check_phase,
    ),
}
