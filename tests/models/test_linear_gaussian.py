"""Linear-Gaussian state-space models against the joint normal law of all rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from sgmc_jax import Minibatch, Window, sample, sgld
from sgmc_jax import models as m
from sgmc_jax.collective import as_shard
from sgmc_jax.models.series import kalman
from tests.models.jacobians import check_prior

KEY = jax.random.key(31)
FULL = pytest.mark.full


def problem(initial=None):
    """Two states, three observed numbers, seven rows; all four matrices free."""
    rng = np.random.default_rng(1)
    model = m.LinearGaussianStateSpace(2, 3, noise_prior=(5.0, 1.0), initial=initial)
    square = lambda n: 0.3 * np.eye(n) + 0.1 * np.ones((n, n))
    transition = np.array([[0.7, -0.2], [0.3, 0.5]])
    position = model.position(
        transition=transition,
        state_noise=square(2),
        observation=rng.normal(size=(3, 2)),
        observation_noise=square(3),
    )
    return model, position, jnp.asarray(rng.normal(size=(7, 3)))


def given():
    return jnp.array([0.5, -0.5]), jnp.array([[0.4, 0.1], [0.1, 0.3]])


def joint(model, position, num, begins):
    """Mean and covariance of x_0, ..., x_num (or from x_1 on), and of the rows with them."""
    a, q, c, r = (model.matrices(position)[name] for name in m_names(model))
    size = len(a)
    eye = jnp.eye(size * size)
    law = jnp.linalg.solve(eye - jnp.kron(a, a), q.ravel()).reshape(size, size)
    mean, first = jnp.zeros(size), law
    if begins and model.initial is not None:
        mean, first = model.initial
    steps = num if begins else num + 1
    means, blocks, covariance = [mean], {}, first
    for t in range(steps):
        blocks[t, t] = covariance
        for s in range(t + 1, steps):
            blocks[t, s] = blocks[t, s - 1] @ a.T
        covariance = a @ covariance @ a.T + q
        means.append(a @ means[-1])
    whole = jnp.block(
        [[blocks[t, s] if s >= t else blocks[s, t].T for s in range(steps)] for t in range(steps)]
    )
    observe = jnp.kron(jnp.eye(steps), c)[(0 if begins else len(c)) :]
    return jnp.concatenate(means[:steps]), whole, observe, jnp.kron(jnp.eye(num), r)


def m_names(model):
    return ("transition", "state_noise", "observation", "observation_noise")


def dense_log_likelihood(model, position, series):
    mean, cov, observe, noise = joint(model, position, len(series), True)
    law = (observe @ mean, observe @ cov @ observe.T + noise)
    return jax.scipy.stats.multivariate_normal.logpdf(series.ravel(), *law)


def conditional(model, position, rows, begins):
    """Mean and covariance of all states of `joint` given the rows."""
    mean, cov, observe, noise = joint(model, position, len(rows), begins)
    gain = jnp.linalg.solve(observe @ cov @ observe.T + noise, observe @ cov).T
    return mean + gain @ (rows.ravel() - observe @ mean), cov - gain @ observe @ cov


def dense_gradient(model, position, rows, begins, share):
    """The gradient of E sum_t share_t log p(x_t, y_t | x_{t-1}), states given all of the rows."""
    mean, cov = conditional(model, position, rows, begins)
    size, num = model.state_dim, len(rows)
    eye, off = jnp.eye(len(mean)), 0 if begins else 1
    pick = lambda t: eye[(t + off) * size : (t + off + 1) * size]  # x_t, t = 0 the first row

    def normal(linear, constant, covariance):
        """E log N(constant - linear x; 0, covariance)."""
        gap = constant - linear @ mean
        square = jnp.outer(gap, gap) + linear @ cov @ linear.T
        trace = jnp.trace(jnp.linalg.solve(covariance, square))
        logdet = jnp.linalg.slogdet(2 * jnp.pi * covariance)[1]
        return -0.5 * (trace + logdet)

    def complete(position):
        a, q, c, r = (model.matrices(position)[name] for name in m_names(model))
        total = 0.0
        for t in range(num):
            if t == 0 and begins:
                first, law = joint(model, position, 1, True)[:2]
                step = normal(-pick(0), -first, law)
            else:
                step = normal(pick(t) - a @ pick(t - 1), jnp.zeros(size), q)
            total = total + share[t] * (step + normal(c @ pick(t), rows[t], r))
        return total

    return jax.grad(complete)(position)


def check_close(got, wanted, words=""):
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9, err_msg=words)


def check_likelihood(initial=None):
    model, position, series = problem(initial)
    exact = Minibatch(model, Window(None))

    def by_recursions(x, y):
        estimate = exact.items(exact.draw(KEY, (), y)[0], x)
        return jax.value_and_grad(model.log_likelihood)(x, y), estimate

    dense = jax.value_and_grad(lambda x, y: dense_log_likelihood(model, x, y))
    value, gradient = jax.jit(dense)(position, series)
    plain, estimate = jax.jit(by_recursions)(position, series)
    check_close(plain, (value, gradient), "likelihood")
    check_close(estimate.logdensity, value, "likelihood")
    check_close(estimate.value, gradient, "gradient")


@pytest.mark.parametrize("initial", [None, pytest.param("given", marks=FULL)])
def test_the_joint_normal_law(initial, x64):
    check_likelihood(initial and given())


@pytest.mark.parametrize("initial", [None, given])
def test_smoothed_states_have_the_conditional_law(initial, x64):
    model, position, series = problem(initial and initial())
    mean, cov = jax.jit(lambda x: conditional(model, x, series, True))(position)
    blocks = jnp.einsum("titj->tij", cov.reshape(7, 2, 7, 2))
    found = jax.jit(lambda x: model.smoothed(x, series))(position)
    check_close(found, (mean.reshape(7, 2), blocks))


def check_windows(initial, buffer):
    model, position, series = problem(initial)
    every = Window(3, buffer).population(as_shard(series)).items
    terms = jax.jit(lambda x, w: model.per_item(x, w))(position, every)
    for i in range(3):
        window = jax.tree.map(lambda x, i=i: np.asarray(x)[i], every)
        rows, share = window.rows[window.real], window.share[window.real]
        dense = jax.jit(lambda x, r, s, b=bool(window.first): dense_gradient(model, x, r, b, s))
        wanted = dense(position, jnp.asarray(rows), share)
        check_close(jax.tree.map(lambda x, i=i: x[i], terms), wanted, f"window {i}")


def test_a_position_is_of_its_matrices(x64):
    """Noises by their factors, row by row, with the logarithm of the diagonal; or known ones."""
    rng = np.random.default_rng(2)
    factor = np.tril(rng.normal(size=(3, 3)), -1) + np.diag([0.5, 2.0, 1.3])
    given = {
        "transition": rng.normal(size=(2, 2)),
        "state_noise": np.array([[2.0, 0.3], [0.3, 0.7]]),
        "observation": rng.normal(size=(3, 2)),
        "observation_noise": factor @ factor.T,
    }
    model = m.LinearGaussianStateSpace(2, 3, known={"state_noise": given.pop("state_noise")})
    position = model.position(**given)
    factor[np.diag_indices(3)] = np.log([0.5, 2.0, 1.3])
    check_close(position, given | {"observation_noise": factor[np.tril_indices(3)]})
    check_close(model.matrices(position), model.known | given)


def test_a_series_far_from_zero_keeps_its_digits():
    known = {"observation": np.eye(1)}
    model = m.LinearGaussianStateSpace(1, 1, known=known, initial=(np.full(1, 1e3), np.eye(1)))
    matrices = {"transition": 0.9999, "state_noise": 0.5, "observation_noise": 1.0}
    position = model.position(**{name: np.full((1, 1), x) for name, x in matrices.items()})
    rng = np.random.default_rng(0)
    series = jnp.asarray(1e3 + np.cumsum(rng.normal(size=40)) + rng.normal(size=40), jnp.float32)
    grad = Minibatch(model, Window(None))
    got = jax.jit(lambda x: grad.full(x, series).value)(position)
    wanted = jax.jit(jax.grad(model.log_likelihood))(position, series)
    for name in ("state_noise", "observation_noise"):
        np.testing.assert_allclose(got[name], wanted[name], atol=0.05)


@pytest.mark.full
@pytest.mark.parametrize("buffer", [0, 1])
def test_windows_against_the_joint_normal_law(buffer, x64):
    check_windows(None, buffer)
    check_windows(given(), buffer)


@pytest.mark.full
def test_the_initial_law_inside_of_the_series_is_seen(x64, monkeypatch):
    honest = m.LinearGaussianStateSpace._smoothed
    always = lambda self, law, window: honest(
        self, law, window._replace(first=jnp.ones_like(window.first))
    )
    monkeypatch.setattr(m.LinearGaussianStateSpace, "_smoothed", always)
    with pytest.raises(AssertionError, match="window 1"):
        check_windows(given(), 0)


@pytest.mark.full
def test_a_wrong_backward_gain_is_seen(x64, monkeypatch):
    honest = kalman.smooth
    wrong = lambda law, filtered: honest(law._replace(transition=law.transition.T), filtered)
    monkeypatch.setattr(kalman, "smooth", wrong)
    with pytest.raises(AssertionError, match="gradient"):
        check_likelihood()


@pytest.mark.full
@pytest.mark.parametrize("overlapping", [False, True])
def test_long_buffers_are_unbiased(overlapping, x64):
    model, position, series = problem(given())
    exact = jax.grad(model.log_likelihood)(position, series)
    for length in (3, 5):
        grad = Minibatch(model, Window(length, 7, overlapping=overlapping))
        check_close(jax.jit(lambda x, g=grad: g.full(x, series).value)(position), exact)


# ------------------------------------------------------- the buffer: an AR(1) in noise


def autoregression(length=2_000):
    """phi = .9, q = .5, r = 1, T = 2,000, of one known generator; x_1 has a law without phi."""
    rng, series, x = np.random.default_rng(0), [], 0.0
    for _ in range(length):
        x = 0.9 * x + np.sqrt(0.5) * rng.normal()
        series.append(x + rng.normal())
    known = {"state_noise": 0.5 * np.eye(1), "observation": np.eye(1)}
    known["observation_noise"] = np.eye(1)
    initial = (np.zeros(1), np.eye(1) * 0.5 / (1 - 0.81))
    model = m.LinearGaussianStateSpace(1, 1, known=known, initial=initial)
    return model, {"transition": jnp.full((1, 1), 0.9)}, jnp.asarray(series)


def buffer_errors(buffers):
    model, position, series = autoregression()
    gradient = jax.jit(lambda x: jax.grad(model.log_likelihood)(x, series))
    exact = float(gradient(position)["transition"][0, 0])
    errors = {}
    for buffer in buffers:
        full = jax.jit(lambda x, b=buffer: Minibatch(model, Window(20, b)).full(x, series).value)
        errors[buffer] = float(full(position)["transition"][0, 0]) - exact
    return exact, errors


def check_buffers(buffers=(0, 2, 4, 8, 16, 32)):
    """To the digits that are known, and at the rate |phi| (1 - K) = .479."""
    known = {2: (-5.9, 0.05), 4: (0.84, 0.005), 8: (0.11, 0.005), 16: (2.4e-4, 5e-6)}
    exact, errors = buffer_errors(buffers)
    assert abs(exact - 200.4) < 0.05
    for buffer in set(known) & set(buffers):
        figure, half = known[buffer]
        assert abs(errors[buffer] - figure) <= half, errors
    if 32 in buffers:
        # 1e-11 is what the rounding of a gradient of 200 leaves
        assert abs(errors[32]) < 1e-10, errors
    return errors


def test_the_buffers_error_is_that_of_the_formula(x64):
    check_buffers((4, 16))


@pytest.mark.full
def test_the_buffers_errors_at_every_length(x64):
    errors = check_buffers()
    # half of the error without the pair at the left edge, -44.2
    assert abs(errors[0] + 21.99) < 0.01


@pytest.mark.full
def test_the_buffers_error_falls_at_the_rate_of_the_formula(x64):
    """The mean square over the hundred blocks falls by |phi| (1 - K) = .479 a row, within 3 %."""
    model, position, series = autoregression()

    def terms(buffer):
        every = Window(20, buffer).population(as_shard(series)).items
        make = jax.jit(lambda x, w: model.per_item(x, w)["transition"].ravel())
        return np.asarray(make(position, every))

    exact = terms(64)
    first, last = (np.sqrt(np.mean((terms(buffer) - exact) ** 2)) for buffer in (4, 24))
    rho = 0.9 * (1 - steady_gain(0.9, 0.5, 1.0))
    assert abs(rho - 0.479) < 5e-4
    assert abs((last / first) ** (1 / 20) - rho) < 0.03 * rho


def steady_gain(phi, q, r):
    p = q
    for _ in range(200):
        p = phi**2 * p * r / (p + r) + q
    return p / (p + r)


@pytest.mark.full
def test_a_rate_that_is_too_slow_is_seen(x64, monkeypatch):
    """A smoother that never looks back has a bias that no buffer takes away."""

    def forget(law, filtered):
        states = kalman_smooth(law, filtered)
        mean, spread = states.mean.at[1:].set(filtered.updated[0]), states.covariance
        return states._replace(mean=mean, covariance=spread.at[1:].set(filtered.updated[1]))

    kalman_smooth = kalman.smooth
    monkeypatch.setattr(kalman, "smooth", forget)
    with pytest.raises(AssertionError):
        check_buffers((4, 16))


def test_the_density_has_its_jacobians(x64):
    """Of all four matrices, Q of two rows and R of three, by the densities of their laws."""
    model = m.LinearGaussianStateSpace(2, 3, scale=0.7, noise_prior=(5.0, 1.5))
    lower = {"state_noise": np.tril_indices(2), "observation_noise": np.tril_indices(3)}

    def natural(x):
        of = model.matrices(x)
        noises = [of[name][lower[name]] for name in lower]
        return jnp.concatenate([of["transition"].ravel(), of["observation"].ravel(), *noises])

    def log_density(v):
        total = stats.norm.logpdf(v[:10], scale=0.7).sum()
        for entries, size in ((v[10:13], 2), (v[13:], 3)):
            matrix = np.zeros((size, size))
            matrix[np.tril_indices(size)] = entries
            matrix = matrix + np.tril(matrix, -1).T
            total += stats.invwishart.logpdf(matrix, 5, 1.5 * np.eye(size))
        return total

    like = {"transition": (2, 2), "state_noise": 3, "observation": (3, 2), "observation_noise": 6}
    like = {name: jnp.zeros(shape) for name, shape in like.items()}
    check_prior(model.logprior, natural, log_density, like)


@pytest.mark.parametrize("initial", [None, given])
def test_simulated_series_have_the_law(initial):
    """Second moments of states and rows of 4,000 independent short series: 5.5 standard errors."""
    model, position, _ = problem(initial and initial())
    simulate = jax.jit(jax.vmap(lambda key: model.simulate(key, position, 3)))
    drawn = simulate(jax.random.split(KEY, 4_000))
    both = np.concatenate([np.reshape(x, (4_000, -1)) for x in drawn], axis=1)
    exact = jax.jit(lambda x: joint(model, x, 3, True))(position)
    mean, cov, observe, noise = map(np.asarray, exact)
    rows = observe @ cov @ observe.T + noise
    second = np.block([[cov, cov @ observe.T], [observe @ cov, rows]])
    mean = np.concatenate([mean, observe @ mean])
    products = both[:, :, None] * both[:, None, :]
    gap = products.mean(0) - (second + np.outer(mean, mean))
    assert np.all(np.abs(gap) < 5.5 * products.std(0) / np.sqrt(4_000))


def one(**kwargs):
    return m.LinearGaussianStateSpace(1, 1, **kwargs)


ALL = {name: np.eye(1) for name in m_names(None)}
BAD = {
    "dim": (lambda: m.LinearGaussianStateSpace(0, 1), "state_dim must be a whole number"),
    "scale": (lambda: one(scale=0.0), "scale must be finite and positive"),
    "prior": (lambda: one(noise_prior=(0.0, 1.0)), "noise_prior must be finite and positive"),
    "degrees": (
        lambda: m.LinearGaussianStateSpace(3, 1, noise_prior=(2.0, 1.0)),
        "noise_prior must have degrees of freedom above 2",
    ),
    "all known": (lambda: one(known=ALL), "known must leave one of the four matrices"),
    "name": (lambda: one(known={"A": 1.0}), r"known must name some of.*got \['A'\]"),
    "matrix": (
        lambda: one(known={"observation": 1.0}),
        r"observation must be of shape \(1, 1\), got \(\)",
    ),
    "definite": (
        lambda: one(known={"state_noise": -np.eye(1)}),
        "state_noise must be positive definite",
    ),
    "a factor": (
        lambda: m.LinearGaussianStateSpace(2, 1, known={"state_noise": [[1.0, 0.0], [0.5, 1.0]]}),
        "state_noise must be symmetric",
    ),
    "initial": (lambda: one(initial=(0.0, 1.0)), r"initial must be a mean and a covariance"),
    "singular": (
        lambda: one(initial=(np.zeros(1), np.zeros((1, 1)))),
        "initial must be positive definite",
    ),
    "missing": (lambda: one().position(transition=np.eye(1)), "position must be made of"),
    "position": (
        lambda: one().logprior({"transition": jnp.eye(2)}),
        r"position of LinearGaussianStateSpace must have the shapes.*got",
    ),
    "series": (
        lambda: sample(
            KEY,
            sgld(Minibatch(one(known={"observation": np.eye(1)}), Window(2)), 0.1),
            {"transition": jnp.eye(1), "state_noise": jnp.zeros(1)}
            | {"observation_noise": jnp.zeros(1)},
            jnp.ones((5, 2)),
            num_steps=1,
        ),
        r"the series must be of shape \(T, 1\), observation_dim, got rows of shape \(2,\)",
    ),
    "dict": (
        lambda: one().log_likelihood({}, {"y": jnp.ones(5)}),
        "position of LinearGaussianStateSpace must have the shapes|the series must be one array",
    ),
}


@pytest.mark.parametrize("name", list(BAD))
def test_what_does_not_fit_is_refused(name):
    make, message = BAD[name]
    with pytest.raises((TypeError, ValueError), match=message):
        make()
