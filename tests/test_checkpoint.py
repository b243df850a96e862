"""A checkpoint knows the data of its run by their contents."""

from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from sgmc_jax import Full, FunctionModel, Given, Minibatch, sample, sgld
from sgmc_jax.checkpoint import Checkpoint, _checksum, _checksum_of_parts, contents

KEY = jax.random.key(0)
ZERO = jnp.zeros(2)
X = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
MODEL = FunctionModel(lambda x: -0.5 * x @ x, lambda x, z: -0.5 * (z - x) @ (z - x))


def run(path, data, batcher, num_steps=4):
    kernel = sgld(Minibatch(MODEL, batcher), 1e-3)
    return sample(KEY, kernel, ZERO, data, num_steps=num_steps, chunk=2, checkpoint=path)


def test_one_changed_number_is_refused(tmp_path):
    other = X.copy()
    other[17, 1] += 1e-3
    run(tmp_path, X, Full())
    with pytest.raises(ValueError, match="with another contents of the data: give"):
        run(tmp_path, other, Full())
    assert len(run(tmp_path, X.copy(), Full(), 6).trace) == 6


def test_another_stream_is_refused(tmp_path):
    stream = lambda data: lambda i: data[5 * i : 5 * i + 5]
    run(tmp_path, stream(X), Given(40))
    with pytest.raises(ValueError, match="with another contents of the data: give"):
        run(tmp_path, stream(X[::-1]), Given(40))
    assert len(run(tmp_path, stream(X), Given(40), 6).trace) == 6


def test_another_iterator_is_refused(tmp_path):
    stream = lambda data: iter(data.reshape(8, 5, 2))
    run(tmp_path, stream(X), Given(40))
    with pytest.raises(ValueError, match="with another contents of the data: give"):
        run(tmp_path, stream(X[::-1]), Given(40))
    assert len(run(tmp_path, stream(X), Given(40), 6).trace) == 6


def test_a_key_bound_to_a_function_is_known(tmp_path):
    def with_key(i, num_steps):
        prior = partial(lambda key, x: -0.5 * x @ x, jax.random.key(i))
        kernel = sgld(Minibatch(FunctionModel(prior), Full()), 1e-3)
        return sample(KEY, kernel, ZERO, None, num_steps=num_steps, checkpoint=tmp_path)

    with_key(3, 4)
    with pytest.raises(ValueError, match="with another kernel"):
        with_key(4, 6)
    assert len(with_key(3, 6).trace) == 6


@dataclass
class Record:
    scale: float

    def logprior(self, x):
        return -0.5 * self.scale * x @ x


class Own:
    def __init__(self, scale):
        self.scale = scale

    def logprior(self, x):
        return -0.5 * self.scale * x @ x

    @cached_property
    def squared(self):
        return self.scale**2


@pytest.mark.parametrize(
    "kind,bound",
    [*product([Record, Own], [False, True]), (lambda scale: SimpleNamespace(scale=scale), False)],
)
def test_an_object_is_known_by_its_attributes(kind, bound, tmp_path):
    def with_scale(scale, num_steps, looked=False):
        own = kind(scale)
        if looked and kind is Own:
            assert own.squared == scale**2  # a cache is no other object
        prior = own.logprior if bound else lambda x: -0.5 * own.scale * x @ x
        kernel = sgld(Minibatch(FunctionModel(prior), Full()), 1e-3)
        return sample(KEY, kernel, ZERO, None, num_steps=num_steps, checkpoint=tmp_path)

    with_scale(1.0, 4)
    with pytest.raises(ValueError, match="with another .*code of functions"):
        with_scale(2.0, 6)
    assert len(with_scale(1.0, 6, looked=True).trace) == 6


class Payload:
    """What runs code when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("name", ["state", "draws-000001"])
def test_no_code_of_a_file_is_run(tmp_path, name):
    folder, mark = tmp_path / "run", tmp_path / "code was run"
    run(folder, X, Full())
    with np.load(folder / f"{name}.npz") as file:
        arrays = dict(file)
    np.savez(folder / f"{name}.npz", **arrays, leaf99999=np.array([Payload(mark)], object))
    with pytest.raises(ValueError, match=f"{name}.npz is no file of a checkpoint, or it is dam"):
        run(folder, X, Full(), 6)
    assert not mark.exists()
    np.load(folder / f"{name}.npz", allow_pickle=True)["leaf99999"]
    assert mark.exists()  # it would have done so


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "text", "one byte"])
def test_a_damaged_file_is_told(tmp_path, damage):
    run(tmp_path, X, Full())
    file = tmp_path / "draws-000001.npz"
    whole = file.read_bytes()
    flipped = bytes([whole[150] ^ 255])
    kinds = {"empty": b"", "cut": whole[:-40], "text": b"not a file of numpy's"}
    kinds["one byte"] = whole[:150] + flipped + whole[151:]
    file.unlink() if damage == "missing" else file.write_bytes(kinds[damage])
    with pytest.raises(ValueError, match="draws-000001.npz is no file of a checkpoint, or it is"):
        run(tmp_path, X, Full(), 6)


def test_a_file_that_says_it_is_encrypted_is_told(tmp_path):
    """One bit of the archive's directory; zipfile raises an error of another kind."""
    run(tmp_path, X, Full())
    file = tmp_path / "draws-000001.npz"
    whole = bytearray(file.read_bytes())
    whole[whole.index(b"PK\x01\x02") + 8] |= 1
    file.write_bytes(whole)
    with pytest.raises(ValueError, match="draws-000001.npz is no file of a checkpoint, or it is"):
        run(tmp_path, X, Full(), 6)


