"""Take out of notebooks what is of one run alone: `python -m tests.strip_notebooks FILE ...`."""

import re
import sys

import nbformat

_PLACE = re.compile(r"\S*/ipykernel_\d+/\d+\.py:\d+: ")  # a cell's temporary file, before a warning


def strip(notebook):
    """Without times of execution, and without the names of temporary files."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", ()):
            if "text" in output:
                output.text = _PLACE.sub("", output.text)
    return notebook


if __name__ == "__main__":
    for path in sys.argv[1:]:
        nbformat.write(strip(nbformat.read(path, as_version=4)), path)
