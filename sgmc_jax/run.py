"""What a run leaves."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PyTree

from ._types import Data
from .advice import means, remarks
from .inference_data import to_arviz
from .model import Model
from .named import meaningful, named, scalars
from .summary import Summary, convergence, statistics

_BEHIND = (
    "draws are unconstrained numbers behind the model's parameters: {call} tells the parameters"
)


class RunInfo(NamedTuple):
    """The kernel's info, and whether the chain is finite.

    The info's fields are attributes here too; of `gibbs` they are the infos of its blocks.

    Example:
        >>> from sgmc_jax.combinators import MetropolisInfo
        >>> kernel = MetropolisInfo(0.8, accepted=True, energy_error=0.2, energy=3.0)
        >>> info = RunInfo(finite=True, kernel=kernel)
        >>> info.finite, info.acceptance
        (True, 0.8)
    """

    finite: Any
    kernel: Any

    @property
    def count(self) -> Any:  # type: ignore[override]
        return self.__getattr__("count")  # of a tuple it is a method

    @property
    def index(self) -> Any:  # type: ignore[override]
        return self.__getattr__("index")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if isinstance(self.kernel, dict) and name in self.kernel:  # the blocks of gibbs
            return self.kernel[name]
        return getattr(self.kernel, name)


class Moments(NamedTuple):
    """Streaming moments: the mean, the variance, and the sum of the weights (step sizes).

    Where nothing weighs, in a chain that has stopped before its first draw, both are NaN. Over
    chains, of each leaf, `np.average(np.nan_to_num(mean), axis=0, weights=weight)`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import draw, sample
        >>> kernel = draw(lambda key, data: 2.0)
        >>> run = sample(jax.random.key(0), kernel, jnp.zeros(()), None, num_steps=4, reduce=True)
        >>> float(run.trace.mean), float(run.trace.variance), float(run.trace.weight)
        (2.0, 0.0, 4.0)
    """

    mean: PyTree
    variance: PyTree
    weight: Float[Array | np.ndarray, "..."]


class Run(eqx.Module):
    """The result of `sample`; unpacks as `trace, info, state`, and can be continued.

    Attributes:
        trace: the kept draws, host arrays with the leading axes (kernel, chain, draw), those
            present; with `reduce` the `Moments` instead.
        info: the infos of the kept draws, with the kernel's own fields and `finite`.
        state: the last state, with the leading axes (kernel, chain), those present.
        stopped: the step at which each chain turned non-finite, or -1.
        num_steps: the number of steps made in all.
        begun: those of them that an earlier run had made.
        made_with: of the kernel and the data, what a run that goes on compares its own with.
        slotted: of a kernel with slots, whether each leaf of the trace has an axis of them: one
            that would be longer if there were more slots.
        axes: which of "kernel", "chain" and "draw" lead, in this order.
        capacity: of a kernel with slots, their number in the end; else `None`.
        thin: the number of steps that the infos of a kept draw are of.
        unconstrained: whether draws are positions of a model, `Transformed` or of a series, which
            its `constrain` makes the parameters of.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import draw, sample
        >>> kernel = draw(lambda key, data: 2.0)
        >>> run = sample(jax.random.key(0), kernel, jnp.zeros(()), None, num_steps=3)
        >>> trace, info, state = run
        >>> trace.tolist(), info.finite.tolist(), run.num_steps
        ([2.0, 2.0, 2.0], [True, True, True], 3)
    """

    trace: PyTree
    info: Any
    state: Any
    stopped: np.ndarray
    num_steps: int = eqx.field(static=True)
    axes: tuple[str, ...] = eqx.field(static=True)
    capacity: int | None = eqx.field(static=True, default=None)
    begun: int = eqx.field(static=True, default=0)
    made_with: Any = eqx.field(static=True, default=None)
    slotted: tuple[bool, ...] | None = eqx.field(static=True, default=None)
    thin: int = eqx.field(static=True, default=1)
    unconstrained: bool = eqx.field(static=True, default=False)

    def __iter__(self) -> Iterator[Any]:
        yield from (self.trace, self.info, self.state)

    def extend(self, later: Run) -> Run:
        """This run and one that went on from it, `sample(..., position=run)`, as one.

        With the same key, no burn-in between, and a `thin` that divides this run's steps after its
        burn-in, the draws are those of one longer run; not so of a stream that is given pass by
        pass, of which every call of `sample` begins a new one.

        Args:
            later: of the same chains, with what else they keep; if slots were added, the earlier
                draws have zeros there. That it went on from this very run is taken at its word,
                and so is its step size: the number of steps, axes, estimator and data are compared.

        Returns:
            a run with the draws and infos of both, and the state of the later one. A warning tells
            if they may have different laws: if estimator or data are not the same.

        Raises:
            ValueError: if it began after another number of steps than this run has, has other axes
                or another `thin`, keeps something else, or if one kept moments only.

        Example:
            >>> import jax, jax.numpy as jnp
            >>> from sgmc_jax import Full, FunctionModel, Minibatch, mala, sample
            >>> kernel = mala(Minibatch(FunctionModel(lambda x: -0.5 * x @ x), Full()), 1.0)
            >>> run = sample(jax.random.key(0), kernel, jnp.zeros(2), None, num_steps=30)
            >>> more = sample(jax.random.key(0), kernel, run, None, num_steps=20)
            >>> run.extend(more).trace.shape
            (50, 2)
        """
        if isinstance(self.trace, Moments) or isinstance(later.trace, Moments):
            raise ValueError("extend joins draws, but a run kept moments only")
        if later.axes != self.axes or later.begun != self.num_steps:
            raise ValueError(
                f"later must go on from this run of {self.num_steps} steps with the axes "
                f"{self.axes}, got one that began after {later.begun}, with {later.axes}"
            )
        if later.thin != self.thin:
            raise ValueError(f"later must have this run's thin, {self.thin}, got {later.thin}")
        axis, grown = self.axes.index("draw"), later.capacity != self.capacity
        first, second = (self.trace, self.info), (later.trace, later.info)
        if jax.tree.structure(first) != jax.tree.structure(second):
            raise ValueError("later must keep what this run kept, but their draws differ")
        if self.made_with is not None and not self.made_with.agrees(later.made_with):
            warnings.warn(
                "later was made with another estimator or other data than this run: the draws may "
                "be of two laws",
                stacklevel=2,
            )
        joined = jax.tree.map(lambda x, y: _joined(x, y, axis, grown), first, second)
        return replace(later, trace=joined[0], info=joined[1], begun=self.begun)

    def to_arviz(
        self,
        model: Model | None = None,
        data: Data = None,
        *,
        coords: Mapping[str, Any] | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        **groups: Any,
    ) -> Any:
        """The draws as an ArviZ `DataTree`, with groups `posterior`, `sample_stats` and others.

        Where only an ArviZ before 1.0 is installed it is an `InferenceData` of the same groups.

        Leaves are named by their path in the position, a bare array `x`; a name that is taken, or
        that of a dimension, is followed by a number. A kernel axis becomes a dimension `kernel`
        after chain and draw. Infos have ArviZ's names where it has one: `acceptance_rate`, and
        `diverging`, of draws whose energy is off by more than 1000 (with `thin` in the mean of the
        steps between, which is infinite if that of one is).

        Args:
            model: that of the sampler. Draws of a `Transformed` one, of one from numpyro, or of one
                of a series are then told in the user's coordinates.
            data: all of the data, with which `model` adds `lp`, the log posterior density, to
                `sample_stats`, and the group `log_likelihood`, of each item, which `arviz.loo`
                needs: an array `items` of (chain, draw, item), without the constants that your own
                `loglik` leaves out, which `loo` then lacks too.
            coords: the labels along dimensions, by the dimension's name.
            dims: the names of a variable's dimensions after chain and draw, by its name.
            groups: further ones by name, of arrays with the leading axes of this run:
                `posterior_predictive={"y": ...}`; `observed_data` without them.

        Raises:
            ImportError: without ArviZ.
            ValueError: if the run kept moments only, or `data` is given without a model.

        Example:
            >>> import jax, jax.numpy as jnp
            >>> from sgmc_jax import Full, FunctionModel, Minibatch, mala, sample
            >>> model = FunctionModel(
            ...     lambda w: -0.5 * w @ w, lambda w, y: -0.5 * jnp.sum((y - w) ** 2)
            ... )
            >>> data, kernel = jnp.ones((5, 2)), mala(Minibatch(model, Full()), 0.3)
            >>> run = sample(jax.random.key(0), kernel, jnp.zeros(2), data, num_steps=30)
            >>> names = {"coords": {"side": ["left", "right"]}, "dims": {"x": ["side"]}}
            >>> tree = run.to_arviz(model, data, **names)
            >>> sorted(tree.children), tree.posterior["x"].dims
            (['log_likelihood', 'posterior', 'sample_stats'], ('chain', 'draw', 'side'))
        """
        if isinstance(self.trace, Moments):
            raise ValueError("to_arviz needs draws, but this run kept moments only")
        if self.unconstrained and model is None:
            warnings.warn(f"to_arviz: {_BEHIND.format(call='to_arviz(model)')}", stacklevel=2)
        info, names = {"finite": self.info.finite}, (coords, dims)
        return to_arviz(self.trace, (info, self.info.kernel), self.axes, model, data, names, groups)

    def reported(self, model: Model | None = None) -> dict[str, np.ndarray]:
        """The leaves that `summary` tells of, (chain, draw, ...), by name."""
        trace = self.trace if model is None else model.constrain(self.trace)
        slotted = self.slotted if model is None else None
        return named(self.axes, *meaningful(trace, len(self.axes), slotted, self.info.kernel))

    def summary(self, model: Model | None = None) -> Summary:
        """A table of every scalar of the draws: mean, sd, its error, ESS and R-hat.

        Rows have the names of `to_arviz`, with an index where a leaf is no scalar. Of items nothing
        is told, nor of slots, of which each chain makes another cluster, feature or topic; but how
        many are in use (`active`), and what else does not depend on names (`bnp.traces`). With one
        chain there is no R-hat. All draws count, also those of a chain that was stopped, which the
        first line of the table tells. Lines that begin with `!` say what speaks against the run:
        chains that do not agree, few effective draws, few accepted proposals, and chains that are
        too hot, which R-hat does not see.

        Args:
            model: the run's model, where its coordinates are not those that it samples in
                (`Transformed`, `from_numpyro`, `HiddenMarkov`): the table is then of the user's.
                Without it, draws are told as they were made.

        Returns:
            a `Summary`: `print` it, or take its `columns` or `to_dict()`.

        Raises:
            ValueError: if the run kept moments only, fewer than 4 draws, or no scalars.

        Example:
            >>> import jax, jax.numpy as jnp
            >>> from sgmc_jax import Full, FunctionModel, Minibatch, mala, sample
            >>> model = FunctionModel(lambda x: -0.5 * jnp.sum((x["mu"] - 3) ** 2))
            >>> start = {"mu": jnp.zeros(2)}
            >>> kernel = mala(Minibatch(model, Full()), step_size=1.0)
            >>> run = sample(jax.random.key(0), kernel, start, None, num_steps=900, num_chains=4)
            >>> table = run.summary()
            >>> table.names, list(table.columns)
            (('mu[0]', 'mu[1]'), ['mean', 'sd', 'mcse_mean', 'ess_bulk', 'ess_tail', 'r_hat'])
            >>> print(str(table).split(",")[0])
            4 chains of 900 draws
        """
        if isinstance(self.trace, Moments):
            raise ValueError("summary needs draws, but this run kept moments only")
        leaves = self.reported(model)
        if not leaves:
            raise ValueError("summary needs scalars, but the draws are of items and slots alone")
        num_chains, num_draws = next(iter(leaves.values())).shape[:2]
        if num_draws < 4:
            raise ValueError(f"summary needs at least 4 draws, got {num_draws}")
        names = tuple(scalars(leaves))
        parts = [statistics(x) for x in leaves.values()]
        columns = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        stopped, info = np.asarray(self.stopped), self.info.kernel
        behind = self.unconstrained and model is None
        return Summary(
            names,
            columns,
            stopped.size,
            num_draws,
            int(np.sum(stopped >= 0)),
            min(means(info, "acceptance", self.axes), default=None),
            max(means(info, "excess_temperature", self.axes), default=None),
            (
                *([_BEHIND.format(call="summary(model)")] if behind else []),
                *remarks(info, self.axes, self.thin),
                *convergence(names, columns, num_chains, stopped),
            ),
        )


def _joined(x: np.ndarray, y: np.ndarray, axis: int, grown: bool) -> np.ndarray:
    """Draws and later ones; the earlier ones have zeros in slots that were added."""
    mine, others = (a.shape[:axis] + a.shape[axis + 1 :] for a in (x, y))
    room = [more - n for n, more in zip(mine, others)] if len(mine) == len(others) else [-1]
    if min(room, default=0) < 0 or (any(room) and not grown):
        raise ValueError(f"later must keep what this run kept, of shape {x.shape}, got {y.shape}")
    room.insert(axis, 0)
    return np.concatenate([np.pad(x, [(0, n) for n in room]), y], axis)
