"""The agent of a host: it starts the host's processes, watches them and reports their end.

JAX aborts a process whose peers have died, in a thread that no Python code can see; therefore each
process is a worker, and what there is to say is said by its agent.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from argparse import Namespace
from typing import Any

import numpy as np

_MODULE = ["-m", "experiments.many_hosts"]
_ARGUMENTS = ("checkpoint", "devices", "steps", "chunk", "items", "seed", "out")
GRACE = 10  # seconds between the end of the patience and the end of the process


def watch(options: Namespace) -> int:
    """Start this host's processes and wait for them; 1 if one ends badly."""
    if options.coordinator is None:
        options.coordinator = f"localhost:{free_port()}"
    ranks = range(options.of) if options.process is None else [options.process]
    workers = {rank: _start(options, rank) for rank in ranks}
    try:
        failed = wait(workers, options.patience + GRACE)
    except KeyboardInterrupt:
        print(f"interrupted; {saved(options)}", file=sys.stderr)
        return 1
    finally:
        for worker in workers.values():
            worker.kill()
    for rank, code in failed.items():
        print(f"process {rank} of {options.of} {cause(code, options)}", file=sys.stderr)
    if failed:
        print(f"{saved(options)}\nto go on here alone: {resume_command(options)}", file=sys.stderr)
    return int(bool(failed))


def work(options: Namespace) -> int:
    """One process of the run; it dies with its agent, and at once."""
    threading.Thread(target=_die_with_agent, daemon=True).start()
    try:
        from . import mixture

        return mixture.work(options)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # an orderly exit would wait for the processes that have died


def cause(code: int, options: Namespace) -> str:
    """Why a process has ended."""
    if code == -signal.SIGABRT:
        return (
            "was stopped by JAX: another process has died, or was silent for "
            f"{options.patience} seconds"
        )
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return "has failed, or its connection to a process that has died: see its error above"


def saved(options: Namespace) -> str:
    """What the checkpoint holds."""
    path, done = options.checkpoint / "state.npz", 0
    if path.exists():
        with np.load(path) as state:
            done = json.loads(str(state["meta"]))["num_steps"]
    return f"{done} of {options.steps} steps are saved in {options.checkpoint}"


def resume_command(options: Namespace) -> str:
    """What goes on from the checkpoint in one process."""
    return shlex.join(["python", *_MODULE, *_flags(options, _ARGUMENTS)])


def _flags(options: Namespace, names: tuple[str, ...]) -> list[str]:
    given = {name: getattr(options, name) for name in names}
    return [
        x for name, value in given.items() if value is not None for x in (f"--{name}", f"{value}")
    ]


def _start(options: Namespace, rank: int) -> subprocess.Popen:
    env: dict[str, Any] = dict(os.environ)
    if options.devices is not None:
        count = f"--xla_force_host_platform_device_count={options.devices}"
        env["XLA_FLAGS"] = f"{env.get('XLA_FLAGS', '')} {count}".strip()
        env |= {"JAX_PLATFORMS": "cpu", "NPROC": "64"}  # fewer threads than devices deadlock
    flags = _flags(options, (*_ARGUMENTS, "of", "coordinator", "patience"))
    command = [sys.executable, *_MODULE, *flags, "--worker", str(rank)]
    # a session of its own: the terminal's Ctrl-C ends the agent, and the agent its processes
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, env=env, start_new_session=True)
    print(f"process {rank} of {options.of}: pid {worker.pid}", file=sys.stderr, flush=True)
    return worker


def wait(workers: dict[int, subprocess.Popen], limit: float) -> dict[int, int]:
    """The exit codes of those that end badly; once one has, the others have so many seconds."""
    failed: dict[int, int] = {}
    deadline = float("inf")
    while any(worker.poll() is None for worker in workers.values()):
        time.sleep(0.1)
        for rank, worker in workers.items():
            if worker.poll() and rank not in failed:
                failed[rank] = worker.returncode
                deadline = min(deadline, time.monotonic() + limit)
        if time.monotonic() > deadline:
            break
    return failed | {rank: worker.returncode for rank, worker in workers.items() if worker.poll()}


def _die_with_agent() -> None:
    os.read(0, 1)  # the agent writes nothing: this returns when it has ended
    os._exit(1)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return free.getsockname()[1]
