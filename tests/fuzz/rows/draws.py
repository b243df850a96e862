"""Calls: what is made of draws of mixtures and features."""

from __future__ import annotations

import jax
import numpy as np

from sgmc_jax import bnp
from sgmc_jax.collective import Dist
from tests.fuzz.rows.common import Call, X


def draws() -> dict[str, Call]:
    """Similarities, estimates, tables, predictions."""
    labels = np.random.default_rng(2).integers(0, 3, (5, 20))
    hyper = {"concentration": np.ones(5, np.float32), "discount": np.zeros(5, np.float32)}
    return {
        "similarity": Call(bnp.similarity, {"labels": labels, "rows": None, "size": None}),
        "similarity_of_groups": Call(
            bnp.similarity, {"labels": labels.reshape(5, 4, 5), "size": np.full(4, 2)}
        ),
        "feature_similarity": Call(
            bnp.feature_similarity, {"features": labels[None, :, :3] > 0, "rows": None}
        ),
        "traces": Call(
            bnp.traces,
            {"positions": Dist({"mass": np.ones(5)}, {"assignment": labels}), "size": None},
        ),
        "representative_draw": Call(bnp.representative_draw, {"features": labels[None, :, :3]}),
        "point_estimate": Call(
            bnp.point_estimate, {"labels": labels, "loss": "vi", "max_clusters": None}
        ),
        "cluster_table": Call(
            bnp.cluster_table, {"partition": labels[0], "data": X, "draws": labels, "columns": None}
        ),
        "feature_table": Call(
            bnp.feature_table, {"features": labels[:, :3], "parameters": X[:3], "columns": None}
        ),
        "kmeans_plus_plus": Call(
            bnp.kmeans_plus_plus, {"key": jax.random.key(0), "data": X, "num_clusters": 3}
        ),
        "predictive": Call(
            bnp.predictive,
            {
                "process": bnp.DirichletProcess(1.0),
                "family": bnp.NormalGamma(2),
                "positions": Dist(hyper, {"assignment": labels}),
                "data": X,
                "items": X[:3],
                "partition": labels[0],
            },
        ),
    }
