"""Calls: spaces, convex sets, mirrors and bijectors."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import sgmc_jax as s
from sgmc_jax import bijectors as b
from tests.fuzz.rows.common import FLAT, POSITIVE, Call, X, minibatch, run


class Own:
    """A bijector of another library."""

    forward = staticmethod(jnp.exp)
    inverse = staticmethod(jnp.log)
    forward_log_det_jacobian = staticmethod(lambda z: z)


def anywhere() -> s.Model:
    """A density of any pytree."""
    total = lambda x: sum((jnp.sum(leaf) for leaf in jax.tree.leaves(x)), jnp.zeros(()))
    return s.FunctionModel(
        lambda x: -total(jax.tree.map(jnp.square, x)), lambda x, z: jnp.sum(z) * total(x)
    )


def spaces() -> dict[str, Call]:
    """Spaces, each with a word on it, convex sets and mirrors."""
    grad = s.Minibatch(anywhere(), s.Uniform(5))
    walk = lambda space, held: run(s.sggmc(grad, space, 0.01), held)
    slide = lambda convex_set, held: run(s.projected_sgld(minibatch(), 0.01, convex_set), held)
    mirror = lambda mirror, held: run(s.mirrored_sgld(minibatch(), 0.01, mirror), held)

    def at(kind, point, **arguments):
        position = jax.tree.map(lambda x: np.array(x, np.float32), point, is_leaf=is_list)
        return Call(kind, arguments, walk, {"position": position, "data": X})

    is_list = lambda x: isinstance(x, list)
    share = {"position": np.full(2, 0.5, np.float32), "data": X}
    both = {"a": s.Sphere(), "b": s.Euclidean()}
    return {
        "Sphere": at(s.Sphere, [1, 0, 0]),
        "Stiefel": at(s.Stiefel, [[1, 0], [0, 1], [0, 0]]),
        "SPD": at(s.SPD, [[2, 0.5], [0.5, 1]]),
        "Hyperboloid": at(s.Hyperboloid, [1.25, 0.75, 0]),
        "Positive": at(s.Positive, [1, 2]),
        "Simplex": at(s.Simplex, [0.2, 0.3, 0.5]),
        "Euclidean": at(s.Euclidean, [0, 0], scale=np.array([1.0, 2.0]), cholesky=None),
        "Euclidean.cholesky": at(s.Euclidean, [0, 0], cholesky=np.eye(2)),
        "Product": at(s.Product, {"a": [1, 0], "b": [0, 0]}, spaces=both),
        "Ball": Call(s.Ball, {"radius": 3.0, "centre": 0.0}, slide, FLAT),
        "Box": Call(s.Box, {"lower": 0.0, "upper": 1.0}, slide, FLAT),
        "PositiveMirror": Call(s.PositiveMirror, {}, mirror, POSITIVE),
        "SimplexMirror": Call(s.SimplexMirror, {}, mirror, share),
    }


def supports() -> dict[str, Call]:
    """Bijectors, each in a model that it transforms."""

    def transformed(bijector, held):
        model = s.Transformed(anywhere(), bijector)
        return run(s.sgld(s.Minibatch(model, s.Uniform(5)), 0.01), held)

    def of(kind, size=3, **arguments):
        held = {"position": np.zeros(size, np.float32), "data": X}
        return Call(kind, arguments, transformed, held)

    return {
        "Identity": of(b.Identity),
        "Exp": of(b.Exp),
        "GreaterThan": of(b.GreaterThan, bound=1.0),
        "LessThan": of(b.LessThan, bound=1.0),
        "Interval": of(b.Interval, lower=0.0, upper=np.ones(3)),
        "Ordered": of(b.Ordered),
        "StickBreaking": of(b.StickBreaking),
        "Correlation": of(b.Correlation),
        "CorrelationCholesky": of(b.CorrelationCholesky),
        "Covariance": of(b.Covariance),
        "Foreign": of(b.Foreign, bijector=Own()),
        "as_bijector": of(b.as_bijector, name="position", constraint="interval(0, 1)"),
    }
