"""Docstrings as Sphinx is to read them."""

_LITERAL = ".. code-block:: text"


def show_formulas(lines: list[str]) -> list[str]:
    """Formulas, which docstrings indent, line by line as they stand: not as one paragraph.

    What comes after an empty line and is indented by more than the paragraph before, and is no
    example, is one. Before `napoleon`, which knows the sections.
    """
    shown: list[str] = []
    paragraph, last, inside = 0, "", False
    for line in lines:
        text = line.lstrip()
        indent = len(line) - len(text)
        if text and inside:
            inside = indent > paragraph
        elif text and shown and not shown[-1].strip() and indent > paragraph:
            inside = not text.startswith(">>>")
            if inside and not last.endswith("::"):
                shown += [" " * paragraph + _LITERAL, ""]
        if text and not inside:
            paragraph, last = indent, text
        shown.append(line)
    return shown


def escape_bars(lines: list[str]) -> list[str]:
    """|x| is an absolute value in docstrings, not a substitution. After `napoleon`."""
    escaped, literal = [], None
    for line in lines:
        text = line.lstrip()
        indent = len(line) - len(text)
        if text and literal is not None and indent <= literal:
            literal = None
        if literal is None and not text.startswith((">>>", "...")):
            line = line.replace("|", r"\|")
            literal = indent if text == _LITERAL or text.endswith("::") else None
        escaped.append(line)
    return escaped
