"""The spherical admixture's laws against quadrature: two topics on a circle, four documents."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from sgmc_jax import Full, LatentMinibatch, Sphere, Uniform, gmc, gsgnht, sample, sggmc
from sgmc_jax.models import SphericalAdmixture
from sgmc_jax.models.spherical import density, proportions
from sgmc_jax.models.spherical.density import GivenProportions
from sgmc_jax.runner.programs import programs
from tests.laws.moments import chain_means, check_law, check_mean, fewer, run_law

pytestmark = pytest.mark.runs_long

KEY = jax.random.key(14)
ALPHA, KAPPA, SIGMA, KAPPA0 = 1.5, 6.0, 2.0, 1.5
ANGLE = 0.6
SAM = SphericalAdmixture(2, 2, ALPHA, KAPPA, SIGMA, KAPPA0, np.array([0.8, 0.6]))
COUNTS = np.array([[3, 0], [5, 2], [1, 4], [2, 2]])
DOCUMENTS = SAM.documents(COUNTS, word_weights=np.ones(2))
VECTORS = COUNTS / np.linalg.norm(COUNTS, axis=1, keepdims=True)
START = jnp.array([[1.0, 0.0], [0.6, 0.8]])
NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)
SHARES = np.stack([(1 + NODES) / 2, (1 - NODES) / 2], 1)  # of the two topics
DIRICHLET = WEIGHTS * np.prod(SHARES ** (ALPHA - 1), axis=1)
DIRICHLET = DIRICHLET / DIRICHLET.sum()
SMALL = SAM.proportions(step_size=0.5, num_steps=3, burn_in=60)


def log_vmf_constant(order, x):
    """-log c, but for what does not depend on x."""
    return np.log(scipy.special.ive(order, x)) + x - order * np.log(x)


def log_marginal(topics, shares=SHARES, chances=DIRICHLET):
    """log p(topics, v) up to a constant, topics (..., 2, 2), by quadrature over the proportions."""
    mean = shares @ topics
    cosine = VECTORS @ np.swapaxes(mean / np.linalg.norm(mean, axis=-1, keepdims=True), -1, -2)
    documents = np.log(np.exp(KAPPA * cosine) @ chances).sum(-1)
    resultant = KAPPA0 * np.array([0.8, 0.6]) + SIGMA * topics.sum(-2)
    return documents + log_vmf_constant(0, np.linalg.norm(resultant, axis=-1))


def moments(topics):
    """Symmetric in the topics, as their labels may or may not be exchanged."""
    sums, inner = topics.sum(-2), (topics[..., 0, :] * topics[..., 1, :]).sum(-1)
    xp = jnp if isinstance(topics, jax.Array) else np
    return xp.concatenate([sums, inner[..., None], topics[..., 0, :] * topics[..., 1, :]], -1)


def exact_moments(log_density=log_marginal, num=120):
    angle = np.arange(num) * 2 * np.pi / num
    each = np.stack([np.cos(angle), np.sin(angle)], -1)
    rows = [np.stack([np.broadcast_to(row, each.shape), each], 1) for row in each]
    logs = np.stack([log_density(row) for row in rows])
    mass = np.exp(logs - logs.max())
    found = np.stack([moments(row) for row in rows])
    return np.einsum("ij,ijm->m", mass, found) / mass.sum()


EXACT = exact_moments()


def kernels():
    """Of small steps: one draw of the proportions is noise in the gradient of all documents too."""
    grad = partial(SAM.topics, proportions=SMALL)
    return {
        "sggmc": (sggmc(grad(Full()), Sphere(), 0.05, 2.0), 0.03),
        "sggmc, batches": (sggmc(grad(Uniform(2)), Sphere(), 0.02, 4.0), 0.04),
        "gsgnht, batches": (gsgnht(grad(Uniform(2)), Sphere(), 0.04, 2.0), 0.03),
        "from scratch": (sggmc(grad(Full(), fresh=True), Sphere(), 0.02, 4.0), 0.05),
    }


def check_chains(kernel, tolerance):
    """For no longer: the lag of the proportions' chains biases by half a percent at these steps."""
    run = run_law(KEY, kernel, START, DOCUMENTS, num_steps=1_500, num_chains=256, burn_in=200)
    check_law(chain_means(run.trace, moments), EXACT, tolerance)


