"""The geometry of spaces: geodesics go back, keep their speed and stay; points are checked."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from jax.flatten_util import ravel_pytree
from jax.test_util import check_grads
from scipy import stats

from sgmc_jax import (
    SPD,
    Euclidean,
    Full,
    FunctionModel,
    Hyperboloid,
    Minibatch,
    Positive,
    Product,
    Simplex,
    Sphere,
    Stiefel,
    gmc,
    sample,
    scan_kernel,
    sggmc,
)
from sgmc_jax.arrays.expm import expm
from sgmc_jax.spaces import stiefel
from tests.laws.moments import check_mean

KEY, OTHER = jax.random.split(jax.random.key(3))
EVERY = [
    (Sphere(), (4, 5), 16),
    (Stiefel(), (2, 6, 3), 24),
    (Stiefel(), (3, 1), 2),
    (Stiefel(), (3, 3), 3),
    (Stiefel(), (1, 1), 0),
    (SPD(), (2, 3, 3), 12),
    (SPD(), (1, 1), 1),
    (Hyperboloid(), (4, 3), 8),
    (Positive(), (5,), 5),
    (Positive(), (), 1),
    (Simplex(), (4, 5), 16),
]
FAST = {(4, 5), (2, 6, 3), (2, 3, 3), (4, 3), (5,)}  # the others at length only
ROWS = [
    pytest.param(
        *row,
        id=f"{type(row[0]).__name__}-{row[1]}",
        marks=[] if row[1] in FAST else pytest.mark.full,
    )
    for row in EVERY
]
REVERSAL, ENERGY = 3e-6, 3e-6  # of single precision
every = pytest.mark.parametrize("space, shape, dim", ROWS)


def moving(space, shape, dtype):
    """A point and a velocity."""
    x = space.random_point(KEY, jnp.zeros(shape, dtype))
    return x, space.normal(OTHER, x)


@every
def test_the_flow(space, shape, dim, x64):
    x, v = moving(space, shape, "float64")
    flow = jax.jit(space.flow)
    y, w = flow(x, v, 1.3)
    space.check(x), space.check(y)
    back, reversed_velocity = flow(y, jax.tree.map(jnp.negative, w), 1.3)
    np.testing.assert_allclose(back, x, atol=1e-11)
    np.testing.assert_allclose(reversed_velocity, -v, atol=1e-11)
    length = space.squared_norm(x, v)
    np.testing.assert_allclose(space.squared_norm(y, w), length, rtol=1e-11)
    half = flow(*flow(x, v, 0.65), 0.65)
    np.testing.assert_allclose(half[0], y, rtol=1e-11, atol=1e-11)
    ahead = (flow(x, v, 1e-6)[0] - flow(x, v, -1e-6)[0]) / 2e-6
    np.testing.assert_allclose(ahead, v, rtol=1e-7, atol=1e-7)
    still = flow(x, jnp.zeros_like(v), 1.0)
    np.testing.assert_allclose(still[0], x, atol=1e-14)
    assert not np.any(still[1]) and space.dim(x) == dim


@every
def test_tangent_vectors(space, shape, dim, x64):
    """A normal one has covariance G^-1: <u, normal> has the variance |u|^2 for tangent u."""
    x, v = moving(space, shape, "float64")
    g = jax.random.normal(jax.random.key(8), shape, "float64")
    u = space.gradient(x, g)  # <u, w> = g.w for tangent w
    draws = jax.vmap(lambda key: space.normal(key, x))(jax.random.split(KEY, 20_000))
    inner = np.asarray(jnp.sum(draws * g, axis=tuple(range(1, draws.ndim))))
    length = float(space.squared_norm(x, u))
    assert abs(np.mean(inner**2) / max(length, 1e-300) - 1) < 5.5 * np.sqrt(2 / 20_000) or dim == 0
    lengths = jax.vmap(lambda v: space.squared_norm(x, v))(draws)
    assert abs(np.mean(lengths) - dim) < 5.5 * np.sqrt(2 * dim / 20_000) + 1e-9
    np.testing.assert_allclose(jnp.sum(u * g), length, rtol=1e-10, atol=1e-12)
    if space.embedded:
        np.testing.assert_allclose(space.project(x, u), u, atol=1e-12)
    # what is tangent at x is the derivative of a geodesic, so that nothing leaves along it
    space.check(space.flow(x, u, 0.3)[0])


@every
def test_the_flow_in_single_precision(space, shape, dim):
    """It goes back, keeps its speed and stays, but for roundings of the largest number met."""
    x, v = moving(space, shape, "float32")
    flow = jax.jit(space.flow)
    y, w = flow(x, v, 1.3)
    assert off(space, x) < 5e-7 and off(space, y) < 5e-7
    back, reversed_velocity = flow(y, -w, 1.3)
    size = float(max(jnp.max(jnp.abs(z)) for z in (x, v, y, w)))
    if isinstance(space, Hyperboloid):  # geodesics part as e^distance: so do roundings on the way
        size = size * np.exp(1.3 * np.sqrt(space.squared_norm(x, v)))
    own = 0.0
    if isinstance(space, SPD):  # the roundings of a matrix, in its own metric
        own = 2**-23 * max(np.max(np.linalg.cond(np.asarray(z, float))) for z in (x, y))
    np.testing.assert_allclose(back, x, atol=(REVERSAL + own) * size)
    np.testing.assert_allclose(reversed_velocity, -v, atol=(REVERSAL + own) * size)
    speeds = space.squared_norm(y, w), space.squared_norm(x, v)
    np.testing.assert_allclose(*speeds, rtol=ENERGY + own)


def test_a_flow_that_slows_by_a_hundred_thousandth_is_seen(monkeypatch):
    flow = Sphere.flow
    slower = lambda self, x, v, time: (lambda y, w: (y, w * (1 - 1e-5)))(*flow(self, x, v, time))
    monkeypatch.setattr(Sphere, "flow", slower)
    with pytest.raises(AssertionError):
        test_the_flow_in_single_precision(Sphere(), (4, 5), 16)


def off(space, x):
    """How far positions are from their space, relative to their size where that may be large."""
    x = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), x)
    if isinstance(space, Product):
        return max(off(part, x[name]) for name, part in space.spaces.items())
    if isinstance(space, Stiefel):
        return np.max(np.abs(np.swapaxes(x, -1, -2) @ x - np.eye(x.shape[-1])))
    if isinstance(space, SPD):
        assert np.linalg.eigvalsh(x).min() > 0
        return np.max(np.abs(x - np.swapaxes(x, -1, -2))) / np.max(np.abs(x))
    if isinstance(space, Positive):
        assert np.min(x) > 0
        return 0.0
    first = x[..., 0]
    if isinstance(space, Hyperboloid):
        return np.max(np.abs(np.sum(x[..., 1:] ** 2, -1) - first**2 + 1) / first**2)
    parts = x**2 if isinstance(space, Sphere) else x
    return np.max(np.abs(np.sum(parts, -1) - 1))


def points(*shape):
    return np.zeros(shape, np.float32)


PULLS = {
    Hyperboloid: lambda x: -2 * x[0],
    Simplex: lambda x: jnp.sum(jnp.log(x)),
    SPD: lambda x: 4 * jnp.linalg.slogdet(x)[1] - jnp.trace(x),
    Product: lambda x: 5 * jnp.sum(x["sphere"]) - 2 * x["plane"][0] - jnp.sum(x["scale"]),
}
BOTH = Product({"sphere": Sphere(), "plane": Hyperboloid(), "scale": Positive()})


LIKE = {"sphere": points(3), "plane": points(3), "scale": points(2)}


@pytest.mark.parametrize("dtype, rounding", [("float32", 1e-6), ("float64", 1e-14)])
def test_the_flow_of_a_product_is_that_of_its_parts(dtype, rounding, x64):
    x = BOTH.random_point(KEY, jax.tree.map(lambda leaf: leaf.astype(dtype), LIKE))
    v = BOTH.normal(OTHER, x)
    found = jax.jit(lambda x, v: BOTH.flow(x, v, 1.3))(x, v)
    speed = 0.0
    for name, space in BOTH.spaces.items():
        wanted = space.flow(x[name], v[name], 1.3)
        for tree, leaf in zip(found, wanted, strict=True):
            assert tree[name].dtype == dtype
            size = np.max(np.abs(leaf))
            np.testing.assert_allclose(tree[name], leaf, rtol=0, atol=rounding * size)
        speed += float(space.squared_norm(x[name], v[name]))
    np.testing.assert_allclose(BOTH.squared_norm(x, v), speed, rtol=rounding)


def _triangular(x):
    """The factor of a QR decomposition whose diagonal is positive."""
    q, r = jnp.linalg.qr(x)
    return q * jnp.sign(jnp.diagonal(r, axis1=-2, axis2=-1))[..., None, :]


def turned(to_space):
    """How far apart are a point near the manifold, turned and put back, and put back and turned."""
    x = Stiefel().random_point(KEY, points(20, 6, 3))
    turn = Stiefel().random_point(OTHER, points(20, 3, 3))
    near = x + 1e-3 * jax.random.normal(OTHER, x.shape)
    return np.max(np.abs(to_space(near @ turn) - to_space(near) @ turn))


def test_positions_are_put_back_whatever_their_frame():
    """Frames X and X R of one subspace by the same factor R: of a QR decomposition they are not,
    so that roundings, put back by one, would prefer some frames."""
    assert turned(stiefel._towards_polar) < 2e-6 and turned(Stiefel().nearest) < 2e-6
    assert turned(_triangular) > 1e-4


@pytest.mark.parametrize(
    "space, like, steps",
    [
        (Stiefel(), points(4, 2), 10_000),
        *(
            pytest.param(space, like, 200_000, marks=pytest.mark.full)
            for space, like in [
                (Sphere(), points(3)),
                (Stiefel(), points(4, 2)),
                (Simplex(), points(3)),
                (Hyperboloid(), points(3)),
                (SPD(), points(3, 3)),
                (BOTH, LIKE),
                (Stiefel(), points(64, 8)),
            ]
        ),
        *(
            pytest.param(space, like, 200_000, marks=[pytest.mark.full, pytest.mark.at_length])
            for space, like in [(Stiefel(), points(361, 4)), (Sphere(), points(10_000))]
        ),
    ],
)
def test_float32_does_not_leave(space, like, steps):
    """No farther than by rounding, 5e-7 (of x_0^2 where that is more), after many steps."""
    pull = PULLS.get(type(space), lambda x: 5 * jnp.sum(x))
    kernel = sggmc(Minibatch(FunctionModel(pull), Full()), space, 0.05)
    state = kernel.init(KEY, space.random_point(OTHER, like), None)
    run = jax.jit(lambda s: scan_kernel(KEY, kernel, s, None, steps, lambda s, i: ()))
    after = run(state)[0].position
    assert off(space, after) < 5e-7
    moved = jax.tree.map(lambda x, y: bool(np.any(x != y)), after, state.position)
    assert all(jax.tree.leaves(moved))


def test_without_a_step_to_the_polar_factor_it_would(monkeypatch):
    monkeypatch.setattr(stiefel, "_towards_polar", lambda x: x)
    with pytest.raises(AssertionError, match="assert np.float64"):
        test_float32_does_not_leave(Stiefel(), points(4, 2), 10_000)


@every
def test_the_flow_has_derivatives_of_both_modes(space, shape, dim, x64):
    x, v = moving(space, shape, "float64")
    flow = jax.jit(lambda s, v: space.flow(x, s * v, 1.3))
    check_grads(flow, (jnp.ones(()), v), order=1, modes=("fwd", "rev"), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype, bound", [("float32", 2e-7), ("float64", 1e-14)])
@pytest.mark.parametrize("scale", [0.0, 0.01, 1.0, 30.0])
def test_exponentials(scale, dtype, bound, x64):
    """Squares of exp(B) in place of exp(B) - I are off by three times as much."""
    a = np.random.default_rng(0).normal(size=(3, 6, 6)) * scale / 2.4
    a = np.asarray(a - np.swapaxes(a, -1, -2), dtype)
    error = np.abs(expm(jnp.asarray(a)) - scipy.linalg.expm(a.astype(float)))
    assert error.max() < bound * max(1, scale)
    assert np.isnan(expm(jnp.full((2, 2), jnp.nan, dtype))).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exponentials_of_what_shrinks_and_of_what_grows(dtype, x64):
    """To roundings of their largest entry: exp(B) - I, less the mean, could not be near -I."""
    b = np.random.default_rng(1).normal(size=(4, 4))
    b = np.asarray((b @ b.T) / 4 * np.array([-20.0, -3.0, 3.0, 20.0])[:, None, None], dtype)
    exact = scipy.linalg.expm(b.astype(float))
    error = np.abs(expm(jnp.asarray(b)) - exact).max((-2, -1)) / np.abs(exact).max((-2, -1))
    assert error.max() < 400 * np.finfo(dtype).eps, error
    alone = expm(jnp.array([[[-50.0]], [[40.0]]], dtype))[:, 0, 0]
    np.testing.assert_allclose(alone, np.exp([-50.0, 40.0]), rtol=10 * np.finfo(dtype).eps)


def test_one_column_is_a_sphere(x64):
    x, v = moving(Sphere(), (5,), "float64")
    y, w = Stiefel().flow(x[:, None], v[:, None], 0.7)
    np.testing.assert_allclose(jnp.concatenate([y, w], 1).T, Sphere().flow(x, v, 0.7), atol=1e-14)
    like = jnp.zeros((2, 5, 1))
    np.testing.assert_allclose(
        Stiefel().log_volume(like), Sphere().log_volume(like[..., 0]), rtol=1e-6
    )


def test_a_matrix_of_size_one_is_a_positive_number(x64):
    x, v = moving(Positive(), (1, 1), "float64")
    np.testing.assert_allclose(SPD().flow(x, v, 0.7), Positive().flow(x, v, 0.7), rtol=1e-13)
    for method in ("gradient", "squared_norm"):
        got, wanted = (getattr(space, method)(x, v) for space in (SPD(), Positive()))
        np.testing.assert_allclose(got, wanted, rtol=1e-13)
    np.testing.assert_allclose(SPD().log_element(x), Positive().log_element(x), rtol=1e-13)


def test_measures_of_many_points_are_those_of_each():
    for space, shape in ((SPD(), (3, 2, 2)), (Simplex(), (3, 4)), (Positive(), (3,))):
        x = space.random_point(KEY, jnp.zeros(shape))
        each = sum(space.log_element(point) for point in x)
        np.testing.assert_allclose(space.log_element(x), each, rtol=1e-5)
    for space, shape in ((Stiefel(), (3, 2)), (Sphere(), (3,)), (Simplex(), (4,))):
        one, many = (space.log_volume(jnp.zeros(own)) for own in (shape, (5, *shape)))
        np.testing.assert_allclose(many, 5 * one, rtol=1e-6)


def test_volumes():
    """Of the rotations of the plane, two circles of radius sqrt 2, and of an area by their dims."""
    np.testing.assert_allclose(
        Stiefel().log_volume(jnp.eye(2)), np.log(4 * np.pi * 2**0.5), rtol=1e-6
    )
    space = Product({"a": Simplex(), "b": Positive(), "c": Euclidean()})
    like = {"a": jnp.zeros(3), "b": jnp.zeros(()), "c": jnp.zeros(2)}
    x = space.random_point(KEY, like)
    space.check(x)
    wanted = -jnp.sum(jnp.log(x["a"])) / 2 - jnp.log(x["b"])
    np.testing.assert_allclose(space.log_element(x), wanted, rtol=1e-6)
    for method in ("log_element", "log_volume"):
        space = Sphere() if method == "log_element" else SPD()
        with pytest.raises(NotImplementedError):
            getattr(space, method)(jnp.eye(2))


TWO = {"p": points(3), "q": points(3)}
# The mean and the covariance of the raveled uniform law of each finite volume, and the fourth
# central moment of an entry, which a cube in place of a normal law has wrong.
DIRICHLET = np.kron(np.eye(2), 6 * np.eye(3) - 2) / 45
UNIFORM = {
    "sphere": (Sphere(), points(2, 3), 0, np.eye(6) / 3, 1 / 5),
    "spheres in a tree": (Sphere(), TWO, 0, np.eye(6) / 3, 1 / 5),
    "product": (Product({"p": Sphere(), "q": Sphere()}), TWO, 0, np.eye(6) / 3, 1 / 5),
    "frames": (Stiefel(), points(3, 2), 0, np.eye(6) / 3, 1 / 5),
    "rotations and reflections": (Stiefel(), points(2, 2), 0, np.eye(4) / 2, 3 / 8),
    # that of the sphere's volume, Dirichlet(1/2, 1/2, 1/2)
    "simplex": (Simplex(), points(2, 3), 1 / 3, DIRICHLET, 16 / 945),
}


@pytest.mark.parametrize("name", UNIFORM)
def test_a_random_point_is_uniform(name):
    space, like, mean, covariance, fourth = UNIFORM[name]
    draw = lambda key: ravel_pytree(space.random_point(key, like))[0]
    x = np.asarray(jax.vmap(draw)(jax.random.split(KEY, 20_000))) - mean
    products = (x[:, :, None] * x[:, None]).reshape(len(x), -1)
    dim = x.shape[1]
    expected = np.concatenate([np.zeros(dim), covariance.ravel(), np.full(dim, fourth)])
    check_mean(np.concatenate([x, products, x**4], axis=1), expected, 0.15)


@pytest.mark.full
@every
def test_many_points_are_one_array(space, shape, dim):
    """Chains together are chains alone, and leaves of a tree are arrays of their own."""
    x = space.random_point(KEY, jnp.zeros(shape))
    kernel = sggmc(Minibatch(FunctionModel(lambda x: jnp.sum(x["p"])), Full()), space, 0.01)
    tree = {"p": x, "q": x}
    together = sample(KEY, kernel, tree, None, num_steps=3, num_chains=3, position_axis=None)
    alone = sample(KEY, kernel, tree, None, num_steps=3)
    for name in tree:
        np.testing.assert_allclose(together.trace[name][0], alone.trace[name], rtol=2e-5, atol=2e-5)


WRONG = [
    (Stiefel(), jnp.eye(2, 3), "p <= n"),
    (Stiefel(), jnp.ones(3), "p <= n"),
    (Stiefel(), 2 * jnp.eye(3, 2), "orthonormal columns.*nearest"),
    (SPD(), jnp.ones((2, 3)), r"\(..., n, n\)"),
    (SPD(), jnp.array([[2.0, 1.0], [0.0, 2.0]]), "symmetric"),
    (SPD(), jnp.array([[1.0, 2.0], [2.0, 1.0]]), "positive definite.*-1"),
    (Hyperboloid(), jnp.array([0.0, 0.0, 1.0]), "x_0 > 0"),
    (Hyperboloid(), jnp.array([-1.0, 0.0, 0.0]), "x_0 > 0"),
    (Hyperboloid(), jnp.ones(1), r"\(..., n \+ 1\)"),
    (Positive(), jnp.array([1.0, 0.0]), "positive, got 0"),
    (Simplex(), jnp.array([0.5, 0.6]), "sum to one"),
    (Simplex(), jnp.array([1.0, 0.0]), "positive"),
    (Simplex(), jnp.ones(()), "vector"),
]


@pytest.mark.parametrize("space, x, message", WRONG)
def test_a_position_off_its_space(space, x, message):
    kernel = gmc(Minibatch(FunctionModel(lambda x: -jnp.sum(x)), Full()), space, 0.1)
    with pytest.raises(ValueError, match=message):
        sample(KEY, kernel, x, None, num_steps=1)


@pytest.mark.parametrize("alpha", [0.5, 2.0, [0.7, 3.0, 1.2], [[1.0, 2.0, 3.0], [4.0, 0.6, 0.8]]])
def test_dirichlet_densities_are_normalised(alpha, x64):
    """SciPy's, with the Jacobian of the volume, and its derivatives in alpha by differences."""
    theta = np.random.default_rng(3).dirichlet(np.ones(3), 2)
    each = np.broadcast_to(np.asarray(alpha, float), (2, 3))
    of_scipy = sum(stats.dirichlet.logpdf(t, a) for t, a in zip(theta, each))
    expected = of_scipy + np.sum(np.log(theta)) / 2 + 2 * 2 * np.log(2)
    log_prob = lambda alpha: Simplex.log_dirichlet(jnp.asarray(theta), alpha)
    np.testing.assert_allclose(log_prob(jnp.asarray(alpha)), expected, rtol=1e-12)
    if each[0, 0] > 0.5:
        slope = jax.grad(log_prob)(jnp.asarray(each))
        near = lambda h: jax.vmap(lambda e: log_prob(each + h * e))(jnp.eye(6).reshape(6, 2, 3))
        found = (near(1e-6) - near(-1e-6)) / 2e-6
        np.testing.assert_allclose(slope.ravel(), found, rtol=1e-7, atol=1e-7)


