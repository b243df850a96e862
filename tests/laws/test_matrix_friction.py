"""Friction as a matrix: the maps and noises of its letters, exactly, and the laws of its words."""

import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from sgmc_jax import (
    Euclidean,
    Full,
    FunctionModel,
    Minibatch,
    Product,
    Sphere,
    Uniform,
    sample,
    sggmc,
    sghmc,
    sgld,
    sgnht,
)
from sgmc_jax.transitions import FrictionMatrix, Noise, Phase, friction_letters, matrix_friction
from tests.laws.moments import check_law, fault_is_seen, run_law

pytestmark = pytest.mark.runs_long

KEY = jax.random.key(31)
WORDS = ("ABOBA", "AFBNFA", "EA")
_rng = np.random.default_rng(4)


def positive_definite(dim, low, high):
    """A dense matrix with eigenvalues from `low` to `high`."""
    basis = np.linalg.qr(_rng.normal(size=(dim, dim)))[0]
    return (basis * np.linspace(low, high, dim)) @ basis.T


C, V, PRECISION = (positive_definite(3, *ends) for ends in ((0.4, 4.0), (0.5, 3.0), (0.5, 2.0)))
H, TEMPERATURE = 0.3, 0.7


def with_normals(function, *args):
    """`function(*args, z)`, a step of which the normals are the entries of z."""
    *args, z = args
    take = lambda word, dtype: z[: word.size].reshape(word.shape).astype(dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["sgmc_jax.random.normal"], "from_word", take)
        return function(*args)


# ------------------------------------------------- one step on R^n, and where it comes to rest


def one_step(word, friction, noise_covariance=None):
    """The linear map of (x, v), the covariance of its noise, and the response to one of g."""
    kick = lambda e: FunctionModel(lambda x: -0.5 * x @ PRECISION @ x + e @ x)
    args = {"temperature": TEMPERATURE, "noise_covariance": noise_covariance, "word": word}

    def step(x, v, e):
        kernel = sghmc(Minibatch(kick(e), Full()), H, friction, **args)
        state = kernel.init(KEY, x, None)._replace(momentum=v)
        state, _ = kernel.step(KEY, state, None)
        return jnp.concatenate([state.position, state.momentum])

    zero = jnp.zeros(3)
    move = lambda x, v, e, z: with_normals(step, x, v, e, z)
    columns = jax.jit(jax.jacfwd(move, argnums=(0, 1, 2, 3)))(zero, zero, zero, zero)
    x, v, e, z = map(np.asarray, columns)
    return np.concatenate([x, v], axis=1), z @ z.T, e


def step_of_letters(word, friction, noise_covariance):
    """The same in numpy, letter by letter, with matrix exponentials."""
    unit, zero = np.eye(3), np.zeros((3, 3))
    block = lambda a, b, c, d: np.block([[a, b], [c, d]])
    on_v = lambda m: block(unit, zero, zero, m)
    noise_of = lambda q: block(zero, zero, zero, q)
    total, noise = np.eye(6), np.zeros((6, 6))
    for letter in word:
        t, q = H / word.count(letter), zero
        decay = scipy.linalg.expm(-friction * t)
        kicks = (decay + unit) * t / 2
        injected = 2 * friction * TEMPERATURE * t - t**2 * noise_covariance
        if letter == "A":
            linear = block(unit, t * unit, zero, unit)
        elif letter == "B":
            linear = block(unit, zero, -t * PRECISION, unit)
        elif letter == "E":
            linear, q = block(unit, zero, -t * PRECISION, unit - t * friction), injected
        elif letter == "N":
            linear, q = np.eye(6), injected
        else:
            linear = on_v(decay)
            q = TEMPERATURE * (unit - decay @ decay) - kicks @ noise_covariance @ kicks
            q = q if letter == "O" else zero
        total, noise = linear @ total, linear @ noise @ linear.T + noise_of(q)
    return total, noise


SMALL = 0.3 * V
close = partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-10)


def check_step(word, covariance):
    got = one_step(word, C, None if covariance is None else SMALL)
    wanted = step_of_letters(word, C, np.zeros((3, 3)) if covariance is None else SMALL)
    for a, b in zip(got[:2], wanted, strict=True):
        close(a, b)
    close(*(scipy.linalg.solve_discrete_lyapunov(*step[:2]) for step in (got, wanted)))