def test_another_version_is_told(tmp_path, monkeypatch):
    run(tmp_path, X, Full())
    monkeypatch.setattr("sgmc_jax.checkpoint.versions", lambda: "sgmc_jax 9")
    with pytest.warns(UserWarning, match="was made by sgmc_jax 0.* goes on by sgmc_jax 9") as told:
        run(tmp_path, X, Full(), 6)
    assert [one.filename for one in told] == [__file__]


@pytest.mark.parametrize("change", ["shape", "dtype", "number"])
def test_a_state_of_other_arrays_is_refused(tmp_path, change):
    """Of a version that keeps another state of the same kernel."""
    run(tmp_path, X, Full())
    with np.load(tmp_path / "state.npz") as file:
        arrays = dict(file)
    whole = max(arrays, key=lambda name: arrays[name].ndim)
    changes = {"shape": arrays[whole][:1], "dtype": arrays[whole].astype(np.int32)}
    arrays["leaf99999" if change == "number" else whole] = changes.get(change, np.zeros(2))
    np.savez(tmp_path / "state.npz", **arrays)
    with pytest.raises(ValueError, match="version may have written it"):
        run(tmp_path, X, Full(), 6)


def test_two_runs_at_once_do_not_share_a_folder(tmp_path):
    """The second is refused before it writes anything, and the first one goes on."""
    begun, refused = [], []

    def stream(i):
        if i == 4 and not begun:
            begun.append(i)
            with pytest.raises(ValueError, match="written to by another run too") as error:
                run(tmp_path, stream, Given(40), 6)
            refused.append(error)
        return X[:5]

    made = run(tmp_path, stream, Given(40), 8)
    assert refused and made.trace.shape == (8, 2)
    np.testing.assert_array_equal(run(tmp_path, stream, Given(40), 8).trace, made.trace)


def test_a_folder_that_another_run_has_written_to_since_is_refused(tmp_path):
    """Where the file system has no locks, or the other has ended."""
    found = Checkpoint(tmp_path, {})
    found.load()
    run(tmp_path, X, Full())
    with pytest.raises(ValueError, match="written to by another run too"):
        found.save({}, {}, {})
    found.close()
    assert len(run(tmp_path, X, Full(), 6).trace) == 6


def test_all_that_differs_is_named(tmp_path):
    run(tmp_path, X, Full())
    with pytest.raises(ValueError, match="another kernel, shape of the data, contents of the data"):
        run(tmp_path, X[:30], Given(40))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "bfloat16", "complex64"])
def test_contents_are_those_of_any_dtype(dtype):
    x = jnp.asarray(np.arange(24) % 2 if dtype == "bool" else np.arange(24), dtype).reshape(4, 6)
    digest = lambda x: contents([x])
    assert digest(x) == digest(x + jnp.zeros((), dtype))
    assert digest(x) != digest(x.at[2, 3].set(x[2, 2]))
    assert digest(x) != digest(x[:, ::-1])
    assert contents([jax.random.key(0)]) != contents([jax.random.key(1)])
    assert contents([np.asfortranarray(x)]) == contents([x])
    assert contents([x[:0]]) == contents([x[:0]])


@pytest.mark.parametrize("dtype", ["bool", "int8", "float32", "float64", "complex64"])
def test_the_sum_of_a_global_array_does_not_depend_on_its_shards(dtype, x64):
    """What no process holds as a whole is summed where it is, as one that holds it all would."""
    if len(jax.devices()) == 1:
        pytest.skip("one device has one shard")
    x = (X > 0) if dtype == "bool" else (50 * X).astype(dtype)
    mesh = Mesh(np.array(jax.devices()), ("shard",))
    for spec in (PartitionSpec("shard"), PartitionSpec()):
        sums = _checksum_of_parts(jax.device_put(x, NamedSharding(mesh, spec)))
        assert sums.sharding.is_fully_replicated
        assert np.array_equal(sums.addressable_data(0), _checksum(x))


def test_the_sum_knows_the_places_of_numbers(monkeypatch):
    x, whole = X.astype(np.float32), _checksum(X.astype(np.float32))
    monkeypatch.setattr("sgmc_jax.checkpoint._WORDS", 7)  # does not divide what there is
    assert np.array_equal(_checksum(x), whole)
    rows = [_checksum(x[np.roll(np.arange(40), i)]) for i in range(40)]
    assert len({tuple(row.tolist()) for row in rows}) == 40