def test_a_flat_prior_of_the_faces_is_told_of():
    with pytest.warns(UserWarning, match="scir"):
        Simplex.log_dirichlet(jnp.ones(2) / 2, 0.4)


def test_a_space_must_be_one():
    with pytest.raises(TypeError, match="space must be a Space"):
        gmc(Minibatch(FunctionModel(lambda x: -jnp.sum(x)), Full()), "sphere", 0.1)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_points_in_half_precision_are_of_their_space(dtype):
    keys = jax.random.split(KEY, 20)
    for space, like in [(Sphere(), jnp.zeros(5, dtype)), (Simplex(), jnp.zeros((2, 7), dtype))]:
        for key in keys:
            space.check(space.random_point(key, like))


def test_no_point_at_all_is_in_any_space():
    for space, shape in [
        (Sphere(), (0, 3)),
        (Stiefel(), (0, 3, 2)),
        (SPD(), (0, 2, 2)),
        (Hyperboloid(), (0, 3)),
        (Simplex(), (0, 3)),
        (Positive(), (0,)),
    ]:
        space.check(jnp.zeros(shape))


@pytest.mark.parametrize("space", [Sphere(), Euclidean()])
def test_whole_numbers_do_not_flow(space):
    """The time would be one too: 0."""
    x, v = jnp.array([1, 0]), jnp.array([0.0, 1.0])
    with pytest.raises(TypeError, match="position must be floating, got int32"):
        space.flow(x, v, 0.5)
