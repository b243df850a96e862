"""The parts that the guide shows how to write: their length, and the laws of their chains.

Each law is seen to fail on a fault planted in the text of the page.
"""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln, iv

from sgmc_jax import Full, Minibatch, Splitting, bnp, hmc, sgld
from sgmc_jax.transitions import GeodesicFlow, GradientKick
from tests.enumeration.partitions import check_partitions, exact
from tests.guide import pages
from tests.laws import test_structure as structure
from tests.laws.moments import check_law, fault_is_seen, run_law
from tests.laws.registry import Case

pytestmark = pytest.mark.runs_long

PAGE, KEY, CHAINS = "guide/own_parts.md", jax.random.key(7), 1024
HEADINGS = {
    "RandomWalk": "A kernel",
    "Collision": "A letter",
    "Torus": "A space",
    "Augmented": "An estimator",
    "Exponential": "A family of items",
}


def own(name, *fault):
    """The page, and with a fault its class of this name made anew, a part of its text replaced."""
    page = pages.run_once(PAGE)
    if not fault:
        return page
    old, new = fault
    text = pages.block(PAGE, HEADINGS[name])
    assert text.count(old) == 1, f"the page has no {old!r} to plant a fault in"
    namespace = types.SimpleNamespace(**vars(page))
    exec(text.replace(old, new), vars(namespace))
    return namespace


@pytest.mark.parametrize("name", HEADINGS)
def test_a_part_has_at_most_fifteen_lines(name):
    text = pages.block(PAGE, HEADINGS[name])
    assert f"class {name}(" in text
    assert pages.lines_of_code(text) <= 15


def test_lines_are_counted():
    assert (
        pages.lines_of_code('import a\n\n\ndef f():\n    """No."""\n    # no\n    g(\n    1)\n')
        == 3
    )


def standardised(kernel, data, mean, precision, **kwargs):
    """Means over chains of the first two moments of a position that should be standard normal."""

    def moments(state, info):
        z = jnp.sqrt(precision) * (state.position - mean)
        return jnp.stack([z, z**2])

    args = {"num_chains": CHAINS, "num_steps": 700, "burn_in": 100, "reduce": moments} | kwargs
    run = run_law(KEY, kernel, jnp.asarray(mean, jnp.float32), data, **args)
    check_law(run.trace.mean, np.array([[0.0], [1.0]]) + 0 * mean, 0.05)


def check_kernel(page):
    mean = np.asarray(page.data.sum(0) / 51)
    standardised(page.RandomWalk(page.model, 0.25), page.data, mean, 51.0)


def check_letter(page):
    pieces = {"A": GeodesicFlow(), "B": GradientKick(), "V": page.Collision(3.0)}
    mean = np.asarray(page.data.sum(0) / 51)
    for h in (0.1, 0.2):  # on a Gaussian the position has no bias, whatever the step size
        kernel = Splitting("ABVBA", pieces, Minibatch(page.model, Full()), h)
        standardised(kernel, page.data, mean, 51.0)


def check_space(page):
    kernel = hmc(Minibatch(page.angles, Full()), 0.5, 4, space=page.Torus())

    def moments(state, info):
        first, second = state.position
        angles = jnp.stack([first - 1.0, second - first])
        return jnp.stack([jnp.cos(angles), jnp.sin(angles)])

    args = {"num_chains": CHAINS, "num_steps": 700, "burn_in": 100, "reduce": moments}
    run = run_law(KEY, kernel, jnp.ones(2), None, **args)
    cosines = iv(1, [2.0, 1.0]) / iv(0, [2.0, 1.0])
    check_law(run.trace.mean, [cosines, [0.0, 0.0]], 0.03)


def check_estimator(page):
    mean = np.asarray(page.data.sum(0) / 52)
    for h in (0.01, 0.03):
        variance = (2 + 25 * h) / (26 * (2 - 26 * h))
        kernel = sgld(page.Augmented(page.hidden, page.pairs), h)
        standardised(kernel, page.data, mean, 1 / variance)