@pytest.mark.parametrize("covariance", [None, "matrix"])
@pytest.mark.parametrize("word", WORDS)
def test_a_step_is_its_letters(word, covariance, x64):
    """And with it the stationary law, by the discrete Lyapunov equation."""
    check_step(word, covariance)


def check_rest(word):
    linear, noise, _ = one_step(word, C)
    return scipy.linalg.solve_discrete_lyapunov(linear, noise)


def test_the_default_word_is_exact_on_gaussians(x64):
    """With an exact gradient, whatever the matrix: x ~ N(0, T / precision)."""
    close(check_rest("ABOBA")[:3, :3], TEMPERATURE * np.linalg.inv(PRECISION))


@pytest.mark.parametrize("word", WORDS)
def test_what_is_subtracted_is_what_the_gradient_adds(word, x64):
    """A gradient with noise of covariance V: corrected, the noise of a step is that without it."""
    linear, exact, response = one_step(word, C)
    same, noise, _ = one_step(word, C, SMALL)
    close(same, linear)
    close(noise + response @ SMALL @ response.T, exact)


@pytest.mark.parametrize(
    "covariance",
    [None, "matrix", *(pytest.param(x, marks=pytest.mark.full) for x in (0.2, "diagonal"))],
)
@pytest.mark.parametrize("word", WORDS)
def test_a_multiple_of_the_identity_is_a_number(word, covariance, x64):
    forms = {"diagonal": np.array([0.1, 0.2, 0.3]), "matrix": SMALL}
    covariance = forms.get(covariance, covariance)
    for a, b in zip(
        one_step(word, 1.3 * np.eye(3), covariance), one_step(word, 1.3, covariance), strict=True
    ):
        close(a, b)


# ------------------------------------------------------------------- letters on curved spaces

SPACE = Product({"a": Sphere(), "b": Euclidean()})
POINTS = np.linalg.qr(_rng.normal(size=(3, 3)))[0][:2]
AT = {"a": POINTS, "b": np.array([0.4, -1.0])}
C_8, V_8 = positive_definite(8, 0.2, 5.0), positive_definite(8, 0.1, 1.0)
PROJECTION = scipy.linalg.block_diag(*(np.eye(3) - np.outer(x, x) for x in POINTS), np.eye(2))
ravel = lambda tree: jnp.concatenate([jnp.ravel(tree["a"]), tree["b"]])
unravel = lambda flat: {"a": flat[:6].reshape(2, 3), "b": flat[6:]}


def letter_on_curved(letter, noise_covariance=None, t=H):
    """The map of a tangent velocity, made of any ambient one, and the covariance of the noise."""
    piece = friction_letters(C_8, TEMPERATURE, noise_covariance)[letter]
    at = jax.tree.map(jnp.asarray, AT)

    def step(v):
        phase = Phase(at, SPACE.project(at, unravel(v)), {}, SPACE)
        field = jax.tree.map(jnp.zeros_like, at)
        return ravel(piece(KEY, phase, jnp.asarray(t), field).momentum)

    zero = jnp.zeros(8)
    v, z = jax.jacfwd(lambda v, z: with_normals(step, v, z), argnums=(0, 1))(zero, zero)
    return np.asarray(v), np.asarray(z) @ np.asarray(z).T


def check_on_curved(letter, covariance=None):
    """Against matrices of the whole space, exponentials of which are projected."""
    v = np.zeros((8, 8)) if covariance is None else covariance
    p, a = PROJECTION, PROJECTION @ C_8 @ PROJECTION
    decay = p @ scipy.linalg.expm(-a * H) @ p
    injected = p @ (2 * C_8 * TEMPERATURE * H - H**2 * v) @ p
    kicks = (decay + p) * H / 2
    exact = TEMPERATURE * (p - decay @ decay) - kicks @ v @ kicks
    wanted = {
        "F": (decay, 0 * p),
        "N": (p, injected),
        "O": (decay, exact),
        "E": (p - H * a, injected),
    }[letter]
    linear, noise = letter_on_curved(letter, covariance)
    close(linear, wanted[0])
    close(noise, wanted[1])
    for rows in (linear, noise):  # tangent, and exactly so where there is nothing normal
        close(p @ rows, rows)


