"""The runner: a host loop over compiled chunks of steps."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal

import jax
import jax.core
import jax.numpy as jnp
from jaxtyping import PyTree

from . import _checks, _tree
from ._frames import without_frames
from ._functions import must_take
from ._types import Data, Kernel, Keys
from .checkpoint import Checkpoint
from .collective import Collective
from .combinators import require_kernel
from .contract import Contract
from .engines import Engine, num_rows
from .run import Run
from .runner.chains import Chains, one_kernel
from .runner.guard import guarded_step
from .runner.host import Host
from .runner.keys import must_be_index, root, roots_of, step_keys
from .runner.made_with import MadeWith
from .runner.plan import Plan, record_position
from .runner.processes import Processes
from .runner.programs import Layout
from .runner.start import Start, identity_of_run
from .runner.stream import Resident, Stream, as_arrays, check_stream, open_data


def scan_kernel(
    key: Any,
    kernel: Kernel,
    state: Any,
    data: Data,
    num_steps: int,
    record: Callable | None = None,
    *,
    first_step: Any = 0,
) -> tuple[Any, PyTree]:
    """The pure inner loop: `num_steps` steps of one chain, to be jitted or vmapped by its caller.

    Kernels with slots get no more of them here: see that no `info.overflow` is true, or the law is
    that of fewer clusters or features.

    Args:
        key: one key; the steps' keys are folded out of it by their index.
        kernel: any kernel.
        state: where to begin, from `kernel.init`.
        data: what the kernel's `step` takes.
        num_steps: how many steps, static.
        record: `(state, info) -> what to keep`; by default the position. `info.finite` tells
            whether the chain is still finite; one that is not stays at its last finite state.
        first_step: the index of the first step, by which schedules, epochs and warm starts go: of a
            state that has made steps already, their number. It may be traced. With one and the same
            key a loop that goes on so makes the steps of a longer one.

    Returns:
        the last state, and what was kept of each step, stacked.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Full, FunctionModel, Minibatch, sgld
        >>> kernel = sgld(Minibatch(FunctionModel(lambda x: -0.5 * x @ x), Full()), 0.1)
        >>> state = kernel.init(jax.random.key(0), jnp.zeros(2), None)
        >>> state, trace = scan_kernel(jax.random.key(1), kernel, state, None, 10)
        >>> trace.shape
        (10, 2)
    """
    require_kernel(kernel)
    _checks.random_key(key)
    _checks.whole("num_steps", num_steps, 0)
    must_be_index("first_step", first_step)
    data = without_frames("data", data)
    if record is not None:
        must_take(record, "record", ("state", "info"))
    _check_state(kernel, state, data)
    record = record_position if record is None else record
    roots, impl = roots_of(key)
    noise, batch = (root(raw, 0, impl) for raw in (roots.noise, roots.batch))
    keys = step_keys(noise, batch, first_step + jnp.arange(num_steps))

    def one(carry: tuple, keys: Keys) -> tuple:
        state, stopped = carry
        state, stopped, info = guarded_step(kernel, keys, state, stopped, data)
        return (state, stopped), record(state, info)

    start = (_tree.strong(state), jnp.full((), -1, jnp.int32))
    (state, _), trace = jax.lax.scan(one, start, keys)
    return state, trace


def sample(
    key: Any,
    kernel: Kernel,
    position: Any,
    data: Any,
    *,
    num_steps: int,
    num_chains: int | None = None,
    chains_at_once: int | None = None,
    burn_in: int = 0,
    thin: int = 1,
    record: Callable | None = None,
    reduce: bool | Callable | None = None,
    share_batch: bool = False,
    chunk: int | None = None,
    engine: Engine | None = None,
    kernel_axis: int | None = None,
    position_axis: int | None | Literal["unsaid"] = "unsaid",
    progress: bool | str = False,
    checkpoint: Any = None,
    on_error: Literal["flag", "raise"] = "flag",
) -> Run:
    """Run a kernel: many chains, on one device or many, kept, thinned, averaged and checkpointed.

    Random numbers are keyed by chain and step, so that neither the length of a chunk, nor the
    number of chains beside it, nor stopping and resuming changes a chain.

    Args:
        key: one key; the same key gives the same run (one of JAX's `rbg` for as many chains, one
            of `unsafe_rbg` in chunks of as many steps too).
        kernel: any kernel; with `kernel_axis=0` a stack of kernels, as `eqx.filter_vmap` makes one.
        position: one position for all chains; or, with `position_axis=0`, one for each; or a
            function `key -> position`, for dispersed starts; or `None`, for kernels that know where
            to begin (most of `bnp`); or a `Run`, to go on where it ended (`run.extend` joins the
            two); with other data, or of another target, it is taken at its positions alone (see
            `Kernel.made_with`; data are told apart by their values, functions by their code; an
            array that was written to in place is taken for the same). A module (of Equinox, say) is
            a position, and is never called.
        data: a pytree of arrays, or of frames and series of pandas, with one leading item axis, or
            `None`; or, for kernels whose batcher is `Given`, a function `i -> batch`, an iterator
            of batches, or what gives one for each pass, a function without arguments or a loader.
            Batches may be shorter than others, and all chains take the same: see `share_batch`.
        num_steps: the number of steps from `position` on, burn-in included; of a run found in
            `checkpoint`, which began there too, those that it has made count.
        num_chains: the number of chains; `None` for one without a chain axis, or, if `position` is
            a `Run`, for those of that.
        chains_at_once: how many chains to vectorise, group after group; by default all, which is
            best for small models, on a GPU, and with `share_batch`, whose batch each group makes
            anew. A chain or a batch of megabytes leaves a processor's cache beside others: 1 runs
            one after the other, as fast as each alone, and with the working memory of one.
        burn_in: the number of first steps not to keep.
        thin: keep every `thin`-th step; infos are merged over the steps between: real numbers are
            averaged, booleans are true if all are (`accepted`), `overflow` if one is, and of counts
            the last is kept.
        record: `(state, info) -> what to keep` of a kept step; by default the position.
        reduce: keep no draws but streaming moments, weighted by the step size, of the position
            (`True`) or of a function `(state, info) -> value`.
        share_batch: one minibatch for all chains, 3 to 5 times cheaper for many. The chains then
            share the noise of the gradient and are *not* independent: R-hat and pooled standard
            errors are too optimistic.
        chunk: the number of steps a compiled call; by default about a third of a second's worth.
        engine: `Pmap(8)`, `ShardMap(8)` or `Vmap(8)`; `None` for one device.
        kernel_axis: 0 for a stack of kernels, which are all run with the same keys; else `None`.
        position_axis: 0 if the leaves of `position` have a leading axis of length `num_chains`,
            `None` if they have not. Need not be said where their shapes tell that they have not.
        progress: show a bar, with a title if it is a string (needs tqdm).
        checkpoint: a folder; each chunk is saved there, and a run found there is resumed, if its
            key, kernel, start, data (of a stream the first batch) and settings are these; what
            differs is named.
        on_error: `"flag"` marks chains that turn non-finite in `info.finite` and freezes them at
            their last finite state; `"raise"` raises.

    Returns:
        a `Run`: `trace`, `info`, `state`, with the leading axes (kernel, chain, draw), those
        present. An interrupt (Ctrl-C) returns what was drawn.

    Raises:
        ValueError, TypeError: on bad input, naming the argument.
        FloatingPointError: with `on_error="raise"`, naming the chain and the step.
        Exception: of what reads a stream. An exception after the first steps has what was drawn
            before it as its attribute `run`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import FunctionModel, Minibatch, Uniform, sgld
        >>> model = FunctionModel(lambda x: -0.5 * x**2, lambda x, y: -0.5 * (y - x) ** 2)
        >>> kernel = sgld(Minibatch(model, Uniform(10)), step_size=1e-3)
        >>> run = sample(
        ...     jax.random.key(0),
        ...     kernel,
        ...     jnp.zeros(()),
        ...     jnp.arange(100.0),
        ...     num_steps=50,
        ...     num_chains=4,
        ...     burn_in=10,
        ...     thin=2,
        ... )
        >>> run.trace.shape, bool(run.info.finite.all())
        ((4, 20), True)
    """
    _check_arguments(locals())
    roots, impl = roots_of(key)
    start = Start(position, position_axis, num_chains, roots.init, impl)
    processes, one = Processes(engine), one_kernel(kernel, kernel_axis)
    source = processes.together(partial(open_data, data, start.num_steps, num_steps))
    if position is None and isinstance(source, Resident):
        start = Start(one.starter(source.first), position_axis, num_chains, roots.init, impl)
    contract = one.contract(start.one)
    check_stream(source, contract, kernel, num_steps, share_batch or (start.num_chains or 1) == 1)
    over, size = _placed(engine, contract, source)
    plan = Plan(
        record=record_position if record is None else record,
        reduce=_reducer(reduce),
        thin=int(thin),
        slots=0,
        block=0,
        whole_blocks=jax.default_backend() != "cpu" and contract.capacity is None,
        impl=impl,
        share_batch=share_batch,
        streamed=isinstance(source, Stream),
        num_items=source.num_items,
        num_rows=None if size is None else num_rows(contract.blocks, source.num_items, size),
        has_slots=contract.capacity is not None,
        comm=Collective() if size is None else engine.comm,  # type: ignore[union-attr]
    )
    number, prints = start.num_chains, {}
    layout = Layout(engine, over, number, kernel_axis == 0, plan.has_slots, chains_at_once)
    if checkpoint is not None or processes.several:
        settings = plan.settings | {"num_chains": str(number), "burn_in": str(burn_in)}
        prints = identity_of_run(roots, kernel, (record, reduce), start, source, settings)
        processes.require_same(prints, int(num_steps), chunk, on_error, not checkpoint, layout.form)
    made_with = MadeWith(kernel.made_with(), None if plan.streamed else as_arrays(data))
    chains = Chains(kernel, plan, layout, source.first, roots, contract.capacity)
    chains.start(start, source.first, made_with)
    host = Host(chains, source, processes, start.num_steps, num_steps, burn_in, made_with)
    if checkpoint is not None:
        host.resume(Checkpoint(checkpoint, prints))
    return host.run(chunk, progress, on_error)


def _placed(
    engine: Engine | None, contract: Contract, source: Resident | Stream
) -> tuple[Literal["data", "chains"] | None, int | None]:
    """What the engine shards, and on how many shards data are; if on none, put on a device."""
    if engine is None:
        source.on_device()
        return None, None
    over = engine.over or ("data" if contract.shards else "chains")
    if over == "data" and not contract.shards:
        raise ValueError(
            "engine over='data' needs a kernel that sums over shards: wrap its estimator in "
            "AllReduce"
        )
    if over == "data":
        return over, engine.size
    source.on_device()
    return over, None


def _reducer(reduce: bool | Callable | None) -> Callable | None:
    if reduce is None or reduce is False:
        return None
    return record_position if reduce is True else reduce


def _check_arguments(given: dict[str, Any]) -> None:
    """Raise on arguments of `sample` that cannot be right, whatever the kernel."""
    require_kernel(given["kernel"])
    is_iterator = lambda x: isinstance(x, Iterator)  # which JAX will not take for a leaf
    traced = [given[name] for name in ("key", "kernel", "position", "data")]
    if any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(traced, is_leaf=is_iterator)):
        raise TypeError(
            "sample cannot be traced: call it outside of jit and vmap, with num_chains for many "
            "chains and kernel_axis for many kernels, or use scan_kernel"
        )
    _checks.whole("num_steps", given["num_steps"])
    _checks.whole("burn_in", given["burn_in"], 0)
    _checks.whole("thin", given["thin"])
    for name in ("num_chains", "chains_at_once", "chunk"):
        if given[name] is not None:
            _checks.whole(name, given[name])
    run = given["position"] if isinstance(given["position"], Run) else None
    several = given["num_chains"] is not None or (run is not None and "chain" in run.axes)
    if given["chains_at_once"] is not None and not several:
        raise ValueError(f"chains_at_once needs num_chains, got {given['chains_at_once']}")
    if given["burn_in"] >= given["num_steps"]:
        raise ValueError(
            f"burn_in must be less than num_steps, got {given['burn_in']} of {given['num_steps']}"
        )
    left = given["num_steps"] - given["burn_in"]
    if given["thin"] > left and not given["reduce"]:
        warnings.warn(
            f"no draw is kept: thin is {given['thin']}, with {left} steps after the burn-in",
            stacklevel=3,
        )
    _check_axis("kernel_axis", given["kernel_axis"])
    _checks.choice("on_error", given["on_error"], ("flag", "raise"))
    if given["engine"] is not None and not isinstance(given["engine"], Engine):
        raise TypeError(f"engine must be an Engine or None, got {type(given['engine']).__name__}")
    if given["reduce"] and given["record"] is not None:
        raise ValueError("record and reduce exclude each other: reduce keeps no draws")
    for name in ("record", "reduce"):
        if given[name] is not None and not isinstance(given[name], bool):
            must_take(given[name], name, ("state", "info"))
    if not isinstance(given["position_axis"], str) or given["position_axis"] != "unsaid":
        _check_axis("position_axis", given["position_axis"])
    _checks.random_key(given["key"])


def _check_state(kernel: Kernel, state: Any, data: Data) -> None:
    """Raise unless a kernel may start from a state; one that is traced was looked at elsewhere."""
    if not hasattr(state, "position"):
        raise TypeError(f"state must be one that kernel.init made, got {_checks.shown(state)}")
    if all(map(_checks.is_concrete, jax.tree.leaves((kernel, state, data)))):
        _checks.arrays("data", data)
        with jax.ensure_compile_time_eval():  # what its caller compiles may have captured them all
            kernel.check(state.position, data)


def _check_axis(name: str, value: Any) -> None:
    if value is not None and not (isinstance(value, int) and value == 0):
        raise ValueError(f"{name} must be 0 or None, got {_checks.shown(value)}")
