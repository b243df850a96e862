"""Take the times of execution out of notebooks: `python -m tests.untimed notebooks/*.ipynb`."""

import sys

import nbformat


def untimed(path):
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for path in sys.argv[1:]:
        untimed(path)
