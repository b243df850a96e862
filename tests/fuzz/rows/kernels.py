"""Calls: Samplers of the gradient."""

from __future__ import annotations

import jax.numpy as jnp

import sgmc_jax as s
from tests.fuzz.rows.common import FLAT, POSITIVE, ROUND, Call, full, minibatch, on_sphere, run


def kernels() -> dict[str, Call]:
    """Samplers of the gradient."""

    def of(function, held, make=minibatch, **arguments):
        return Call(function, {"grad": make(), **arguments}, run, held)

    metric = lambda x: jnp.ones(2)
    step, friction = {"step_size": 0.01}, {"friction": 1.0}
    known = {"noise_covariance": None}
    hot = {"temperature": 1.0, **known}
    return {
        "sgld": of(s.sgld, FLAT, **step, **hot, space=None),
        "sghmc": of(s.sghmc, FLAT, **step, **friction, **hot, word="ABOBA", space=None),
        "sgnht": of(s.sgnht, FLAT, **step, **friction, **known, word="ATFBNFTA"),
        "sggmc": of(s.sggmc, ROUND, on_sphere, space=s.Sphere(), **step, **friction, **hot),
        "gsgnht": of(s.gsgnht, ROUND, on_sphere, space=s.Sphere(), **step, **friction, **known),
        "gmc": of(s.gmc, ROUND, full, space=s.Sphere(), **step, num_integration_steps=3),
        "hmc": of(s.hmc, FLAT, full, **step, num_integration_steps=3, space=None),
        "mala": of(s.mala, FLAT, full, **step, space=None),
        "psgld": of(s.psgld, FLAT, **step, decay=0.9, epsilon=1e-5, freeze_after=None, gamma=False),
        "sgrld": of(s.sgrld, FLAT, metric=metric, **step, factor=False, gamma="exact", **hot),
        "sgrhmc": of(s.sgrhmc, FLAT, metric=metric, **step, **friction, gamma="exact", **hot),
        "recipe": of(s.recipe, FLAT, diffusion=1.0, curl=0.0, **step, gamma="exact", **hot),
        "mirrored": of(s.mirrored_sgld, POSITIVE, **step, mirror=s.PositiveMirror(), **hot),
        "projected": of(s.projected_sgld, POSITIVE, **step, convex_set=s.Box(0.0, 2.0), **hot),
        "reflected": of(s.reflected_sgld, POSITIVE, **step, convex_set=s.Box(0.0, 2.0), **hot),
    }
