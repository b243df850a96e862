"""What a part costs, by the table of CONTRIBUTING.md and by the sources."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "sgmc_jax"
ROWS = re.findall(
    r"^\| (\w+) `(\w+)` \| `([^`]+)` \| ([^|]+) \| `([^`]+)`([^|]*) \| ([^|]+) \|$",
    (ROOT / "CONTRIBUTING.md").read_text(),
    re.MULTILINE,
)
KINDS = {"kernel", "letter", "space", "estimator", "family"}
# the kernels that spell the letter, and the model whose topics are on the sphere
USERS = {
    "EulerLangevin": {
        f"kernels/{name}.py" for name in ("projected_sgld", "reflected_sgld", "sgld")
    },
    "Sphere": {f"models/spherical/{name}.py" for name in ("blocks", "evaluation", "variational")},
}


def importers(name):
    """The files of the package that import a name."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
                found.add(str(path.relative_to(PACKAGE)))
    return found


def test_there_is_one_of_each():
    assert {row[0] for row in ROWS} == KINDS


@pytest.mark.parametrize("row", ROWS, ids=[row[1] for row in ROWS])
def test_a_part_costs_what_the_table_says(row):
    _, name, file, exported, listed, of, docs = row
    assert re.search(rf"^(class|def) {name}\b", (PACKAGE / file).read_text(), re.MULTILINE)
    folders = re.findall(r"`(\w+)`", exported)
    exports = {"__init__.py" if f == "sgmc_jax" else f"{f}/__init__.py" for f in folders}
    assert importers(name) == exports | USERS.get(name, set())
    kernel = re.search(r"`(\w+)`", of)
    used = kernel[1] if kernel else name
    assert re.search(rf"\b{used}\b", (ROOT / "tests" / listed).read_text())
    lines = re.findall(rf"^   {name}$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    assert len(lines) == (1 if docs == "`api.md`" else 0)
