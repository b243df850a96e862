"""A constant metric: the steps are those of the coordinates in which it is the identity."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from sgmc_jax import (
    Euclidean,
    Full,
    FunctionModel,
    Minibatch,
    hmc,
    mala,
    sample,
    scan_kernel,
    sghmc,
    sgld,
    sgnht,
)
from sgmc_jax.splitting import Splitting
from sgmc_jax.transitions import EulerLangevin

KEY, OTHER = jax.random.split(jax.random.key(5))
# in single precision, as the start and the roots are
TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}
START = {"a": jnp.array([0.3, -0.2]), "b": jnp.array(0.5)}
FLAT, UNRAVEL = ravel_pytree(START)
DIAGONAL = {"a": jnp.array([0.01, 2.0]), "b": jnp.array(0.5)}
CHOLESKY = jnp.array([[0.1, 0.0, 0.0], [0.4, 2.0, 0.0], [-0.3, 0.2, 0.5]])
MATRICES = {
    "diagonal": jnp.diag(ravel_pytree(DIAGONAL)[0]),
    "dense": CHOLESKY,
    "number": 0.3 * jnp.eye(3),
}
SPACES = {
    "diagonal": Euclidean(DIAGONAL),
    "dense": Euclidean(cholesky=CHOLESKY),
    "number": Euclidean(0.3),
}
KERNELS = {
    "sghmc": lambda grad, space: sghmc(grad, 0.3, 1.3, space=space),
    "sghmc EA": lambda grad, space: sghmc(grad, 0.2, word="EA", space=space),
    "sgnht": lambda grad, space: sgnht(grad, 0.2, space=space),
    "sgld": lambda grad, space: sgld(grad, 0.1, space=space or Euclidean()),
    "hmc": lambda grad, space: hmc(grad, 0.4, 3, space=space),
    "mala": lambda grad, space: mala(grad, 0.2, space=space),
}


def log_density(x):
    """Neither Gaussian nor symmetric."""
    flat, _ = ravel_pytree(x)
    return -jnp.sum(jnp.cosh(flat - 0.2)) - 0.3 * flat[0] * flat[1]


FAST = {("sghmc", "dense"), ("sgnht", "diagonal"), ("sgld", "number")}  # the others at length only
PAIRS = [
    pytest.param(kernel, name, marks=[] if (kernel, name) in FAST else pytest.mark.full)
    for kernel in KERNELS
    for name in SPACES
]


@pytest.mark.parametrize("kernel, name", PAIRS)
def test_the_steps_are_those_of_whitened_coordinates(kernel, name, x64):
    """An exact identity: x_t = S z_t at every step."""
    space, root = SPACES[name], MATRICES[name]
    there = UNRAVEL(jnp.linalg.solve(root, FLAT))
    white = FunctionModel(lambda z: log_density(UNRAVEL(root @ ravel_pytree(z)[0])))
    traces = []
    for model, geometry, start in (
        (FunctionModel(log_density), space, START),
        (white, None, there),
    ):
        made = KERNELS[kernel](Minibatch(model, Full()), geometry)
        start = jax.tree.map(lambda x: x.astype(float), start)
        _, trace = scan_kernel(OTHER, made, made.init(KEY, start, None), None, 6)
        traces.append(jax.vmap(lambda x: ravel_pytree(x)[0])(trace))
    moved, wanted = traces[0], traces[1] @ root.T
    assert np.abs(np.diff(wanted, axis=0)).max() > 1e-3
    np.testing.assert_allclose(moved, wanted, **TOLERANCE)


@pytest.mark.parametrize("name", SPACES)
def test_its_parts(name, x64):
    """The normal has covariance S S', and the inverse of that is the metric."""
    space, root = SPACES[name], np.asarray(MATRICES[name])
    x = jax.tree.map(lambda x: x.astype(float), START)
    basis = jax.vmap(UNRAVEL)(jnp.eye(3))
    gradients = jax.vmap(lambda g: ravel_pytree(space.gradient(x, g))[0])(basis)
    np.testing.assert_allclose(gradients, root @ root.T, rtol=1e-6)
    lengths = jax.vmap(lambda v: space.squared_norm(x, v))(basis)
    np.testing.assert_allclose(lengths, np.diag(np.linalg.inv(root @ root.T)), rtol=1e-6)
    plain = ravel_pytree(Euclidean().normal(KEY, x))[0]
    np.testing.assert_allclose(ravel_pytree(space.normal(KEY, x))[0], root @ plain, rtol=1e-6)
    assert space.flat and not space.embedded and Euclidean().embedded


def start(space):
    kernel = sghmc(Minibatch(FunctionModel(log_density), Full()), 0.1, space=space)
    sample(KEY, kernel, START, None, num_steps=1)


WRONG = [
    (lambda: Euclidean(0.0), "scale must be finite and positive"),
    (lambda: Euclidean({"a": jnp.array([1.0, -1.0])}), "scale must be finite and positive"),
    (lambda: Euclidean(1.0, cholesky=jnp.eye(2)), "exclude each other"),
    (lambda: Euclidean(cholesky=jnp.ones((2, 2))), "lower triangular"),
    (lambda: Euclidean(cholesky=-jnp.eye(2)), "positive diagonal"),
    (lambda: Euclidean(cholesky=jnp.ones(2)), "square"),
    (lambda: start(Euclidean(cholesky=jnp.eye(2))), r"cholesky must have the shape \(3, 3\)"),
    (lambda: start(Euclidean(jnp.ones(3))), "shaped like the position"),
    (lambda: start(Euclidean({"a": jnp.ones(3), "b": 1.0})), "shaped like the position"),
]


@pytest.mark.parametrize("make, message", WRONG, ids=[message for _, message in WRONG])
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_straight_letter_has_no_metric():
    with pytest.raises(ValueError, match="straight lines"):
        grad = Minibatch(FunctionModel(log_density), Full())
        Splitting("L", {"L": EulerLangevin()}, grad, 0.1, Euclidean(0.3))
