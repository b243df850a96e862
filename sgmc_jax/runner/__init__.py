"""The runner: what `sample` calls, and no kernel imports.

A run has two sides. On the devices, `Chains` (chains.py) holds the kernel and every chain's carry,
and calls the compiled programs (programs.py) that map the functions of one chain on one shard over
chains, kernels and shards. Such a function is a chunk (loop.py): a loop over steps, each made with
keys of its own (keys.py), guarded (guard.py) and kept or averaged (keep.py); shards.py tells what a
shard holds of a state. On the host, `Host` (host.py) asks for chunk after chunk, feeds streams
(stream.py, passes.py, reader.py), keeps the draws (draws.py), saves checkpoints, and reports.
start.py reads where chains begin, plan.py what is static in all of it; code.py tells the functions
of users apart, so that a run does not go on with others.

Follow `position`: `sample` -> `Start` -> `Chains.start` -> `init` in programs.py -> `Kernel.init`;
then `Chains.advance` -> `run_chunk` -> `keep` -> `guarded_step` -> `Kernel.step`.
"""
