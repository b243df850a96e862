"""Figure 4: handwritten digits by a Bayesian network of two layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from sgmc_jax import (
    Estimator,
    Kernel,
    Minibatch,
    Uniform,
    find_mode,
    gibbs,
    repeat,
    sample,
    sghmc,
    sgld,
    sgnht,
)
from sgmc_jax.models import BayesianNetwork, TwoLayerNetwork

from ..common import Options, curves, load, table
from .anchored import Anchored

TRAIN = 55_000
FRICTION = 30.0
DRAWS = 50  # kept of a run, of whose second half predictions are made


class Size(NamedTuple):
    """The batch; steps of a run, of its burn-in or of the search for its centre, of a pilot."""

    batch: int
    steps: int
    before: int
    pilot: int


SIZES = {False: Size(250, 1_000, 1_000, 200), True: Size(500, 10_000, 10_000, 2_000)}
SAMPLERS: dict[str, tuple[Callable[[Estimator, Any], Kernel], tuple[float, ...]]] = {
    "SGLD": (lambda grad, h: sgld(grad, h), (1e-5, 3e-5, 1e-4, 3e-4)),
    "SGHMC": (lambda grad, h: sghmc(grad, h, FRICTION), (1e-3, 3e-3, 6e-3, 1e-2)),
    "SGNHT": (lambda grad, h: sgnht(grad, h, FRICTION), (1e-3, 3e-3, 6e-3, 1e-2)),
}
OPTIMISERS: dict[str, tuple[Callable, tuple[float, ...]]] = {
    "SGD": (lambda rate, steps: optax.sgd(rate, momentum=0.9), (0.3, 1.0, 3.0)),
    "Adam": (
        lambda rate, steps: optax.adam(optax.cosine_decay_schedule(rate, steps)),
        (1e-2, 3e-2, 1e-1),
    ),
}


class Digits(NamedTuple):
    """Images, flat and from 0 to 1, with their labels: to fit, to choose settings, to judge."""

    train: tuple
    held: tuple
    test: tuple


def digits(options: Options) -> Digits:
    """MNIST, the last 5,000 of its training images held back for settings."""
    holds = "`x_train` (60000, 28, 28) and `x_test` (10000, 28, 28), grey levels from 0 to 255, "
    holds += "and the digits `y_train` (60000,) and `y_test` (10000,)"
    file = load(options, "mnist.npz", "MNIST (the mnist.npz of Keras will do)", holds)
    part = lambda name: (
        (file[f"x_{name}"].reshape(-1, 784) / 255.0).astype(np.float32),
        file[f"y_{name}"].astype(np.int32),
    )
    (x, y), test = part("train"), part("test")
    return Digits((x[:TRAIN], y[:TRAIN]), (x[TRAIN:], y[TRAIN:]), test)


class Problem(NamedTuple):
    """The model, its data and where all begin."""

    key: Array
    model: BayesianNetwork
    data: Digits
    start: Any
    size: Size

    def loss(self, draws: Any, part: str) -> float:
        """The log loss of the mean over the second half of draws."""
        half = jax.tree.map(lambda x: x[len(x) // 2 :], draws)
        return float(self.model.log_loss(half, getattr(self.data, part)))

    def optimise(self, name: str, rate: float, steps: int) -> Any:
        """A mode of the weights whose precisions are one."""
        given = self.model.given(jnp.zeros(self.model.num_groups))
        arguments: Any = {"batcher": Uniform(self.size.batch), "num_steps": steps}
        arguments["optimizer"] = OPTIMISERS[name][0](rate, steps)
        return find_mode(self.key, given, self.start["weights"], self.data.train, **arguments)

    def sample(self, name: str, h: float, centre: Any | None, start: Any, steps: int) -> Any:
        """A run, `DRAWS` of which are kept: precisions by Gibbs each time, weights by gradients."""
        every = steps // DRAWS

        def weights(rest: dict) -> Kernel:
            given = self.model.given(rest["log_precision"])
            grad: Any = Minibatch(given, Uniform(self.size.batch))
            if centre is not None:
                grad = Anchored(grad, centre)
            return repeat(SAMPLERS[name][0](grad, h), every)

        kernel = gibbs(log_precision=self.model.precisions, weights=weights)
        return sample(self.key, kernel, start, self.data.train, num_steps=DRAWS)


def stacked(weights: Any) -> Any:
    """One position's weights as draws."""
    return {"weights": jax.tree.map(lambda x: jnp.stack([x]), weights)}


