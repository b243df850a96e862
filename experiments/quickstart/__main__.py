"""Posteriors of real data by six samplers, against an exact reference: a table and two pictures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from sgmc_jax import find_mode

from . import compare, million, pictures, problems
from .compare import SIZES, Draws, Row, Size
from .problems import Problem, Split


class Logistic(NamedTuple):
    """All of the first part."""

    split: Split
    problem: Problem
    exact: Draws
    draws: list[Draws]
    rows: list[Row]
    trusted: bool
    verdict: str


class Softmax(NamedTuple):
    """All of the second part: the table's lines, and log-losses along the runs."""

    lines: list[list[str]]
    curves: dict[str, np.ndarray]
    map_loss: float


def run_logistic(key: Array, size: Size, bar: Any) -> Logistic:
    bar.set_description("mode")
    split = problems.breast_cancer()
    problem = problems.logistic(split)
    kernels = compare.six_kernels(problem, size.batch_size)
    hmc_key, nuts_key, *keys = jax.random.split(key, 2 + len(kernels))
    bar.set_description("hmc, exact")
    exact = compare.reference(hmc_key, problem, size)
    bar.update()
    bar.set_description("nuts (blackjax)")
    outside = compare.nuts(nuts_key, problem, split, size)
    bar.update()
    draws = []
    for key, (name, kernel) in zip(keys, kernels.items()):
        bar.set_description(name)
        draws.append(compare.draw(key, name, kernel, problem, **size.settings))
        bar.update()
    bar.set_description("measures")
    shown = [*draws, exact, *([] if outside is None else [outside])]
    rows = [compare.measure(one, exact, problem, split) for one in shown]
    bar.update()
    trusted, verdict = _verdict(exact, outside, problem)
    return Logistic(split, problem, exact, draws, rows, trusted, verdict)


def _verdict(exact: Draws, outside: Draws | None, problem: Problem) -> tuple[bool, str]:
    """Whether the reference can be trusted, for all that is known, and what is."""
    if outside is None:
        return True, "The reference was NOT checked against NUTS: blackjax is not installed."
    means, variances = compare.disagreement(exact, outside, problem)
    agrees = max(means, variances) < compare.AGREEMENT_BAR
    return agrees, (
        f"The reference {'agrees' if agrees else 'DOES NOT AGREE'} with blackjax's NUTS: over 31 "
        f"coefficients the means differ by at most {means:.1f} standard errors, the variances by "
        f"{variances:.1f} (bar: {compare.AGREEMENT_BAR})."
    )


def run_softmax(key: Array, size: Size, bar: Any) -> Softmax:
    split, model = problems.digits(), problems.softmax_model()
    data, start = (split.x, split.y), jnp.zeros((split.x.shape[1], 10))
    mode = find_mode(key, model, start, data, tolerance=1e-6)
    map_scores = compare.predictive_scores(
        np.asarray(jax.nn.softmax(split.test_x @ mode)), split.test_y
    )
    lines, curves = [_digits_line("the mode alone", map_scores, None, None)], {}
    for name, (kernel, steps, thin) in compare.digits_samplers(model, mode, size).items():
        bar.set_description(f"digits: {name}")
        run, seconds, compile_seconds = compare.timed_sample(
            key, kernel, mode, data, num_chains=size.digits_chains, num_steps=steps, thin=thin
        )
        curve = np.asarray(compare.running_predictions(run.trace, split.test_x))
        curves[name] = np.array([compare.predictive_scores(p, split.test_y)[0] for p in curve])
        later = np.asarray(
            compare.running_predictions(run.trace[:, len(curve) // 4 :], split.test_x)
        )
        scores = compare.predictive_scores(later[-1], split.test_y)
        lines.append(_digits_line(name, scores, seconds, compile_seconds))
        bar.update()
    return Softmax(lines, curves, map_scores[0])


def _digits_line(name: str, scores: tuple, *seconds: float | None) -> list[str]:
    times = ["" if s is None else f"{s:.1f}" for s in seconds]
    return [name, f"{scores[0]:.4f}", f"{scores[1]:.3f}", *times]


def report_logistic(logistic: Logistic, size: Size) -> str:
    """What is told of the first part."""
    mode = compare.binary_log_loss(logistic.problem.mode[None], logistic.split)
    return "\n".join(
        [
            f"Breast cancer: {len(logistic.split.x)} items, 31 coefficients; batches of "
            f"{size.batch_size}, {size.chains} chains.",
            "",
            compare.render(logistic.rows),
            "",
            f"The bars: every mean within {compare.MEAN_BAR} sd of the exact reference, every sd "
            f"within {compare.SD_BAR:.0%}.",
            f"KSD of {compare.KSD_DRAWS} draws: the reference's own is the least to be hoped for. "
            f"Log-loss of the mode alone: {mode:.4f}.",
            logistic.verdict,
            "",
        ]
    )


def report_softmax(softmax: Softmax) -> str:
    """What is told of the second part."""
    header = ["sampler", "log-loss", "accuracy", "seconds", "compile s"]
    what = "Digits: softmax regression, 650 coefficients, batches of 100; held-out scores."
    return f"\n{what}\n\n{compare.markdown(header, softmax.lines)}\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it all; 0 if every kernel with control variates meets the bars."""
    from tqdm.auto import tqdm

    parser = argparse.ArgumentParser(prog="python -m experiments.quickstart", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output")
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    size = SIZES[options.size]
    options.out.mkdir(parents=True, exist_ok=True)
    first, second, third = jax.random.split(jax.random.key(options.seed), 3)

    text, out = "", options.out

    def add(part: str) -> None:
        nonlocal text
        text += part
        (out / "table.md").write_text(text)

    with tqdm(total=14, bar_format="{desc:<34}{bar} {n}/{total} [{elapsed}]") as bar:
        logistic = run_logistic(first, size, bar)
        add(report_logistic(logistic, size))
        common = (logistic.draws, logistic.exact, logistic.problem, logistic.split.names)
        pictures.draw_moments(*common, out / "posteriors.png")
        softmax = run_softmax(second, size, bar)
        add(report_softmax(softmax))
        pictures.draw_runs(*common, softmax.curves, softmax.map_loss, out / "runs.png")
        bar.update()
        bar.set_description("a million items")
        add("\n" + million.run(third, million.SIZES[options.size]) + "\n")
        bar.update()
        bar.set_description("done")

    print(f"\n{text}\nIn {out}: table.md, posteriors.png, runs.png")
    failed = [row.name for row in logistic.rows if "control" in row.name and not row.passes]
    failed += [] if logistic.trusted else ["the reference, which NUTS does not agree with"]
    if failed:
        print(f"Outside the bars: {'; '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
