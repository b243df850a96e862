"""Calls: Diagnostics, special functions, draws, scores."""

from __future__ import annotations

import jax
import numpy as np

import sgmc_jax as s
from sgmc_jax import (
    arrays,
    diagnostics,
    directional,
    random,
    special,
)
from tests.fuzz.rows.common import COUNTS, Call


def numbers() -> dict[str, Call]:
    """Diagnostics, special functions, draws, scores."""
    key, draws = jax.random.key(0), np.random.default_rng(3).normal(size=(2, 50, 2))
    return {
        "ess": Call(s.ess, {"x": draws, "kind": "bulk"}),
        "rhat": Call(s.rhat, {"x": draws}),
        "ksd": Call(s.ksd, {"positions": draws[0], "scores": -draws[0], "c": 1.0, "beta": -0.5}),
        "gamma": Call(random.gamma, {"key": key, "shape_parameter": np.ones(3)}),
        "poisson": Call(random.poisson, {"key": key, "rate": np.ones(3)}),
        "normal": Call(random.normal, {"key": key}),
        "log_beta": Call(random.log_beta, {"key": key, "a": 1.0, "b": 2.0}),
        "von_mises_fisher": Call(
            random.von_mises_fisher,
            {"key": key, "mean_direction": np.array([1.0, 0.0, 0.0]), "concentration": 2.0},
        ),
        "log_bessel_i": Call(special.log_bessel_i, {"order": 1.0, "argument": 2.0}),
        "bessel_ratio": Call(special.bessel_ratio, {"order": 1.0, "argument": 2.0}),
        "vmf_density": Call(
            directional.von_mises_fisher_log_prob,
            {"x": np.array([1.0, 0.0]), "mean_direction": np.array([0.0, 1.0])}
            | {"concentration": 1.0},
        ),
        "scir_theory": Call(
            diagnostics.scir_batch_size, {"inflation": 1.1, "num_items": 100, "step_size": 0.1}
        ),
        "counts_variance": Call(
            diagnostics.counts_variance,
            {"counts": np.full(3, 20.0), "batch_size": 5, "replace": False},
        ),
        "scir_inflation": Call(
            diagnostics.scir_inflation, {"step_size": 0.1, "num_items": 100, "batch_size": 10}
        ),
        "scir_moments": Call(
            diagnostics.scir_moments,
            {"theta": 1.0, "shape": np.ones(3), "step_size": 0.1, "num_steps": 3}
            | {"shape_variance": 0.0},
        ),
        "scir_step_size": Call(
            diagnostics.scir_step_size, {"inflation": 1.1, "num_items": 100, "batch_size": 10}
        ),
        "rosenblatt_ks": Call(
            s.rosenblatt_ks, {"draws": np.full((5, 3), 1 / 3), "alpha": np.ones(3), "log": False}
        ),
        "compressed_rows": Call(arrays.compressed_rows, {"counts": COUNTS, "vocabulary": 3}),
        "word_rows": Call(arrays.word_rows, {"counts": COUNTS, "vocabulary": 3, "length": None}),
        "log_gamma": Call(random.log_gamma, {"key": key, "shape_parameter": np.ones(3)}),
        "cir": Call(
            random.cir,
            {"key": key, "log_theta": np.zeros(3), "shape": 0.3, "h": 0.1, "minimum_shape": 0.0},
        ),
        "log_bessel_series": Call(
            special.log_bessel_series, {"order": 1.0, "argument": 2.0, "scaled": False}
        ),
        "log_rising_factorial": Call(special.log_rising_factorial, {"x": 0.5, "n": 3.0}),
        "bingham_log_prob": Call(
            directional.bingham_log_prob, {"x": np.array([0.6, 0.8]), "matrix": np.eye(2)}
        ),
        "matrix_langevin_log_prob": Call(
            directional.matrix_langevin_log_prob, {"x": np.eye(3, 2), "matrix": np.eye(3, 2)}
        ),
    }
