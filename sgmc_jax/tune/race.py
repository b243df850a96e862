"""Settings run side by side in rounds, after each of which the worst are left out."""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from .._types import Data, Kernel
from ..run import Run
from ..runner.made_with import MadeWith
from ..runner.programs import Static
from ..sample import sample
from .arms import Arm, Setting, Tuned
from .judge import Judge

_STUCK, _APART = 20, 30  # effective draws of the slowest coordinate, and how many times as many
_FEWEST = 20  # steps of a round, from less of which nothing can be told


class Racer:
    """A setting: its kernel, the gradients that a step of it takes, and its chains so far."""

    def __init__(self, setting: Setting, kernel: Kernel, cost: float):
        self.setting, self.kernel, self.cost = setting, kernel, cost
        self.run: Run | None = None
        self.traces: list[PyTree] = []
        self.rounds, self.thin, self.judged = 0, 1, 0
        self.ksd, self.temperature = math.inf, math.nan
        self.rank: tuple[bool, float] = (True, math.inf)  # the least is the best

    @property
    def form(self) -> Any:
        """Equal for kernels that one program runs: they differ in nothing but numbers."""
        numbers, static = eqx.partition(self.kernel, eqx.is_array)
        return Static(static), tuple((x.shape, x.dtype) for x in jax.tree.leaves(numbers))

    def ran(self, run: Run) -> None:
        self.run, self.rounds = run, self.rounds + 1
        self.traces.append(run.trace)

    @property
    def trace(self) -> PyTree:
        """The draws of all rounds."""
        return jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *self.traces)

    def be_judged(self, key: Any, judge: Judge, data: Data, most: int) -> None:
        """Set `ksd`, `temperature` and `rank`, by at most `most` draws of all rounds."""
        assert self.run is not None
        finite = np.all(self.run.stopped < 0)
        self.ksd, self.temperature = math.inf, math.nan
        if finite:
            draws = judge.chosen(self.trace, most)
            self.judged += len(jax.tree.leaves(draws)[0])
            self.ksd, self.temperature = judge.verdict(key, draws, data)
        self.rank = (not self.temperature <= judge.max_temperature, self.ksd)


class Race:
    """The settings that are left, their chains, and the budget of each round."""

    def __init__(self, racers: list[Racer], judge: Judge, position: Any, data: Data, chains: int):
        self.racers, self.live, self.judge = racers, list(racers), judge
        self.position, self.data, self.num_chains = position, data, chains

    def round(self, key: Any, budget: float, most_draws: int) -> None:
        """All that are left go on, each for an equal part of the budget, and are judged."""
        sample_key, judge_key = jax.random.split(key)
        groups = defaultdict(list)
        for racer in self.live:
            groups[racer.form].append(racer)
        for group in groups.values():
            cost = max(racer.cost for racer in group)
            steps = math.floor(budget / len(self.live) / self.num_chains / cost)
            if steps < _FEWEST:
                raise ValueError(
                    f"budget is too small: it leaves {steps} steps to a setting in a round, at "
                    f"least {_FEWEST} are needed"
                )
            self._advance(sample_key, group, steps)
        for racer in self.live:
            racer.be_judged(judge_key, self.judge, self.data, most_draws)

    def keep(self, number: int) -> None:
        """Leave out all but the best."""
        self.live = sorted(self.live, key=lambda racer: racer.rank)[:number]

    def result(self) -> Tuned:
        best = min(self.live, key=lambda racer: racer.rank)
        if best.run is None or not math.isfinite(best.ksd):
            raise FloatingPointError(
                "no setting kept its chains finite: give smaller step sizes, or a better position"
            )
        if best.rank[0]:
            warnings.warn(
                "every setting that is left has draws hotter than "
                f"max_temperature={self.judge.max_temperature}: those of the best have a "
                f"temperature of {best.temperature:.3g}, about the ratio of their variances to the "
                "target's. Give smaller step sizes, larger batches or more friction",
                stacklevel=3,
            )
        least, largest = self.judge.extremes(best.trace)
        if least < _STUCK and largest > _APART * least:
            warnings.warn(
                f"the slowest coordinate has {least:.0f} effective draws of the best setting, the "
                f"fastest {largest:.0f}: no step size suits both. Sample in units of the posterior "
                "(tune.whiten, tune.laplace, or a kernel's space=Euclidean(scale)), or give a "
                "larger budget",
                stacklevel=3,
            )
        return Tuned(best.kernel, best.setting, best.run, [self._arm(r) for r in self.racers])

    def _arm(self, racer: Racer) -> Arm:
        steps = 0 if racer.run is None else racer.run.num_steps
        spent = steps * self.num_chains * racer.cost
        seen = racer.setting, racer.ksd, racer.temperature
        return Arm(*seen, steps, spent, racer.rounds, racer.judged)

    def _advance(self, key: Any, group: list[Racer], num_steps: int) -> None:
        """So many steps of kernels of one form, in one program."""
        runs = [racer.run for racer in group if racer.run is not None]
        if not runs:
            for racer in group:
                judged = num_steps * self.num_chains * (1 - self.judge.burn_in)
                thin = int(judged) // self.judge.max_draws
                # of more chains than draws the judge takes some: a round is a draw of each at least
                racer.thin = max(1, thin) if 2 * thin <= num_steps else num_steps
        thin, begun = group[0].thin, runs[0].num_steps if runs else 0
        with warnings.catch_warnings():
            # of chains that did not stay finite: what they are for is to be told by an arm
            warnings.simplefilter("ignore", UserWarning)
            run = sample(
                key,
                _stack([racer.kernel for racer in group]),
                _stack_runs(runs) if runs else self.position,
                self.data,
                num_steps=num_steps - num_steps % thin,
                num_chains=self.num_chains,
                thin=thin,
                kernel_axis=0,
                position_axis=None,
            )
        if run.num_steps - begun < num_steps - num_steps % thin:
            raise KeyboardInterrupt("the search was interrupted")
        for i, racer in enumerate(group):
            racer.ran(_unstacked(run, i, MadeWith(racer.kernel.made_with(), self.data)))


def _stack(kernels: list[Kernel]) -> Kernel:
    """Kernels of one form as one with a leading axis."""
    numbers = [eqx.filter(kernel, eqx.is_array) for kernel in kernels]
    return eqx.combine(jax.tree.map(lambda *x: jnp.stack(x), *numbers), kernels[0])


def _stack_runs(runs: list[Run]) -> Run:
    """The runs of kernels that go on together, each from its own state as a whole."""
    state, stopped = jax.tree.map(lambda *x: np.stack(x), *[(r.state, r.stopped) for r in runs])
    axes = ("kernel", *runs[0].axes)
    return replace(runs[0], state=state, stopped=stopped, axes=axes, made_with=None)


def _unstacked(run: Run, i: int, made_with: MadeWith) -> Run:
    """The run of one of the kernels, of what it was made with."""
    fields = {name: getattr(run, name) for name in ("trace", "info", "state", "stopped")}
    own = jax.tree.map(lambda x: x[i], fields)
    return replace(run, **own, axes=run.axes[1:], made_with=made_with)