def optimised(problem: Problem, name: str, steps: int) -> tuple[Any, float, list[str]]:
    """The weights, at the rate that is best on the images held back in runs of a fifth."""
    found = []
    for rate in OPTIMISERS[name][1]:
        weights = problem.optimise(name, rate, steps // 5)
        found.append((problem.loss(stacked(weights), "held"), rate))
    rate = min(found)[1]
    return problem.optimise(name, rate, steps), rate, [f"{r:g}: {loss:.4f}" for loss, r in found]


def sampled(problem: Problem, name: str, centre: Any | None) -> tuple[Any, float, list[str]]:
    """A run, with the step size that is best on the images held back in pilot runs."""
    found, size = [], problem.size
    start = problem.start if centre is None else {**problem.start, "weights": centre}
    for h in SAMPLERS[name][1]:
        run = problem.sample(name, h, centre, start, size.pilot)
        loss = problem.loss(run.trace, "held")
        found.append((loss if np.isfinite(loss) else np.inf, h))
    h = min(found)[1]
    if centre is None:
        start = problem.sample(name, h, None, start, size.before)
    run = problem.sample(name, h, centre, start, size.steps)
    return run.trace, h, [f"{h:g}: {loss:.4f}" for loss, h in found]


def accuracy(problem: Problem, draws: Any) -> float:
    x, y = problem.data.test
    return float(np.mean(np.argmax(problem.model.predict(draws, x), axis=1) == y))


def running(problem: Problem, draws: Any) -> tuple[np.ndarray, np.ndarray]:
    """The log loss of the mean over all draws so far, against the number of steps."""
    ends = np.arange(5, DRAWS + 1, 5)
    part = lambda k: jax.tree.map(lambda x: x[:k], draws)
    losses = [float(problem.model.log_loss(part(k), problem.data.test)) for k in ends]
    return ends * (problem.size.steps // DRAWS), np.array(losses)


def run(options: Options) -> Iterator[str]:
    """Tables of log losses and of pilot runs, and figure4.png."""
    size, data = SIZES[options.full], digits(options)
    network = TwoLayerNetwork(jax.random.fold_in(options.key, 1))
    model = BayesianNetwork(network)
    problem = Problem(options.key, model, data, model.start(network), size)
    rows, pilots, lines = [], [], {}

    def add(name: str, draws: Any, setting: float, found: list[str]) -> str:
        row = [name, f"{setting:g}", f"{problem.loss(draws, 'held'):.4f}"]
        second = jax.tree.map(lambda x: x[len(x) // 2 :], draws)
        rows.append(
            [*row, f"{problem.loss(draws, 'test'):.4f}", f"{accuracy(problem, second):.4f}"]
        )
        pilots.append([name, ", ".join(found)])
        header = ["method", "rate or h", "log loss, held back", "log loss, test", "accuracy"]
        print(*rows[-1], *found, flush=True)
        return table(header, rows) + "\n" + table(["pilot", "log loss, held back"], pilots)

    steps, rates = size.before + size.steps, {}
    for name in OPTIMISERS:
        weights, rates[name], found = optimised(problem, name, steps)
        yield add(name, stacked(weights), rates[name], found)
    centre = problem.optimise("Adam", rates["Adam"], size.before)
    yield add("Adam, the centre", stacked(centre), rates["Adam"], [])
    for anchor in (centre, None):
        for name in SAMPLERS:
            draws, h, found = sampled(problem, name, anchor)
            full_name = name if anchor is None else f"{name}-CV"
            lines[full_name] = running(problem, draws)
            yield add(full_name, draws, h, found)
    curves(options.out / "figure4.png", {"MNIST": lines}, ("step", "log loss"))
