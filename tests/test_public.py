"""Exports, the pages of the API and the registry of laws agree."""

import ast
import inspect
import re
import typing
from importlib import import_module
from pathlib import Path

import pytest

from sgmc_jax import Estimator, Kernel
from tests.laws import registry

ROOT = Path(__file__).resolve().parents[1]
API = (ROOT / "docs" / "api.md").read_text()
LISTED = ["sgmc_jax", "sgmc_jax.bnp", "sgmc_jax.models"]  # name by name
PAGES = LISTED + [
    f"sgmc_jax.{name}"
    for name in "kernels combinators families gradients spaces evaluation pictures".split()
]


def exports(module):
    """The names of `__all__`, but for those of modules."""
    found = import_module(module)
    return {name for name in found.__all__ if not inspect.ismodule(getattr(found, name))}


def documented():
    """The names on the pages, each as what it is imported from, and the modules shown whole."""
    module, names, whole = "sgmc_jax", set(), set()
    for line in API.splitlines():
        if found := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = found[1]
        elif found := re.match(r"\.\. automodule:: (\S+)", line):
            whole.add(found[1])
        elif found := re.match(r"   (\w+)$", line):
            names.add(f"{module}.{found[1]}")
    return names, whole


def value(name):
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def namespaces():
    """The modules that say what they export: all packages that do, and modules shown whole."""
    for path in sorted((ROOT / "sgmc_jax").rglob("*.py")):
        if "__all__ = [" in path.read_text():
            yield ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_all_names_are_there_once():
    found = list(namespaces())
    assert {*PAGES, *documented()[1]} <= {*found}
    for module in found:
        names = import_module(module).__all__
        assert len(set(names)) == len(names) and names == sorted(names, key=kind_and_name)
        star = {}
        exec(f"from {module} import *", star)
        assert {*star} - {"__builtins__"} == {*names}


def kind_and_name(name):
    """CONSTANTS, then Classes, then functions."""
    return 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2, name


def test_no_import_is_an_export_by_another_name():
    for path in (ROOT / "sgmc_jax").rglob("__init__.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert not [alias.name for alias in node.names if alias.asname], path


def test_every_export_has_a_page():
    names, whole = documented()
    known = {id(value(name)) for name in names}
    known |= {id(getattr(import_module(m), name)) for m in whole for name in exports(m)}
    for module in namespaces():
        for name in exports(module):
            assert id(value(f"{module}.{name}")) in known, f"{module}.{name} is on no page"
    for module, members in re.findall(r"automodule:: (\S+)\n   :members: (.+)", API):
        assert {*members.split(", ")} == exports(module), f"the page of {module} shows others"


# Of a file that is as long as it may be: what a step of the other returns.
SHOWN_BY = {"SplitMergeState": "split_merge", "SplitMergeInfo": "split_merge"}


def has_example(made):
    return re.search(r"^ *Example:.*\n *>>> ", made.__doc__ or "", re.MULTILINE)


def test_every_export_has_an_example():
    for module in namespaces():
        found = import_module(module)
        without = {name for name in exports(module) if not has_example(getattr(found, name))}
        assert without <= {*SHOWN_BY}, (
            f"{module} exports {without - {*SHOWN_BY}} without an example"
        )
        assert all(has_example(getattr(found, SHOWN_BY[name])) for name in without)


def test_every_page_has_an_export():
    names, whole = documented()
    for name in names:
        module = name.rpartition(".")[0]
        assert name.split(".")[-1] in exports(module), f"{name} is on a page, but not exported"
        assert value(name).__doc__
    modules = ("transitions", "special", "directional", "random", "arrays", "diagnostics")
    modules += ("bijectors",)
    assert {f"sgmc_jax.{name}" for name in modules} == whole


def kernels():
    """The public functions that return a kernel."""
    for module in LISTED:
        for name in sorted(exports(module)):
            made = getattr(import_module(module), name)
            if inspect.isfunction(made):
                kind = typing.get_type_hints(made).get("return")
                if inspect.isclass(kind) and issubclass(kind, Kernel):
                    yield name


def estimators():
    """The public estimators that are no protocols."""
    for name in sorted(exports("sgmc_jax")):
        kind = getattr(import_module("sgmc_jax"), name)
        if inspect.isclass(kind) and issubclass(kind, Estimator) and not inspect.isabstract(kind):
            yield name


COMBINATORS = {"metropolis"}  # which `hmc` and `mala` are made of


@pytest.mark.parametrize("name", sorted({*kernels(), *estimators()} - COMBINATORS))
def test_every_kernel_and_estimator_has_a_row(name):
    tree = ast.parse(Path(registry.__file__).read_text())
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    used |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert name in used, f"{name} stands in no row of the registry"
