"""The pages of the guide as programs."""

import io
import re
import sys
import tokenize
import types
from functools import cache
from importlib.util import find_spec
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


_MAY_BE_MISSING = ("flax",)


def missing(text):
    """A library that a block imports and that may be missing, if it is."""
    imported = lambda name: re.search(rf"^(?:from|import) {name}\b", text, re.MULTILINE)
    absent = [name for name in _MAY_BE_MISSING if imported(name) and find_spec(name) is None]
    return absent[0] if absent else None


def pages():
    """All pages with a block of Python, by their path below `docs`."""
    paths = sorted(DOCS.rglob("*.md"))
    names = [str(path.relative_to(DOCS)) for path in paths if "generated" not in path.parts]
    return [name for name in names if blocks(name)]


def blocks(name):
    """The blocks of a page: their first line, and their text."""
    text = (DOCS / name).read_text()
    found = _BLOCK.finditer(text)
    return [(text[: match.start(1)].count("\n"), match[1]) for match in found]


def block(name, heading):
    """The first block below a heading."""
    text = (DOCS / name).read_text()
    place = re.search(rf"^#+ {re.escape(heading)}$", text, re.MULTILINE)
    assert place, f"{name} has no heading {heading!r}"
    return _BLOCK.search(text, place.end())[1]


def run(name):
    """The module that a page makes, its blocks run from the first to the last, if they can be."""
    module = types.ModuleType("guide_" + re.sub(r"\W", "_", name))
    sys.modules[module.__name__] = module  # where dataclasses look up annotations
    for line, text in blocks(name):
        if missing(text):
            continue
        code = compile("\n" * line + text, str(DOCS / name), "exec")
        exec(code, module.__dict__)
    return module


run_once = cache(run)


def lines_of_code(text):
    """The lines that hold code: no blank ones, comments, documentation or imports."""
    lines, before = set(), tokenize.NEWLINE
    empty = (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        documentation = token.type == tokenize.STRING and before == tokenize.NEWLINE
        imports = token.line.startswith(("import ", "from "))
        if token.type not in empty and not documentation and not imports:
            if token.type != tokenize.NEWLINE:
                lines.update(range(token.start[0], token.end[0] + 1))
        if token.type not in empty:
            before = tokenize.OP if documentation else token.type
    return len(lines)
