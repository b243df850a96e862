"""Figures 1 and 2 of the SCIR paper: a table and two pictures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

from . import dirichlet, pictures
from .dirichlet import COUNTS, SAMPLERS, SIZES, Result, Size

BOX_BATCH = 10  # the batch size of figure 1


def run_posterior(
    key: jax.Array, counts: np.ndarray, size: Size, bar: object
) -> dict[tuple[str, int], Result]:
    """Every sampler at every batch size; the exact one, which has none, is repeated."""
    results = {}
    for i, n in enumerate(size.batch_sizes):
        for j, sampler in enumerate(SAMPLERS):
            part = jax.random.fold_in(jax.random.fold_in(key, i), j)
            results[sampler, n] = dirichlet.run(part, sampler, counts, n, size)
            bar.update()
    truth = dirichlet.exact(jax.random.fold_in(key, len(size.batch_sizes)), counts, size)
    return results | {("exact", n): truth for n in size.batch_sizes}


def table(results: dict[str, dict[tuple[str, int], Result]]) -> str:
    """One line for each posterior, sampler and batch size."""
    lines = [
        "| posterior | sampler | batch | step size | in the grid | mean distance | of the seeds |",
        "|---|---|---|---|---|---|---|",
    ]
    for posterior, runs in results.items():
        for (sampler, n), result in sorted(runs.items()):
            seeds = ", ".join(f"{d:.3f}" for d in result.distances)
            chosen = ("-", "-")
            if sampler != "exact":
                chosen = (f"{result.step_size:.2g}", "yes" if result.inside else "NO")
            mean = f"{result.distances.mean():.4f}"
            lines.append(
                " | ".join(["|", posterior, sampler, str(n), *chosen, mean, seeds, "|"])
                .replace("| |", "|")
                .strip()
            )
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it all."""
    from tqdm.auto import tqdm

    parser = argparse.ArgumentParser(prog="python -m experiments.scir", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output")
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    size = SIZES[options.size]
    options.out.mkdir(parents=True, exist_ok=True)
    keys = jax.random.split(jax.random.key(options.seed), len(COUNTS))
    with tqdm(total=len(COUNTS) * len(size.batch_sizes) * len(SAMPLERS)) as bar:
        results = {
            name: run_posterior(key, counts, size, bar)
            for key, (name, counts) in zip(keys, COUNTS.items())
        }
    boxes = {name: results["sparse"][name, BOX_BATCH] for name in (*SAMPLERS, "exact")}
    pictures.draw_boxes(boxes, options.out / "figure1.png")
    pictures.draw_distances(results, options.out / "figure2.png")
    text = table(results)
    (options.out / "table.md").write_text(text)
    print(f"\n{text}\nIn {options.out}: table.md, figure1.png, figure2.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
