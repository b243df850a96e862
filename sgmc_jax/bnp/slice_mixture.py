"""Slice sampling of Dirichlet and Pitman-Yor process mixtures, exact or by stochastic gradients."""

from __future__ import annotations

from typing import Any, Literal, get_args

from .. import _checks
from ..families import DirichletCategorical, DirichletMultinomial, Family
from ..processes import PitmanYor, Series
from ._scans import AllPoints, OnlineEM, RandomScan, Scan
from ._slice import SliceMixture
from ._starts import check_parts
from .stochastic_slice import StochasticSlice

Weights = Literal["gibbs", "scir", "sgrld"]


def slice_mixture(
    process: Series,
    family: Family,
    batch_size: int | None = None,
    weights: Weights = "gibbs",
    *,
    step_size: Any = None,
    stick_step_size: Any = None,
    warm_start: int = 0,
    capacity: int = 16,
) -> SliceMixture:
    """Slice sampling of a Dirichlet or Pitman-Yor process mixture, without truncation.

    In every step each atom of the random measure is open or closed: one of weight w is open with
    probability 1 - e^(-5 N w), whatever points it has. So there are finitely many open ones, and a
    step draws, in this order,

        a (and d) given the sizes m_k of the K clusters, if they have a prior
        (w_1, ..., w_K, w_0) ~ Dirichlet(m_1 - d, ..., m_K - d, a + K d)
        which clusters are open, and all empty atoms that are, with their shares of w_0
        theta_k ~ p(theta | members of k), of an empty one from the prior
        z_i ~ w_k f(x_i | theta_k) among the open k     all points of open clusters at once

    while a point of a closed cluster stays where it is. The runner adds slots until all open atoms
    have one: besides the clusters these are at most Poisson(5 N w_0), however slowly the weights of
    the process decay.

    With `batch_size`, only the points of a random batch are moved, and the sizes and statistics of
    the clusters are kept up to date. That is exact too (a random scan), and a step costs O(batch).
    These sums remember labels from up to a pass over the data ago, which first have to be found: a
    `warm_start` of W steps forgets them. It is an online EM algorithm: in steps t = 0, ..., W - 1,
    with s(x) the sufficient statistics of a point and S the batch, of n points,

        p_ij prop. to w_j f(x_i | theta_j)
        c_j <- (1 - r) c_j + r (N/n) sum_{i in S} p_ij s(x_i),    r = 0.6^(1 - t/W) (n/N)^(t/W)

    and after them c is counted anew from all labels, each drawn when its point was last in a batch.
    Until then no slots are added for atoms without points.

    With `weights="scir"` or `"sgrld"` weights and parameters see nothing but the batch S of n
    points and the labels that these have from their last visits: with the estimates

        m_j = (N/n) #{i in S: z_i = j},    c_j = (N/n) sum_{i in S, z_i = j} x_i

    of the clusters' sizes and counts, sticks v_j = g_1 / (g_1 + g_2), of weights
    w_j = v_j prod_{l<j} (1 - v_l), and theta_j move a time h towards gammas with the shapes

        1 - d + m_j and a + j d + sum_{l>j} m_l,    and    alpha + c_j:

    by the exact transition of `scir`, totals drawn anew, or as in `sgrld_simplex`; clusters of
    neighbouring sticks are exchanged; sticks past the last cluster and the parameters of empty ones
    come from the prior. Then u_i ~ Uniform(0, w_{z_i}) and z_i ~ f(x_i | theta_j) among the j with
    w_j > u_i, for the points of the batch; the runner adds slots until no other stick can be longer
    than the shortest u_i.

    On an engine labels stay on the shards, which draw the same mixture from one key and meet once a
    step, to add up the sizes and statistics of the clusters, as in the distributed slice sampler of
    Ge et al. There w_0 is broken into sticks until what is left is shorter than the shortest slice
    of a point, for which shards must meet once more.

    Targets:
        the posterior of the partition (and of the hyper-parameters that have a prior), exactly;
        with `"scir"`, exactly for every h from all points, and from batches with sticks and
        parameters that are too dispersed, the less so the smaller h; with `"sgrld"` with a bias of
        order h besides.

    Args:
        process: `DirichletProcess(concentration)`, `PitmanYor(concentration, discount)`, or another
            `Series`.
        family: the conjugate family of a cluster's items.
        batch_size: the number of points that a step moves; `None` for all. On several shards, each
            moves its share of them, drawn among its own; where that is no whole number, as many as
            there are over move one more each, other shards in every step.
        weights: how sticks and parameters move: `"gibbs"`, drawn exactly given all labels;
            `"scir"` or `"sgrld"`, stochastically given a batch, for a `DirichletMultinomial` or
            `DirichletCategorical` family. `"gibbs"` costs no more, even from batches.
        step_size: h > 0 of the parameters, for `"scir"` and `"sgrld"` only: a number, or a
            schedule of the step's index such as `PolynomialDecay`.
        stick_step_size: h of the sticks; by default `step_size`.
        warm_start: W, the first steps of a run with `"gibbs"` from batches, which have no law to
            keep: burn them in. Five passes over the data are enough. In `cycle` and `gibbs`, which
            count anew before each step, nothing is forgotten.
        capacity: the number of slots to begin with; the runner doubles it when it is used up, and
            the chain does not depend on it, its start given.

    State:
        `position = Dist(shared, local)`: the hyper-parameters, and `local["assignment"]`, (N,)
        int32, each item's slot, drawn when the item was last in a batch; before it has been in one,
        its initial label. Where the weights are stochastic, that label may be of a cluster that has
        moved away since: the estimates read it when the item is next in a batch, and only then draw
        it anew. `log_weights`, `log_rest` and `parameters` are the mixture that a step has drawn.
        The initial position is as for `hybrid_mixture`.

    Info:
        `active`, the number of clusters; `overflow`.

    Raises:
        ValueError, TypeError: if a number is out of its range, the data unfit for the family, or
            the family or the step sizes for the `weights`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import sample
        >>> from sgmc_jax.bnp import DirichletMultinomial, DirichletProcess, slice_mixture
        >>> X = jnp.concatenate([jnp.tile(x, (10, 1)) for x in jnp.array([[5, 0, 1], [0, 4, 1]])])
        >>> process, family = DirichletProcess(1.0), DirichletMultinomial(0.5, size=3)
        >>> exact = slice_mixture(process, family, batch_size=5, capacity=32)
        >>> run = sample(jax.random.key(0), exact, None, X, num_steps=50)
        >>> run.trace.local["assignment"].shape
        (50, 20)
        >>> stochastic = slice_mixture(process, family, 5, "scir", step_size=0.1, capacity=32)

    Reference:
        Walker (2007), Sampling the Dirichlet mixture model with slices: a slice u_i for each point,
        as here for `"scir"` and `"sgrld"`, needs all sticks until less is left than the smallest.
        With slices of atoms in place of points, open if w > E / (5 N) with E ~ Exp(1), five points
        and a discount of .35 need 32 slots, not 8,192. Levels in the order of the sticks, as of
        Kalli, Griffin and Walker (2011), need J slots with a probability that falls as J^(1 - 1/d).
        Papaspiliopoulos and Roberts (2008) for the exchanges; Ge, Chen, Wan and Ghahramani (2015),
        Distributed inference for Dirichlet process mixture models, for shards. Baker, Fearnhead,
        Fox and Nemeth (2018), appendix D, for the stochastic ones: they print the test of the
        remaining mass with the opposite sign, and the parameters' shapes without N/n. Here, unlike
        there, totals are drawn anew, without which the chain is biased even with all points and h
        -> 0, and the clusters of neighbouring sticks are exchanged. Cappé and Moulines (2009),
        On-line expectation-maximization, for the average of a warm start.
    """
    check_parts(process, family, (Series, Family))
    _checks.whole("capacity", capacity)
    if batch_size is not None:
        _checks.whole("batch_size", batch_size)
    _checks.whole("warm_start", warm_start, minimum=0)
    # from all points sums are new in every step, and stochastic weights see but the batch's labels
    if warm_start and (batch_size is None or weights != "gibbs"):
        raise ValueError(
            f"warm_start goes with batches and weights 'gibbs', got {warm_start=}, {batch_size=} "
            f"and {weights=}"
        )
    _checks.choice("weights", weights, get_args(Weights))
    scan: Scan = AllPoints() if batch_size is None else RandomScan(batch_size)
    if warm_start and batch_size is not None:
        scan = OnlineEM(batch_size, warm_start)
    if weights == "gibbs":
        if step_size is not None or stick_step_size is not None:
            raise ValueError(
                "step_size goes with weights 'scir' or 'sgrld', got "
                f"step_size={step_size} and stick_step_size={stick_step_size}"
            )
        return SliceMixture(process, family, scan, capacity)
    # gammas over their total move: parameters must be simplices with a Dirichlet prior
    if not isinstance(family, DirichletMultinomial | DirichletCategorical):
        raise TypeError(
            f"family must be a DirichletMultinomial or DirichletCategorical for {weights=}, got "
            f"{type(family).__name__}"
        )
    # and sticks must be independent, with beta laws given the sizes of the clusters
    if not isinstance(process, PitmanYor):
        raise TypeError(f"process must be a PitmanYor for {weights=}, got {type(process).__name__}")
    if step_size is None:
        raise ValueError(f"step_size must be given for {weights=}, got None")
    stick_step_size = step_size if stick_step_size is None else stick_step_size
    for name, value in [("step_size", step_size), ("stick_step_size", stick_step_size)]:
        _checks.positive(name, value)
    return StochasticSlice(
        process,
        family,
        scan,
        capacity,
        weights=weights,
        step_size=step_size,
        stick_step_size=stick_step_size,
    )
