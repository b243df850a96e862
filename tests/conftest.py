"""The environment, set before jax is imported, and the fixtures every test may use."""

import gc
import os

from jaxlib.version import __version_info__ as _jaxlib

# Forced host devices deadlock in collectives when the thread pool is smaller than they are many; in
# one that is larger than the machine some loops of small operations take ten times as long.
_devices = os.environ.get("SGMC_JAX_TEST_DEVICES", "8")
# On two cores jaxlib 0.10 waits for ever where two solves of many small systems meet.
os.environ["NPROC"] = "4" if _devices == "1" else "64"
# Of what files compile as they are read, and of the processes that tests start; "false" has all
# programs optimised, as a user's are.
_disable = os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "true") == "true"
# Most tests compile for longer than they run: the older emitter of loops needs half the time, and
# one thread of code generation suits a process for each core, and what XLA looks for in loops is a
# tenth of the compiling and saves nothing in the tests that are optimised.
_FLAGS = {
    "xla_force_host_platform_device_count": _devices,
    "xla_cpu_parallel_codegen_split_count": "1",
    "xla_disable_hlo_passes": "simplify-while-loops,while-loop-invariant-code-motion,"
    "while-loop-constant-sinking",
}
if _jaxlib < (0, 11):  # later ones have the newer emitter alone, and end at a flag unknown to them
    _FLAGS["xla_cpu_use_fusion_emitters"] = "false"
if _disable:  # those that are optimised nevertheless lose a twentieth so, and compile in two thirds
    _FLAGS["xla_backend_optimization_level"] = "1"
_given = os.environ.get("XLA_FLAGS", "")
_missing = [f"--{name}={value}" for name, value in _FLAGS.items() if name not in _given]
os.environ["XLA_FLAGS"] = " ".join([_given, *_missing]).strip()
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Each of several processes has a core of its own: where the threads of one look for work on two,
# many small solves take up to ten times as long.
_worker = os.environ.get("PYTEST_XDIST_WORKER", "")
if _worker and os.environ["JAX_PLATFORMS"] == "cpu" and hasattr(os, "sched_setaffinity"):
    _cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {_cores[int(_worker.removeprefix("gw")) % len(_cores)]})
# Where each operation stands in its source takes a tenth of the time to say.
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")
# A compilation cache only where one is asked for: jax 0.10 has ended processes as it wrote to it.
_cache = os.environ.get("SGMC_JAX_TEST_CACHE", "")
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "true" if _cache else "false"
if _cache:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = _cache

import jax  # noqa: E402
import pytest  # noqa: E402

from sgmc_jax.runner.programs import programs  # noqa: E402
from tests import memory  # noqa: E402
from tests.full_tier import COLLECTED, SLOW_EXAMPLES, SLOW_TESTS  # noqa: E402
from tests.laws import moments  # noqa: E402
from tests.long_tier import waiting  # noqa: E402

collect_ignore = ["soak.py", "strip_notebooks.py"]  # programs of their own
if _devices == "1":  # those that make engines of several as they are read
    collect_ignore += [
        "engines",
        "bnp/test_starts.py",
        "test_chains_at_once.py",
        "test_compiler.py",
    ]

_ROOM = max(3_000.0, memory.installed() / 5)  # MiB of programs, of each of two processes
_most = _ROOM

if hasattr(jax, "enable_x64"):  # jax >= 0.8
    _enable_x64 = jax.enable_x64
else:
    from jax.experimental import enable_x64 as _enable_x64


def pytest_collection_modifyitems(config, items):
    """What others of the fast tier test waits for the full tier; what others of that do, longer."""
    config.stash[COLLECTED] = {item.nodeid.removeprefix("tests/") for item in items}
    for item in items:
        file, _, name = item.nodeid.removeprefix("tests/").partition("::")
        if isinstance(item, pytest.DoctestItem):
            slow = item.name.endswith(tuple(f".{name}" for name in SLOW_EXAMPLES))
        else:
            slow = not SLOW_TESTS.get(file, set()).isdisjoint({name, name.split("[")[0]})
        if slow:
            item.add_marker(pytest.mark.full)
    for item in waiting(items):
        item.add_marker(pytest.mark.long)


def pytest_collection_finish(session):
    """What is loaded by now stays: the garbage collector, a tenth of the time, may pass it by."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="run every law at its full length")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Programs are optimised only in tests that run for longer than that takes."""
    full = item.config.getoption("--long") or {"full", "at_length"} <= set(item.keywords)
    moments.choose_length(full)
    optimise = "optimised" in item.keywords or (full and "runs_long" in item.keywords)
    jax.config.update("jax_disable_most_optimizations", _disable and not optimise)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item):
    """Programs of earlier tests are let go where they fill the memory: some take megabytes."""
    global _most
    if memory.resident() > _most:
        programs.cache_clear()
        jax.clear_caches()
        _most = memory.held() + _ROOM


@pytest.fixture
def x64():
    """Run the test in float64."""
    with _enable_x64(True):
        yield


@pytest.fixture(autouse=True)
def no_program_outlives_its_fault(request):
    """A planted fault must not meet a program compiled without it, nor leave one behind."""
    planted = "monkeypatch" in request.fixturenames
    if planted:
        programs.cache_clear()
    yield
    if planted:
        programs.cache_clear()