@pytest.mark.parametrize("letter", "FNOE")
def test_a_letter_on_spheres_and_a_plane(letter, x64):
    check_on_curved(letter)
    if letter != "F":
        check_on_curved(letter, V_8)


def test_two_halves_of_o_are_one(x64):
    """Whatever the matrix, on a curved space: it is a solution, and no approximation of one."""
    half, noise = letter_on_curved("O", t=H / 2)
    linear, whole = letter_on_curved("O")
    close(half @ half, linear)
    close(half @ noise @ half.T + noise, whole)


def of_the_diagonal(self):
    return jnp.diag(jnp.sqrt(jnp.sum(self.basis**2 * self.rates, axis=1)))


honest_exact, honest_kicks = matrix_friction._exact, matrix_friction._twice_kicked
FAULTS = {
    "friction not projected": (FrictionMatrix, "at", lambda self, space, x: self, "FO"),
    "noise of the diagonal": (FrictionMatrix, "root", property(of_the_diagonal), "NOE"),
    "twice the friction in O": (
        matrix_friction,
        "_exact",
        lambda rates, temperature, h: honest_exact(2 * rates, temperature, h),
        "O",
    ),
    "twice the friction in N": (
        Noise,
        "variance",
        lambda self, h, v: 4 * self.temperature * h - h**2 * v,
        "N",
    ),
    "kicks that do not decay": (
        matrix_friction,
        "_twice_kicked",
        lambda friction, h, v: h**2 * friction.basis.T @ v @ friction.basis,
        "O",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_letters_see(fault, x64, monkeypatch):
    *where, letters = FAULTS[fault]
    monkeypatch.setattr(*where)
    for letter in letters:
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            check_on_curved(letter, None if letter == "F" else V_8)


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if "projected" not in fault])
def test_a_step_sees(fault, x64, monkeypatch):
    *where, letters = FAULTS[fault]
    monkeypatch.setattr(*where)
    words = [word for word in WORDS if set(word) & set(letters)]
    # O has a root of its own, but on R^n
    for word in words if fault != "noise of the diagonal" else ["AFBNFA", "EA"]:
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            check_step(word, "matrix")


def test_what_is_clipped_is_counted():
    """Where V is too large in one direction of three, in the word whose step is not constant."""
    model = FunctionModel(lambda x: -0.5 * x @ x)
    for word in WORDS:
        make = partial(sghmc, Minibatch(model, Full()), friction=np.diag([1.0, 2.0, 3.0]))
        v = np.diag([30.0, 1.0, 1.0])
        kernel = make(lambda count: 0.1 + 0 * count, noise_covariance=v, word=word)
        state = kernel.init(KEY, jnp.zeros(3), None)
        assert int(kernel.step(KEY, state, None)[1].clipped) == 1
        with pytest.raises(ValueError, match="noise_covariance exceeds the noise of the sampler"):
            make(0.1, noise_covariance=v, word=word)


# ------------------------------------------------------------------------- laws of whole chains

ARGS = {"num_chains": 1024, "num_steps": 5_000, "burn_in": 200}
ANISOTROPIC = positive_definite(3, 0.5, 6.0)
KAPPA, MEAN = 5.0, 0.80009  # A_3(5)
POLE = jnp.array([1.0, 0.0, 0.0])


def noisy_vmf(noise):
    """The von Mises-Fisher density, with items that only add noise of covariance `noise` I."""
    items = np.concatenate([np.eye(3), -np.eye(3)]) * np.sqrt(noise / 12)
    return Minibatch(FunctionModel(lambda x: KAPPA * x[0], lambda x, z: z @ x), Uniform(1)), items


def check_sphere(word, h, noise_covariance=None, noise=0.0):
    grad, items = noisy_vmf(noise)
    args = {"noise_covariance": noise_covariance, "word": word}
    kernel = sggmc(grad, Sphere(), h, ANISOTROPIC, **args)
    height = lambda state, info: jnp.stack([state.position[0], state.position[0] ** 2])
    run = run_law(KEY, kernel, POLE, items, reduce=height, **ARGS)
    check_law(run.trace.mean, [MEAN, 1 - 2 * MEAN / KAPPA], 0.015)


