"""The recipes of the guide: none is longer than it says, and each comes to the right answer."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests.guide import pages

PAGE = "guide/recipes.md"
TASKS = [
    "logistic",
    "schools",
    "numpyro",
    "network",
    "flax",
    "mixture",
    "topics",
    "latent",
    "density",
]


def namespace(number):
    """What the block of one recipe leaves behind."""
    line, text = pages.blocks(PAGE)[number]
    if library := pages.missing(text):
        pytest.skip(f"{library} is not installed")
    made = {"__name__": f"recipe_{number}"}
    exec(compile("\n" * line + text, str(pages.DOCS / PAGE), "exec"), made)
    return made


@pytest.mark.parametrize("number", range(len(TASKS)), ids=TASKS)
def test_it_has_at_most_fifteen_lines(number):
    assert len(pages.blocks(PAGE)) == len(TASKS)
    assert pages.lines_of_code(pages.blocks(PAGE)[number][1]) <= 15


def logistic(made):
    assert made["run"].summary().remarks == ()
    x, y = made["held_out"]
    wrong = np.mean((made["probabilities"] > 0.5) != (y > 0.5))
    assert 0 < made["log_loss"] < 0.5 and wrong < 0.2


def schools(made):
    table = made["schools_run"].summary()
    assert max(table.columns["r_hat"]) < 1.02 and table.acceptance_rate > 0.6
    # of numpyro's NUTS, 100,000 draws, to .01
    assert abs(made["draws"]["scale"].mean() - 3.62) < 0.35
    assert abs(made["draws"]["mean"].mean() - 4.40) < 0.35


def numpyro(made):
    draws = made["model"].constrain(made["run"].trace)
    x = np.asarray(made["x"], np.float64)
    exact = np.linalg.solve(x.T @ x, x.T @ np.asarray(made["y"], np.float64))
    sd = 0.5 / np.sqrt(len(x))
    assert np.max(np.abs(draws["w"].mean(0) - exact)) < 0.5 * sd
    assert abs(draws["noise"].mean() - 0.5) < 0.01 and made["new"].shape == (800, 3)


def network(made):
    truth = jnp.sin(3 * made["x"])
    assert jnp.sqrt(jnp.mean((made["mean"] - truth) ** 2)) < 0.15


def flax(made):
    network(made)


def mixture(made):
    assert np.abs(np.bincount(made["partition"]) - 200).max() < 10
    assert np.all(made["law"].membership[:, :3].max(1) > 0.95)


def topics(made):
    sea, kitchen = {"ship", "sea", "harbour", "waves"}, {"bread", "soup", "cook", "salts"}
    for words in made["words"]:
        assert not (sea & set(words) and kitchen & set(words))
    assert sea & set(made["words"][0]) or kitchen & set(made["words"][0])


def latent(made):
    y = np.asarray(made["y"], np.float64)
    grid = np.linspace(1.5, 2.5, 2_001)
    logs = -0.005 * grid**2 - 2 * np.log(3 + (y[:, None] - grid) ** 2).sum(0)
    law = np.exp(logs - logs.max())
    mean = np.average(grid, weights=law)
    sd = np.sqrt(np.average((grid - mean) ** 2, weights=law))
    trace = made["run"].trace
    assert abs(trace.mean() - mean) < 0.6 * sd and 0.8 < trace.std() / sd < 1.3


def density(made):
    data, trace = np.asarray(made["data"]), made["run"].trace
    sd = (1 + len(data)) ** -0.5
    assert abs(trace.mean() - data.sum() / (1 + len(data))) < 0.3 * sd
    assert 0.85 < trace.std() / sd < 1.25


CHECKS = [logistic, schools, numpyro, network, flax, mixture, topics, latent, density]


@pytest.mark.full
@pytest.mark.runs_long
@pytest.mark.parametrize("number", range(len(TASKS)), ids=TASKS)
def test_it_comes_to_the_right_answer(number):
    CHECKS[number](namespace(number))