@pytest.mark.full
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.optimised if name == "from scratch" else ())
        for name in kernels()
    ],
)
def test_the_topics_have_their_posterior(name):
    check_chains(*kernels()[name])


def check_blocks(sam=SAM, small=SMALL, tolerance=0.02):
    kernel = sam.block_gibbs(0.4, 4, proportions=small)
    start = {"topics": START, "proportions": jnp.full((4, 2), 0.5)}
    args = {"num_chains": 512, "num_steps": 3_000, "burn_in": 200}
    record = lambda state, info: moments(state.position["topics"])
    run = run_law(KEY, kernel, start, DOCUMENTS, record=record, **args)
    check_law(np.asarray(run.trace).mean(1), EXACT, tolerance)


@pytest.mark.full
def test_topics_and_proportions_in_turn_are_exact():
    check_blocks()


@pytest.mark.full
@pytest.mark.at_length
def test_the_approximate_marginal_has_the_law_of_its_draws():
    """Three draws of the prior: the law is exact for them, and not the posterior."""
    grad = SAM.marginal(jax.random.key(3), draws=3)
    shares = np.asarray(grad.model.theta)
    own = partial(log_marginal, shares=shares, chances=np.full(3, 1 / 3))
    run = run_law(
        KEY, gmc(grad, Sphere(), 0.4, 4), START, DOCUMENTS, num_steps=3_000, num_chains=512,
        burn_in=200,
    )  # fmt: skip
    found = chain_means(run.trace, moments)
    check_law(found, exact_moments(own), 0.02)
    with pytest.raises(AssertionError, match="off by"):
        check_law(found, EXACT, 0.02)


# ------------------------------------------------------------------------- the gradient's mean


def mean_gradients(batcher=Full(), draws=2_000):
    grad = SAM.topics(batcher, proportions=SMALL, fresh=True)
    point = START
    estimate = lambda key: grad.estimate(key, (), point, DOCUMENTS)[0].value
    values = jax.jit(jax.vmap(estimate))(jax.random.split(KEY, draws))
    return Sphere().project(jnp.broadcast_to(point, values.shape), values)


def exact_gradient():
    """Along the circles, by central differences of the quadrature."""
    point, step, slopes = np.asarray(START, np.float64), 1e-5, np.zeros((2, 2))
    for k in range(2):
        along = np.array([-point[k, 1], point[k, 0]])
        ends = []
        for sign in (1, -1):
            moved = point.copy()
            moved[k] = point[k] * np.cos(step) + sign * along * np.sin(step)
            ends.append(log_marginal(moved))
        slopes[k] = (ends[0] - ends[1]) / (2 * step) * along
    return slopes


@pytest.mark.parametrize("batcher", [Full(), Uniform(3)])
def test_the_gradient_is_that_of_the_marginal(batcher):
    check_mean(mean_gradients(batcher=batcher), exact_gradient(), 0.15)


class _Straight(GivenProportions):
    """A fault: what of a document is along its mean is not taken away."""

    def _part(self, position, vectors, theta, weight):
        good = super()._part(position, vectors, theta, weight)
        documents = density.dense(vectors, position.shape[1], position.dtype)
        length = density.lengths(density.gram(position), theta)
        share = (self.prior_law.concentration * weight)[:, None, None] * theta / length[..., None]
        return good._replace(value=jnp.mean(share, axis=1).T @ documents)


def test_faults_of_the_gradient_are_seen(monkeypatch):
    grad = SAM.topics(Full(), proportions=SMALL, fresh=True)
    assert isinstance(grad, LatentMinibatch)
    straight = eqx.tree_at(lambda g: g.model, grad, _Straight(SAM.prior))
    monkeypatch.setattr(SphericalAdmixture, "topics", lambda *args, **kwargs: straight)
    with pytest.raises(AssertionError, match="off by"):
        check_law(mean_gradients(), exact_gradient(), 0.15)
    monkeypatch.undo()


@pytest.mark.full
@pytest.mark.at_length
def test_a_jacobian_that_is_left_out_is_seen(monkeypatch):
    """The Dirichlet density is with respect to Lebesgue's measure: no Jacobian of the simplex."""
    check_mean(mean_gradients(draws=100_000), exact_gradient(), 0.15)  # without it
    lebesgue = lambda theta, alpha: jnp.sum((alpha - 1) * jnp.log(theta))
    monkeypatch.setattr(proportions.Simplex, "log_dirichlet", staticmethod(lebesgue))
    with pytest.raises(AssertionError, match="off by"):
        check_law(mean_gradients(draws=100_000), exact_gradient(), 0.15)


