"""Calls: Pictures."""

from __future__ import annotations

import numpy as np

import sgmc_jax as s
from sgmc_jax import (
    pictures,
    tune,
)
from tests.fuzz.rows.common import TOPICS, Call, X, minibatch


def drawings() -> dict[str, Call]:
    """Pictures."""
    labels = np.random.default_rng(2).integers(0, 3, 20)
    draws = np.random.default_rng(3).normal(size=(2, 50, 3))
    info, stopped = s.RunInfo(None, None), np.full(2, -1)
    done = s.Run({"x": draws}, info, None, stopped, 50, ("chain", "draw"))
    seen = [tune.Arm({"step_size": h}, h, 1.0, 10, 10.0, 1) for h in (0.1, 0.2)]
    tuned = tune.Tuned(minibatch(), seen[0].setting, done, seen)  # type: ignore
    directions = draws / np.linalg.norm(draws, axis=-1, keepdims=True)
    one, several = {"ax": None}, {"axes": None}
    limits = {"num": 2, "counts": np.array([3, 1]), "columns": 2}
    return {
        "plot_trace": Call(pictures.plot_trace, {"run": done, "names": ["x[1]"]} | several),
        "plot_ksd": Call(pictures.plot_ksd, {"tuned": tuned, "name": None} | one),
        "plot_clusters": Call(
            pictures.plot_clusters,
            {"points": X, "partition": labels, "columns": None, "sds": (1.0, 2.0)} | one,
        ),
        "plot_features": Call(
            pictures.plot_features, {"parameters": X[:2], "shape": (1, 2)} | limits | several
        ),
        "plot_topics": Call(
            pictures.plot_topics,
            {"topics": TOPICS, "vocabulary": ["a", "b", "c"]} | limits | several,
        ),
        "plot_sphere": Call(
            pictures.plot_sphere, {"samples": directions, "directions": directions[0, 0]} | one
        ),
    }
