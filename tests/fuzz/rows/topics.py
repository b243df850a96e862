"""Calls: topics and features that are told by words and items they have not seen."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from sgmc_jax import bnp, evaluation, processes
from tests.fuzz.rows.common import TOPICS, Call, groups


def topics() -> dict[str, Call]:
    """Evaluation."""
    four, shares = np.full((2, 4), 0.25, np.float32), np.full((4, 2), 0.5, np.float32)
    family = bnp.DirichletCategorical(0.5, size=4)
    statistics = family.label_statistics(jnp.arange(4), jnp.arange(4) % 2, 2)
    shared = {"weights": np.array([0.5, 0.2]), "rest": 0.3, "group_concentration": 2.0}
    explained = {"topics": four, "proportions": shares, "documents": groups()}
    counts = np.array([[3, 1], [0, 4]])
    return {
        "NewItems": Call(
            evaluation.NewItems,
            {
                "parameters": np.eye(2, 3),
                "weights": np.array([0.5, 0.2]),
                "noise_scale": 0.5,
                "births": 0.3,
                "feature_scale": 1.0,
                "birth_ratio": 0.2,
                "counts": processes.NegativeBinomial(2.0),
                "most": 2,
            },
            lambda law, held: law.log_prob(held["items"]),
            {"items": np.zeros((4, 3), np.float32)},
        ),
        "top_words": Call(
            evaluation.top_words, {"topics": TOPICS, "vocabulary": ["a", "b", "c"], "num": 2}
        ),
        "infer_proportions": Call(
            evaluation.infer_proportions,
            {
                "topics": np.full((2, 4), 0.25, np.float32),
                "concentrations": np.ones(2, np.float32),
                "documents": groups(),
            },
        ),
        "entries": Call(
            lambda items: evaluation.NewItems(np.eye(2, 3), np.full(2, 0.5), 0.5).entries(items),
            {"items": np.zeros((4, 3), np.float32)},
        ),
        "held_out_error": Call(
            evaluation.held_out_error,
            {"key": jax.random.key(0), "parameters": np.eye(2), "items": np.ones((3, 2))}
            | {"most": 1, "starts": 2, "sweeps": 2},
        ),
        "word_distributions": Call(
            evaluation.word_distributions,
            {"family": family, "statistics": statistics, "rest": True},
        ),
        "topic_counts": Call(
            evaluation.topic_counts,
            {
                "assignment": np.array([[0, 2, 2], [1, 0, 0]]),
                "size": np.array([3, 1]),
                "capacity": 3,
            },
        ),
        "hdp_concentrations": Call(
            evaluation.hdp_concentrations, {"shared": shared, "counts": np.array([7, 4])}
        ),
        "dirichlet_proportions": Call(
            evaluation.dirichlet_proportions, {"concentrations": np.ones(2), "counts": counts}
        ),
        "bnb_proportions": Call(
            evaluation.bnb_proportions,
            {"process": bnp.BetaProcess(1.0, 2.0), "log_theta": np.log([0.5, 0.2])}
            | {"counts": counts, "failures": None},
        ),
        "word_probabilities": Call(evaluation.word_probabilities, explained),
        "perplexity": Call(evaluation.perplexity, explained),
    }
