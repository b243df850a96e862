"""Every page of the guide runs from top to bottom."""

import re

import jax
import pytest

from tests.guide import pages

pytestmark = pytest.mark.runs_long

PAGES = pages.pages()
# their samplers run to an answer, or tests of their own run them (test_own_parts.py)
LONG = (
    "guide/first_posterior.md",
    "guide/choosing.md",
    "guide/recipes.md",
    "guide/pictures.md",
    "guide/clusters.md",
    "guide/long_runs.md",
    "guide/bad_runs.md",
    "guide/concepts.md",
    "guide/constraints.md",
    "guide/own_parts.md",
    "guide/regression_and_networks.md",
    "guide/dependent_data.md",
    "guide/tuning.md",
    "guide/random_measures.md",
    "guide/manifolds.md",
    "guide/simplices.md",
    "guide/spherical_topics.md",
)


@pytest.fixture(autouse=True)
def no_setting_is_left_behind():
    """A page may show a setting; the tests of this process keep theirs."""
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    yield
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.mark.parametrize(
    "page", [pytest.param(p, marks=pytest.mark.full) if p in LONG else p for p in PAGES]
)
def test_a_page_runs(page):
    pages.run_once(page)


def test_the_pages_are_found():
    assert {"composition.md", "guide/first_posterior.md"} <= set(PAGES)


def test_a_page_that_fails_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "DOCS", tmp_path)
    (tmp_path / "a.md").write_text(
        "# A\n\n```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n"
    )
    with pytest.raises(AssertionError) as raised:
        pages.run("a.md")
    assert raised.traceback[-1].lineno + 1 == 8  # the line of the page


def test_every_test_that_a_page_names_exists():
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", (pages.DOCS / "guide" / "papers.md").read_text())
    assert len(named) > 15
    for file, name in named:
        text = (pages.DOCS.parent / "tests" / file).read_text()
        assert re.search(rf"^def {name}\(", text, re.MULTILINE), f"{file} has no {name}"
