"""Calls: the letters of words, and what they are made of."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

import sgmc_jax as s
from sgmc_jax import transitions as t
from tests.fuzz.rows.common import FLAT, POSITIVE, WEIGHTS, Call, minibatch, run, shapes

MATRIX = np.array([[2.0, 0.5], [0.5, 1.0]])


def letters() -> dict[str, Call]:
    """Each as the Z of a word."""

    def of(kind, word, held=FLAT, make=minibatch, letter=lambda piece: piece, **arguments):
        return Call(kind, arguments, lambda made, held: spell(word, make, letter(made), held), held)

    heat = {"temperature": 1.0, "noise_covariance": t.NoiseCovariance()}
    curve, known = t.PositionMatrix("metric", 1.0), t.FrictionMatrix(MATRIX)
    metric, relative = t.InverseMetric(curve), t.NoiseCovariance(None, known.root)
    box, counted = s.Box(0.0, 2.0), {"held": WEIGHTS, "make": shapes}
    recipe = {"curl": None, "gamma": t.Divergence(), "extended": False, "factor": False}
    ou = {"friction": 1.0, "temperature": 1.0}
    return {
        "CIR": of(t.CIR, "Z", **counted),
        "GammaTotal": of(t.GammaTotal, "ZC", **counted),
        "FixedTotal": of(t.FixedTotal, "ZC", **counted, total=1.0),
        "ExpandedMean": of(t.ExpandedMeanLangevin, "Z", **counted, prior=shapes().prior),
        "GeodesicFlow": of(t.GeodesicFlow, "ZB"),
        "GradientKick": of(t.GradientKick, "AZ"),
        "GeodesicLangevin": of(t.GeodesicLangevin, "Z", **heat),
        "EulerLangevin": of(t.EulerLangevin, "Z", **heat),
        "EulerMomentum": of(t.EulerMomentum, "ZA", friction=1.0, **heat),
        "OrnsteinUhlenbeck": of(t.OrnsteinUhlenbeck, "ABZBA", friction=1.0, **heat),
        "Friction": of(t.Friction, "ABZ", friction=1.0),
        "MomentumRefreshment": of(t.MomentumRefreshment, "ZABA", temperature=1.0),
        "Noise": of(t.Noise, "ABZ", friction=1.0, **heat),
        "Thermostat": of(t.Thermostat, "ABZ", start=1.0),
        "NoiseCovariance": of(
            t.NoiseCovariance,
            "ABZ",
            letter=lambda made: t.Noise(1.0, 1.0, made),
            **{"covariance": 0.1, "root": None},
        ),
        "FrictionMatrix": of(t.FrictionMatrix, "ABZ", letter=t.MatrixFriction, matrix=MATRIX),
        "MatrixFriction": of(t.MatrixFriction, "ABZ", friction=known),
        "MatrixOU": of(t.MatrixOrnsteinUhlenbeck, "ABZ", friction=known, **heat),
        "MatrixEuler": of(
            t.MatrixEuler, "ZA", friction=known, temperature=1.0, noise_covariance=relative
        ),
        "friction_letters": of(
            t.friction_letters,
            "ABZ",
            letter=lambda made: made["F"],
            **{"friction": MATRIX, "temperature": 1.0, "noise_covariance": None},
        ),
        "GeometricOU": of(
            t.GeometricOrnsteinUhlenbeck, "Z", scale=1.0, noise_covariance=t.NoiseCovariance()
        ),
        "MirroredLangevin": of(
            t.MirroredLangevin, "Z", POSITIVE, mirror=s.PositiveMirror(), **heat
        ),
        "Projection": of(t.Projection, "LZ", POSITIVE, convex_set=box),
        "Reflection": of(t.Reflection, "LZ", POSITIVE, convex_set=box),
        "PreconditionedLangevin": of(
            t.PreconditionedLangevin,
            "Z",
            **{"decay": 0.9, "epsilon": 1e-5, "freeze_after": None, "gamma": False},
        ),
        "RecipeEuler": of(t.RecipeEuler, "Z", diffusion=curve, **heat, **recipe),
        "PositionMatrix": of(
            t.PositionMatrix,
            "Z",
            letter=lambda made: t.RecipeEuler(made),
            **{"name": "diffusion", "value": lambda x: 1 + x**2},
        ),
        "Divergence": of(
            t.Divergence,
            "Z",
            letter=lambda made: t.RecipeEuler(curve, gamma=made),
            gamma="exact",
        ),
        "InverseMetric": of(
            t.InverseMetric, "PZ", letter=t.RiemannianFlow, matrix=curve, factor=False
        ),
        "RiemannianFlow": of(t.RiemannianFlow, "PZ", metric=metric),
        "RiemannianMomentum": of(
            t.RiemannianMomentum, "ZX", metric=metric, gamma=t.Divergence(), **ou
        ),
        "Splitting": Call(
            s.Splitting,
            {
                "word": "BAOAB",
                "pieces": {"A": t.GeodesicFlow(), "B": t.GradientKick()}
                | {"O": t.OrnsteinUhlenbeck(1.0)},
                "grad": minibatch(),
                "step_size": 0.01,
                "space": None,
                "temperature": 1.0,
            },
            run,
            FLAT,
        ),
    }


def spell(word: str, make: Any, piece: Any, held: dict[str, Any]) -> Any:
    """A run of the word."""
    metric = t.InverseMetric(t.PositionMatrix("metric", jnp.ones(())))
    others = {
        "A": t.GeodesicFlow(),
        "B": t.GradientKick(),
        "C": t.CIR(),
        "L": t.EulerLangevin(),
        "P": t.RiemannianMomentum(metric, 1.0),
        "X": t.RiemannianFlow(metric),
    }
    return run(s.Splitting(word, others | {"Z": piece}, make(), 0.01), held)