@pytest.mark.parametrize(
    "word, h", [("ABOBA", 0.1), *(pytest.param(w, 0.02, marks=pytest.mark.full) for w in WORDS[1:])]
)
def test_von_mises_fisher(word, h):
    check_sphere(word, h)


@pytest.mark.full
@pytest.mark.parametrize("word", WORDS[:2])
def test_von_mises_fisher_with_noise(word):
    check_sphere(word, 0.03, 10.0, 10.0)


@pytest.mark.full
@pytest.mark.at_length
def test_the_noise_is_there():
    fault_is_seen(check_sphere, "ABOBA", 0.03, None, 10.0)


def check_minibatches(word, corrected=True):
    """A posterior N(0, I / 2) from minibatches whose noise has the covariance W."""
    root = np.array([[1.5, 0.0], [0.8, 1.0]])
    signs = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    # w (w - 1) n/(n - 1) sum = 4^2 / 2 (1 - 1/2) / 3 sum_i s_i s_i', and the sum is 4 I
    slopes = signs @ root.T / np.sqrt(16 / 3)
    model = FunctionModel(lambda x: -x @ x, lambda x, s: s @ x)
    friction = np.array([[2.0, -0.9], [-0.9, 3.0]])
    w = root @ root.T if corrected else None
    kernel = sghmc(Minibatch(model, Uniform(2)), 0.3, friction, noise_covariance=w, word=word)
    products = lambda state, info: jnp.outer(state.position, state.position)
    run = run_law(KEY, kernel, jnp.zeros(2), slopes, reduce=products, **ARGS | {"num_steps": 4_000})
    check_law(run.trace.mean, np.eye(2) / 2, 0.02)


def test_noise_of_minibatches_is_subtracted():
    check_minibatches("ABOBA")


def test_the_law_sees_what_is_not_subtracted():
    fault_is_seen(check_minibatches, "ABOBA", corrected=False)


def test_matrices_that_single_precision_has_rounded():
    """A true 0 beside 1e6 is 1e-7 of that, on one side or the other."""
    V = np.diag(np.full(3, 1e6, "f"))
    V[0, 1], V[1, 0] = 0.1, -0.1
    rates = 0.3 ** abs(np.subtract.outer(np.arange(30), np.arange(30)))
    inverse = jnp.linalg.inv(jnp.asarray(1e4 * rates, jnp.float32))  # with a band, and zeros
    assert not np.array_equal(inverse, inverse.T)
    grad = Minibatch(FunctionModel(lambda x: -0.5 * x @ x), Full())
    assert sghmc(grad, 1e-9, 1e3, noise_covariance=V) and sghmc(grad, 0.1, inverse)


def test_the_largest_covariance_that_there_may_be():
    """h V = 2 T, whose halves float32 rounds to less than nothing."""
    grad = Minibatch(FunctionModel(lambda x: -0.5 * x @ x), Full())
    assert sgld(grad, 0.1, noise_covariance=20.0)
    with pytest.raises(ValueError, match="exceeds"):
        sgld(grad, 0.1, noise_covariance=20.001)


def sgnht_on(grad, space):
    return sgnht(grad, 0.5, space=space)


class Ring(Euclidean):
    """Angles, by a flow of their own."""

    def flow(self, x, v, t):
        return jnp.mod(x + t * v, 2 * jnp.pi), v


@pytest.mark.parametrize("make", [lambda grad, space: sghmc(grad, 0.5, space=space), sgnht_on])
def test_a_flow_of_ones_own_is_used(make):
    grad = Minibatch(FunctionModel(lambda x: jnp.sum(jnp.cos(x))), Full())
    run = sample(KEY, make(grad, Ring()), jnp.array([0.1, 6.2]), None, num_steps=200)
    assert (run.trace >= 0).all() and (run.trace <= 2 * np.pi).all()
    flat = sample(KEY, make(grad, Euclidean()), jnp.array([0.1, 6.2]), None, num_steps=200)
    assert flat.trace.min() < 0 or flat.trace.max() > 2 * np.pi