def check_family(page):
    a, b, x = 1.5, 0.7, np.array([0.2, 0.3, 2.0, 5.0])

    def marginal(x):
        shape, rate = a + len(x), b + x.sum()
        return a * np.log(b) - gammaln(a) + gammaln(shape) - shape * np.log(rate)

    process = bnp.DirichletProcess(1.2)
    kernel = bnp.hybrid_mixture(process, page.Exponential(page.Sums(a, b)), blocks=2, capacity=8)
    args = {"tolerance": 0.04, "num_steps": 700}
    check_partitions(kernel, exact(process, marginal, x), jnp.asarray(x, jnp.float32), **args)


LAWS = {
    "RandomWalk": (check_kernel, ("state.position + change", "0.99 * state.position + change")),
    "Collision": (check_letter, ("what, phase.position)", "what, 1.05 * phase.position) * 1.05")),
    "Torus": (check_space, ("jax.random.normal(", "1.05 * jax.random.normal(")),
    "Augmented": (check_estimator, ("(data, hidden)", "(data, 1.1 * hidden)")),
    "Exponential": (check_family, ("gammaln(a) - a *", "gammaln(a + 1) - a *")),
}


@pytest.mark.parametrize("name", LAWS)
def test_a_part_has_its_law(name):
    check, _ = LAWS[name]
    check(own(name))


@pytest.mark.parametrize(
    "name",
    [name if name == "Torus" else pytest.param(name, marks=pytest.mark.full) for name in LAWS],
)
@pytest.mark.at_length
def test_a_fault_in_a_part_is_seen(name):
    check, fault = LAWS[name]
    fault_is_seen(check, own(name, *fault))


def cases():
    """The chains of the parts as rows of the registry."""
    page, start = pages.run_once(PAGE), np.zeros(2, np.float32)
    data, quiet = np.asarray(page.data), {"breakable": False, "noisy_batches": False}
    grad = Minibatch(page.model, Full())
    pieces = {"A": GeodesicFlow(), "B": GradientKick(), "V": page.Collision(3.0)}
    angles = Minibatch(page.angles, Full())
    mixture = bnp.hybrid_mixture(
        bnp.DirichletProcess(1.0), page.Exponential(page.Sums(1.0, 1.0)), blocks=2, capacity=8
    )
    times = np.array([0.2, 0.3, 2.0, 5.0, 4.0], np.float32)
    make = lambda h: Splitting("ABVBA", pieces, grad, h)
    return {
        "RandomWalk": Case(
            "kernel", lambda h: page.RandomWalk(page.model, h), start, data, 0.2, **quiet
        ),
        "Collision": Case("letter", make, start, data, 0.1, **quiet),
        "Torus": Case(
            "space", lambda h: hmc(angles, h, 3, space=page.Torus()), start, None, 0.3, **quiet
        ),
        "Augmented": Case(
            "estimator",
            lambda h: sgld(page.Augmented(page.hidden, page.pairs), h),
            start,
            data,
            breakable=False,
        ),
        "Exponential": Case("family", lambda h: mixture, None, times, sized=False, **quiet),
    }


@pytest.mark.parametrize("name", HEADINGS)
def test_a_step_returns_what_init_returns(name):
    structure.check_what_a_step_returns(cases()[name], "float32")


@pytest.mark.parametrize("name", HEADINGS)
def test_a_step_returns_what_init_returns_in_double_precision(name, x64):
    structure.check_what_a_step_returns(cases()[name], "float64")


@pytest.mark.parametrize("name", HEADINGS)
@pytest.mark.parametrize("wrap", structure.WRAPS)
def test_a_part_composes(name, wrap):
    structure.test_every_kernel_composes(cases()[name], wrap)


# that law looks at keys one by one, and sees none that are drawn under `vmap`
@pytest.mark.parametrize("name", ["RandomWalk", "Collision", "Torus"])
def test_a_step_uses_every_key_once(name, monkeypatch):
    structure.test_a_step_uses_every_key_once(cases()[name], monkeypatch)


@pytest.mark.parametrize("name", ["RandomWalk", "Collision"])
def test_runs_are_pieced_together(name, tmp_path):
    structure.test_runs_are_pieced_together_bit_for_bit(cases()[name], tmp_path)


@pytest.mark.parametrize("name", ["RandomWalk", "Collision", "Torus", "Augmented"])
def test_step_sizes_share_one_program(name):
    structure.test_step_sizes_share_one_program(cases()[name])
