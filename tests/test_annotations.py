"""The shapes and types that annotations promise hold wherever kernels are traced."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.full
def test_annotations_hold_in_every_kernel():
    args = [sys.executable, "-m", "tests.annotations"]
    done = subprocess.run(args, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("traced "), done.stdout
