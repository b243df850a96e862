"""Edges of the families: one dimension, small shapes, tracers, unfit hyper-parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

from sgmc_jax import families as fam
from sgmc_jax.collective import Collective


def close(a, b, rtol=1e-6, atol=1e-6):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol, atol), a, b)


def test_families_are_built_under_vmap():
    build = lambda s: fam.NormalKnownCovariance(jnp.zeros(2), s, 2.0).log_base(jnp.ones((1, 2)))
    expected = [
        st.multivariate_normal(np.zeros(2), s * np.eye(2)).logpdf(np.ones(2)) for s in (1, 3)
    ]
    close(jax.vmap(build)(jnp.array([1.0, 3.0]))[:, 0], np.array(expected), 1e-5)
    jax.vmap(lambda nu: fam.NormalInverseWishart(2, degrees_of_freedom=nu))(jnp.array([3.0, 4.0]))
    jax.vmap(lambda a: fam.DirichletMultinomial(a, size=3))(jnp.array([0.1, 1.0]))


def test_one_dimension_takes_flat_items():
    x = np.array([0.0, 1.0, 5.0], np.float32)
    for family in (
        fam.NormalKnownCovariance(0.0, 1.0, 2.0),
        fam.NormalInverseWishart(1),
        fam.NormalGamma(1),
        fam.PoissonGamma(1.0, 1.0),
    ):
        flat, tall = (
            family.statistics(x, jnp.ones((1, 3))),
            family.statistics(x[:, None], jnp.ones((1, 3))),
        )
        close(flat, tall)
        close(family.log_predictive(flat, x[0]), family.log_predictive(tall, x[:1]))
        family.check(x)


def test_small_shapes_stay_finite():
    """In float32, where gamma variates underflow."""
    x = np.zeros((1, 50))
    for family in (
        fam.DirichletMultinomial(1e-3, size=50),
        fam.PoissonGamma(1e-3, 1.0, size=50),
        fam.NormalGamma(50, shape=1e-3),
        fam.NormalInverseWishart(50, degrees_of_freedom=49.001),
    ):
        zero = family.zero_statistics(20, x[0])
        params = jax.jit(lambda f, zero: f.draw(jax.random.key(0), zero))(family, zero)
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(params)), family
        logliks = jax.jit(lambda f, params: f.loglik(params, x))(family, params)
        assert not np.any(np.isnan(logliks)), family


def test_unfit_hyper_parameters_are_refused():
    refused = [
        (lambda: fam.NormalKnownCovariance(np.zeros(2), -1.0, 1.0), "covariance"),
        (lambda: fam.NormalKnownCovariance(np.zeros(2), 1.0, np.eye(3)), "prior_covariance"),
        (lambda: fam.NormalKnownCovariance(np.zeros((2, 2)), 1.0, 1.0), "mean"),
        (lambda: fam.NormalKnownCovariance([0.0, np.nan], 1.0, 1.0), "mean"),
        (lambda: fam.NormalInverseWishart(0), "dim"),
        (lambda: fam.NormalInverseWishart(3, degrees_of_freedom=2.0), "degrees_of_freedom"),
        (lambda: fam.NormalInverseWishart(2, scale=[[1.0, 2.0], [2.0, 1.0]]), "scale"),
        (lambda: fam.NormalInverseWishart(2, mean_strength=0.0), "mean_strength"),
        (lambda: fam.NormalInverseWishart(2, mean_strength=[1.0, 1.0]), "mean_strength"),
        (lambda: fam.NormalGamma(2, shape=[1.0, -1.0]), "shape"),
        (lambda: fam.NormalGamma(2, rate=[1.0, 1.0, 1.0]), "rate"),
        (lambda: fam.DirichletMultinomial(1.0), "size"),
        (lambda: fam.DirichletMultinomial([1.0, 0.0]), "concentration"),
        (lambda: fam.PoissonGamma([1.0, 2.0], [1.0, 2.0, 3.0]), "shape"),
        (lambda: fam.PoissonGamma(1.0, np.inf), "rate"),
    ]
    for build, name in refused:
        with pytest.raises(ValueError, match=rf"^{name} must"):
            build()


ENTRIES = np.array([[1, 0, 1, 1, 0, 1], [0, 1, 1, 0, 1, 0], [0, 0, 0, 0, 0, 0]])
NORMALS = np.random.default_rng(3).normal(size=(6, 2))


def redrawn(family, params, items, keys):
    """Hyper-parameters and features of a `LinearGaussian`; the last slot is of no item."""
    rows = fam.FeatureRows(jnp.asarray(items), jnp.asarray(ENTRIES), jnp.ones(6, bool))
    params = jnp.asarray(params, rows.items.dtype)
    stats, counts = family.statistics(params, rows), jnp.asarray(ENTRIES.sum(1))
    draw = lambda key: family.redraw(
        key, family.start(), params, stats, counts, rows, 6, Collective()
    )
    return jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(0), keys))


def test_features_of_no_item_have_the_scale_that_is_drawn():
    family = fam.LinearGaussian(2, 1.0, 1.0, feature_prior=(1.5, 1.0))
    hyper, drawn = redrawn(family, np.zeros((3, 2)), np.float32(NORMALS), 2_000)
    own = np.asarray(drawn[:, 2] / hyper["feature_scale"][:, None], float)
    assert st.kstest(own.ravel(), "norm").pvalue > 1e-6


def test_the_noise_of_large_items_does_not_know_from_where_they_were_measured(x64):
    """From zero nearly all of the sum of squares is the features', and what is left cancels."""
    features = 1e3 * np.array([[1.0, -2.0], [3.0, 1.0], [0.0, 0.0]])
    family = fam.LinearGaussian(2, 0.5, 1e3, noise_prior=(2.0, 1.0))
    items = ENTRIES.T @ features + 0.5 * NORMALS
    far, near = (redrawn(family, params, items, 5)[0] for params in (0 * features, features))
    close(far["noise_scale"], near["noise_scale"])
