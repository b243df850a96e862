"""A process dies; the others stop, and say so; the run goes on with fewer devices."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from experiments.many_hosts import agent
from experiments.many_hosts.__main__ import parse

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "experiments.many_hosts", "--steps", "300", "--chunk", "10"]
PATIENCE = 10
SECONDS = 2 * PATIENCE + agent.GRACE  # to notice, then to end; killed after that


def alone(folder, devices, *more):
    """The trace of one process, from the folder's checkpoint if it has one."""
    command = [*COMMAND, "--checkpoint", str(folder), "--devices", str(devices), *more]
    out = folder.with_suffix(".npz")
    subprocess.run([*command, "--out", str(out)], cwd=ROOT, check=True, timeout=300)
    with np.load(out) as trace:
        return dict(trace)


class Pair:
    """Two processes of four devices, each under an agent of its own, as on two hosts."""

    def __init__(self, *folders, more=()):
        address = f"localhost:{agent.free_port()}"
        command = [*COMMAND, "--of", "2", "--devices", "4", "--coordinator", address]
        command += ["--patience", str(PATIENCE), *more]
        self.logs = [folder.with_suffix(f".log{rank}") for rank, folder in enumerate(folders)]
        self.agents = [
            subprocess.Popen(
                [*command, "--process", str(rank), "--checkpoint", str(folder)],
                cwd=ROOT,
                stderr=log.open("w"),
            )
            for rank, (folder, log) in enumerate(zip(folders, self.logs))
        ]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for host, log in zip(self.agents, self.logs):
            host.kill()
            host.wait()
            try:
                os.kill(pid_in(log.read_text()), signal.SIGKILL)
            except ProcessLookupError:
                pass

    def wait_for(self, path):
        limit = time.monotonic() + 300
        while not path.exists():
            assert time.monotonic() < limit and all(host.poll() is None for host in self.agents)
            time.sleep(0.02)

    def kill(self, rank, kind):
        os.kill(pid_in(self.logs[rank].read_text()), kind)

    def end(self, rank, timeout):
        """Its exit status and what it wrote."""
        code = self.agents[rank].wait(timeout)
        return code, self.logs[rank].read_text()


def pid_in(log):
    return int(log.split("pid ", 1)[1].split()[0])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return alone(tmp_path_factory.mktemp("many_hosts") / "alone", devices=1)


@pytest.mark.full
@pytest.mark.parametrize(
    "victim, kind, devices",
    [
        pytest.param(1, signal.SIGKILL, 4, id="killed"),
        pytest.param(0, signal.SIGKILL, 1, id="coordinator killed", marks=pytest.mark.long),
        pytest.param(1, signal.SIGSTOP, 4, id="silent", marks=pytest.mark.long),
    ],
)
def test_a_host_dies(victim, kind, devices, undisturbed, tmp_path):
    """The survivor ends in a set time with a message; one process then makes the same trace."""
    folder = tmp_path / "run"
    with Pair(folder, folder) as pair:
        pair.wait_for(folder / "draws-000003.npz")
        pair.kill(victim, kind)
        code, log = pair.end(1 - victim, SECONDS)
    assert code == 1
    assert f"process {1 - victim} of 2 has failed, or its conn" in log or "stopped by JAX" in log
    assert "of 300 steps are saved in" in log and "to go on here alone: python -m exp" in log
    before = {path: path.stat().st_mtime_ns for path in folder.glob("draws-*.npz")}
    assert 4 <= len(before) < 30
    resumed = alone(folder, devices)
    # the point of `state.npz` may be one chunk before the last file of draws
    after = [path.stat().st_mtime_ns == before[path] for path in sorted(before)]
    assert all(after[:-1])
    assert sorted(resumed) == sorted(undisturbed)
    assert all(np.array_equal(resumed[name], undisturbed[name]) for name in undisturbed)


@pytest.mark.full
@pytest.mark.long
def test_a_folder_that_is_not_shared(tmp_path):
    """Processes that would go on from different steps refuse to."""
    shared, own = tmp_path / "run", tmp_path / "own"
    with Pair(shared, shared) as pair:
        pair.wait_for(shared / "draws-000001.npz")
        pair.kill(1, signal.SIGKILL)
        pair.end(0, SECONDS)
    with Pair(shared, own) as pair:
        codes, logs = zip(*(pair.end(rank, 300) for rank in range(2)))
    assert codes == (1, 1)
    assert any("must be a folder that all processes share" in log for log in logs)


@pytest.mark.full
@pytest.mark.long
def test_blocks_that_do_not_divide_the_items(tmp_path):
    """No process holds the items that the last blocks are padded with."""
    more = ["--items", "404", "--steps", "100"]
    one, two = tmp_path / "one", tmp_path / "two"
    with Pair(two, two, more=[*more, "--devices", "2", "--out", f"{two}.npz"]) as pair:
        assert [pair.end(rank, 300)[0] for rank in range(2)] == [0, 0]
    expected = alone(one, 1, *more)
    with np.load(f"{two}.npz") as trace:
        assert all(np.array_equal(trace[name], expected[name]) for name in expected)


def options(tmp_path, *more):
    return parse(["--checkpoint", str(tmp_path), *more])


def test_what_the_agent_says(tmp_path):
    given = options(tmp_path, "--of", "2", "--patience", "7", "--steps", "50")
    assert "silent for 7 seconds" in agent.cause(-signal.SIGABRT, given)
    assert agent.cause(-signal.SIGKILL, given) == "was killed by SIGKILL"
    assert "see its error above" in agent.cause(1, given)
    assert agent.saved(given) == f"0 of 50 steps are saved in {tmp_path}"
    command = agent.resume_command(given)
    again = parse(command.split()[3:])
    assert (again.of, again.process, again.steps) == (1, None, 50)
    assert again.checkpoint == tmp_path


def workers(*codes):
    """Processes that end with these codes; with `None`, not within a minute."""
    scripts = ["import time; time.sleep(60)" if c is None else f"exit({c})" for c in codes]
    return {i: subprocess.Popen([sys.executable, "-c", s]) for i, s in enumerate(scripts)}


def test_the_agent_waits_for_as_long_as_it_is_told():
    assert agent.wait(workers(0, 0), 10) == {}
    hung = workers(3, None)
    began = time.monotonic()
    try:
        assert agent.wait(hung, 0.5) == {0: 3}
        assert time.monotonic() - began < 30 and hung[1].poll() is None
    finally:
        hung[1].kill()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--process", "2", "--of", "2", "--coordinator", "a:1"], "must be one of 0 ... 1, got 2"),
        (["--process", "0", "--of", "2"], "needs --coordinator"),
    ],
)
def test_bad_arguments(arguments, message, tmp_path, capsys):
    with pytest.raises(SystemExit):
        options(tmp_path, *arguments)
    assert message in capsys.readouterr().err
