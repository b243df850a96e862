"""A module imports only from lower layers, and never from a sibling package."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import sgmc_jax

ROOT = Path(sgmc_jax.__file__).parent
LAYERS = [
    {
        "_compiler",
        "_estimators",
        "_frames",
        "_functions",
        "_types",
        "_version",
        "_checks",
        "_returned",
        "_structure",
        "_table",
        "_tree",
        "collective",
        "contract",
        "random",
        "arrays",
        "bijectors",
        "bessel",
        "count_densities",
        "directional",
        "special",
    },
    {
        "batching",
        "convex_sets",
        "mirrors",
        "model",
        "linear_model",
        "combinators",
        "spaces",
        "transitions",
        "schedules",
        "transformed",
    },
    {"splitting", "trajectory"},
    {"gradients", "families", "processes"},
    {"kernels", "bnp", "models"},
    {"checkpoint", "engines", "diagnostics", "evaluation"},
    {"advice", "inference_data", "named", "run", "summary", "runner"},
    {"sample", "tune"},
    {"pictures"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
# transitions act on spaces: the one edge inside a layer
ALLOWED = {("transitions", "spaces")}


def imports(path):
    """The top-level parts of sgmc_jax that a file imports."""
    depth = len(path.relative_to(ROOT).parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            if node.level == depth:
                yield from (
                    [node.module.split(".")[0]] if node.module else [a.name for a in node.names]
                )


def imported(path):
    """What a file imports from the library, by the parts of its name; for type checking too."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            target = (*base, *(node.module.split(".") if node.module else ()))
            yield from [target, *((*target, alias.name) for alias in node.names)]


def private_imports(path):
    """Modules whose name begins with an underscore, of packages that the file is not inside."""
    package = path.relative_to(ROOT).parent.parts
    for name in imported(path):
        for depth, part in enumerate(name):
            if part.startswith("_") and name[:depth] != package[:depth]:
                yield ".".join(name)


def test_no_package_reaches_into_anothers_private_modules():
    for path in ROOT.rglob("*.py"):
        found = sorted(set(private_imports(path)))
        assert not found, f"{path.relative_to(ROOT)} imports {found}"


def test_imports_go_down():
    for path in ROOT.rglob("*.py"):
        part = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if part == "__init__":
            continue
        assert part in LEVEL, f"{part} has no layer"
        for target in imports(path):
            below = LEVEL[target] < LEVEL[part]
            single_files = LEVEL[target] == LEVEL[part] and not (ROOT / target).is_dir()
            fine = target == part or below or single_files or (part, target) in ALLOWED
            assert fine, f"{path.relative_to(ROOT)} imports {target}"


def lines_of_code(node):
    """The lines of a function or a class but for its own docstring."""
    documented = ast.get_docstring(node) is not None
    first = node.body[0]
    return node.end_lineno - node.lineno + 1 - documented * (first.end_lineno - first.lineno + 1)


def test_nothing_is_long():
    """Functions of at most 60 lines, classes of 200, their docstrings apart; files of 350."""
    limits = {ast.FunctionDef: 60, ast.ClassDef: 200}
    for path in ROOT.rglob("*.py"):
        text = path.read_text()
        assert text.count("\n") <= 350, f"{path.relative_to(ROOT)} has {text.count(chr(10))} lines"
        for node in ast.walk(ast.parse(text)):
            most = limits.get(type(node))
            assert most is None or lines_of_code(node) <= most, (
                f"{path.relative_to(ROOT)}: {node.name}"
            )


def modules(path):
    """The files of the library that a file imports."""
    for name in imported(path):
        file = ROOT.joinpath(*name).with_suffix(".py") if name else ROOT
        if file.is_file() and file != path:
            yield file


def test_no_imports_in_a_circle():
    graph = {path: set(modules(path)) for path in ROOT.rglob("*.py")}
    list(TopologicalSorter(graph).static_order())


def test_no_import_of_the_library_is_absolute():
    """The laws above look at relative ones."""
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            assert not any(name.split(".")[0] == "sgmc_jax" for name in names), path
