"""The shapes and types that annotations promise hold as the library runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest


def python(*args):
    root = Path(__file__).parents[1]
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, cwd=root)


@pytest.mark.full
def test_annotations_hold_in_every_kernel():
    done = python("-m", "tests.annotations")
    assert done.returncode == 0, done.stderr
    assert re.match(r"traced [1-9]\d+ kernels", done.stdout), done.stdout


@pytest.mark.full
def test_annotations_hold_in_every_example():
    done = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.checked", "sgmc_jax")
    assert done.returncode == 0, done.stdout[-4_000:]