@pytest.mark.full
@pytest.mark.at_length
def test_a_mean_that_is_not_integrated_out_is_seen(monkeypatch):
    """The sign of log c of the resultant."""
    right = density.Prior.logdensity
    monkeypatch.setattr(density.Prior, "logdensity", lambda self, topics: -right(self, topics))
    programs.cache_clear()
    with pytest.raises(AssertionError, match="off by"):
        check_blocks()
    programs.cache_clear()


# ------------------------------------------------------------- what is said of documents, and VI


def test_proportions_of_new_documents_are_their_posterior_means():
    topics = np.stack([np.asarray(START), [[0.0, 1.0], [0.8, 0.6]]])
    mean = SHARES @ topics[:, None]
    mean = mean / np.linalg.norm(mean, axis=-1, keepdims=True)
    chance = np.exp(KAPPA * np.sum(mean * VECTORS[:, None], -1)) * DIRICHLET  # (2, 4, nodes)
    wanted = np.mean(chance @ SHARES / chance.sum(-1, keepdims=True), 0)
    latent = SAM.proportions(step_size=0.5, num_steps=3, draws=fewer(400))
    keys = jax.random.split(KEY, 256)
    found = jax.vmap(lambda key: SAM.transform(key, topics, DOCUMENTS, proportions=latent))(keys)
    check_law(np.asarray(found), wanted, 0.02)


def test_perplexity_is_that_of_quadrature():
    topics = np.stack([np.asarray(START), [[0.0, 1.0], [0.8, 0.6]]])
    mean = SHARES @ topics
    mean = mean / np.linalg.norm(mean, axis=-1, keepdims=True)
    cosine = np.einsum("dv,mnv->mdn", VECTORS, mean)
    log_c = -np.log(2 * np.pi * scipy.special.iv(0, KAPPA))
    wanted = -np.mean(log_c + np.log(np.mean(np.exp(KAPPA * cosine) @ DIRICHLET, axis=0)))
    with_empty = SAM.documents(np.concatenate([COUNTS, [[0, 0]]]), word_weights=np.ones(2))
    for documents in (DOCUMENTS, with_empty):
        found = SAM.log_perplexity(KEY, jnp.asarray(topics), documents, draws=50_000)
        assert abs(found - wanted) < 2e-2


@pytest.mark.full
def test_variational_topics_are_a_fixed_point_near_the_posterior():
    """Many documents: the topics' law is narrow, and where Gibbs sampling has it."""
    rng = np.random.default_rng(0)
    truth = np.array([[1.0, 0.1, 0.1], [0.1, 0.2, 1.0]])
    truth = truth / np.linalg.norm(truth, axis=1, keepdims=True)
    mean = rng.dirichlet([1.0, 1.0], 400) @ truth
    draws = mean / np.linalg.norm(mean, axis=1, keepdims=True) + 0.05 * rng.normal(size=(400, 3))
    sam = SphericalAdmixture(2, 3, 1.0, 400.0, 1.0)
    documents = sam.documents(np.maximum(draws, 1e-3), word_weights=np.ones(3))
    start = sam.warm_start(KEY, documents)
    kernel = sam.variational(Full(), 0.3, ascent_steps=50)
    run = sample(KEY, kernel, start, documents, num_steps=300, record=lambda s, i: i.bound)
    fit = np.asarray(run.state.position)
    assert run.trace[-1] > run.trace[0]
    again, _ = kernel.step(KEY, run.state, documents)
    np.testing.assert_allclose(again.position, fit, atol=2e-4)
    begin = {"topics": run.state.position, "proportions": jnp.full((400, 2), 0.5)}
    blocks = sam.block_gibbs(0.004, 10)
    record = lambda state, info: state.position["topics"]
    gibbs = sample(KEY, blocks, begin, documents, num_steps=600, burn_in=100, record=record)
    draws, accepted = gibbs.trace, np.mean(gibbs.info.topics.acceptance)
    assert accepted > 0.5, accepted
    gap = np.arccos(np.clip(np.sum(fit * Sphere().nearest(np.mean(draws, 0)), -1), -1, 1))
    spread = np.sqrt(np.mean(np.sum((draws - draws.mean(0)) ** 2, -1), 0))
    assert np.all(gap < 3 * spread), (gap, spread)
