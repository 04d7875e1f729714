"""Checkpoints as files: every bit comes back, and what is not whole, or not ours, is refused."""

import dataclasses
import json
import os
import zipfile
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import masgrad as mg
from masgrad.checkpoints import file, saver
from masgrad.checkpoints.codec import decode, encode
from masgrad.checkpoints.digest import digest, digest_files
from masgrad.checkpoints.file import Heading
from masgrad.checkpoints.fingerprint import fingerprint
from masgrad.checkpoints.saver import Saver
from masgrad.errors import CheckpointError
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.models.model import RowSums

HEADING = Heading("run", fingerprint(seed=0, data=np.arange(3)), "step 3", False)

dtypes = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(),
    hnp.floating_dtypes(sizes=(16, 32, 64)),
    hnp.complex_number_dtypes(sizes=(64, 128)),
    hnp.unicode_string_dtypes(min_len=1),
    hnp.byte_string_dtypes(min_len=1),
    hnp.datetime64_dtypes(),
)
arrays = hnp.arrays(dtypes, hnp.array_shapes(min_dims=0, min_side=0, max_dims=3, max_side=4))
text = st.text(st.characters(exclude_categories=("Cs",)), max_size=5)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), text, st.binary(max_size=4)
)
keys = st.one_of(text, st.integers(), st.booleans(), st.tuples(text, st.integers()))
values = st.recursive(
    scalars | arrays | arrays.map(lambda a: a.ravel()[0] if a.size else None),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(keys, inner, max_size=3),
        st.tuples(inner, inner).map(lambda pair: RowSums(pair[0], pair[1], None)),
    ),
    max_leaves=8,
)


def bits(value: Any) -> Any:
    """A value whose equality is that of all bits, types and orders."""
    if isinstance(value, np.ndarray):
        return "array", value.dtype.str, value.shape, value.flags.f_contiguous, value.tobytes()
    if isinstance(value, np.generic):
        return "scalar", value.dtype.str, value.tobytes()
    if isinstance(value, float):
        return "float", np.float64(value).tobytes()
    if isinstance(value, list | tuple):
        return type(value), [bits(v) for v in value]
    if isinstance(value, dict):
        return "dict", [(bits(k), bits(v)) for k, v in value.items()]
    return type(value), value


@settings(deadline=None, max_examples=150)
@given(values)
def test_nested_values_come_back_to_the_last_bit(value):
    found, structure = encode(value)
    assert bits(decode(found, json.loads(json.dumps(structure)))) == bits(value)


def test_bits_that_equality_does_not_see_come_back(tmp_path):
    payload = np.array([0x7FF8000000000123, 0xFFF0000000000001], np.uint64).view(float)
    state = {
        "nan": payload,
        "zero": -0.0,
        "single": np.float32(0.1),
        "big": 2**70,
        "text": np.array(["ä", None, "b"], object),
        "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        (1, "a"): range(3, 9, 2),
    }
    file.write(tmp_path / "c", HEADING, state)
    back = file.read(tmp_path / "c", lambda heading: None)[1]
    assert list(back) == list(state) and back["text"].tolist() == ["ä", None, "b"]
    for name in ("nan", "zero", "single", "big", "columns"):
        assert bits(back[name]) == bits(state[name])


def test_records_are_rebuilt_and_arrays_that_were_one_are_one():
    g = np.ones(3)
    local = LocalModel(10.0, g, g, np.eye(3), np.eye(3), rows=10)
    back = decode(*encode(local))
    assert type(back) is LocalModel and back.point is back.gradient
    for f in dataclasses.fields(local):
        assert bits(getattr(back, f.name)) == bits(getattr(local, f.name))
    assert isinstance(decode(*encode({"a": jnp.ones(2)}))["a"], np.ndarray)


class Foreign(NamedTuple):
    a: int


@pytest.mark.parametrize("value", [Foreign(1), object(), lambda: 0, 1j, slice(3)])
def test_what_a_checkpoint_cannot_hold_is_refused(value):
    with pytest.raises(TypeError, match="a checkpoint cannot hold"):
        encode([value])


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "system"),
        ("masgrad.files", "os.system"),
        ("masgrad.files", "replaced"),
        ("masgrad.checkpoints.file", "Path"),
        ("masgrad.checkpoints.saver", "Saver"),
        ("masgrad.fitting.options", "LocalModel"),
        ("masgradient", "Record"),
    ],
)
def test_only_records_of_masgrad_are_rebuilt(module, name):
    with pytest.raises(ValueError, match="is no record of this version"):
        decode([], {"record": [module, name], "fields": {}})


# Files


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "state.ckpt"
    file.write(path, HEADING, {"theta": np.arange(5.0), "t": 3})
    return path


def test_the_name_is_kept_and_numpy_reads_the_file(written):
    assert [p.name for p in written.parent.iterdir()] == ["state.ckpt"]
    with np.load(written, allow_pickle=False) as archive:
        assert archive["0"].tolist() == [0, 1, 2, 3, 4]
        assert json.loads(archive["manifest"].tobytes())["format"] == file.FORMAT
    assert zipfile.ZipFile(written).testzip() is None


def test_every_flipped_bit_is_refused(written):
    whole = bytearray(written.read_bytes())
    file.read(written, lambda heading: None)
    rng = np.random.default_rng(0)
    for at in range(len(whole)):
        damaged = whole.copy()
        damaged[at] ^= 1 << int(rng.integers(8))
        written.write_bytes(damaged)
        with pytest.raises(CheckpointError, match="checksum does not hold; delete it"):
            file.read(written, lambda heading: None)


def test_every_truncation_is_refused(written):
    whole = written.read_bytes()
    for size in range(len(whole)):
        written.write_bytes(whole[:size])
        with pytest.raises(CheckpointError, match="checksum"):
            file.read(written, lambda heading: None)
    written.write_bytes(whole[:-1])
    with pytest.raises(CheckpointError, match="is damaged or incomplete"):
        file.read(written, lambda heading: None)


def test_foreign_and_newer_files_say_what_they_are(written, monkeypatch):
    np.savez(written.parent / "other.npz", a=np.ones(3))
    with pytest.raises(CheckpointError, match=r"other\.npz is no checkpoint of masgrad"):
        file.read(written.parent / "other.npz", lambda heading: None)
    monkeypatch.setattr(file, "FORMAT", 2)
    file.write(written, HEADING, None)
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match=r"has format 2 and this version .* format 1"):
        file.read(written, lambda heading: None)


def test_a_pickle_is_neither_written_nor_read(written):
    class Harmful:
        def __reduce__(self):
            return os.mkdir, (str(written.parent / "harm"),)

    with pytest.raises(TypeError, match="cannot hold"):
        file.write(written, HEADING, np.array([Harmful()], object))
    file.read(written, lambda heading: None)  # the old file is still there
    assert len(list(written.parent.iterdir())) == 1


# Savers


def clocked(path, **changes):
    now = [0.0]
    made = Saver(
        path, "run", fingerprint(**{"seed": 0, "data": 1} | changes), 10, clock=lambda: now[0]
    )
    return made, now


def test_a_save_is_due_every_so_many_seconds(tmp_path):
    one, now = clocked(tmp_path / "c")
    assert one.begin(False) is None and not one.due()
    now[0] = 9.9
    assert not one.due()
    now[0] = 10.0
    assert one.due()
    one.save([1], "step 1")
    assert not one.due()
    now[0] = 20.0
    assert one.due()


def test_unfinished_work_is_continued_or_refused_and_never_overwritten(tmp_path):
    path = tmp_path / "c"
    one, _ = clocked(path)
    one.save([1], "step 7 of 9")
    with pytest.raises(CheckpointError, match=r"unfinished run \(step 7 of 9\); give resume=True"):
        clocked(path)[0].begin(False)
    heading, state = clocked(path)[0].begin(True) or (None, None)
    assert heading == Heading("run", one.fingerprint, "step 7 of 9", False) and state == [1]
    one.save([2], "step 9 of 9", finished=True)
    assert clocked(path)[0].begin(False) is None
    assert (clocked(path)[0].begin(True) or [None, None])[1] == [2]


def test_another_call_or_version_is_refused_with_what_differs(tmp_path, monkeypatch):
    path = tmp_path / "c"
    clocked(path)[0].save([1], "step 1")
    with pytest.raises(CheckpointError, match="another call: seed was 0 and is 1"):
        clocked(path, seed=1)[0].begin(True)
    with pytest.raises(CheckpointError, match="another call: data differs"):
        clocked(path, data=np.ones(3))[0].begin(True)
    with pytest.raises(CheckpointError, match="another call: method differs"):
        clocked(path, method="x")[0].begin(True)
    other = Saver(path, "fit", fingerprint(seed=0, data=1))
    with pytest.raises(CheckpointError, match="holds a run, and this is a fit"):
        other.begin(True)
    monkeypatch.setattr("masgrad.version.__version__", "9.0")
    with pytest.raises(CheckpointError, match=rf"masgrad {mg.__version__}, and this is 9\.0"):
        clocked(path)[0].begin(True)


def test_what_killed_writers_left_is_removed(tmp_path):
    (tmp_path / ".c.0123abcd.tmp").write_text("half")
    (tmp_path / ".other.0123abcd.tmp").write_text("of another")
    clocked(tmp_path / "c")[0].begin(False)
    assert [p.name for p in tmp_path.iterdir()] == [".other.0123abcd.tmp"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ((None, 1.0, True), "give checkpoint=PATH"),
        ((3, 1.0, False), "checkpoint=3; the path of a file"),
        (("c", -1.0, False), "every=-1; a number >= 0"),
        (("c", "1", False), "every='1'; a number"),
        (("c", 1.0, "yes"), "resume='yes'; True or False"),
    ],
)
def test_options_that_are_refused(asked, said):
    with pytest.raises((ValueError, TypeError), match=said):
        saver.check_checkpoint(*asked)


# Digests


def test_digests_differ_where_values_do(rng):
    X = rng.normal(size=(50, 3))
    Y = X.copy()
    Y[7, 1] = np.nextafter(Y[7, 1], 2)
    different = [X, Y, X.T, X.astype(np.float32), X[:49], [X], (X,), {"a": X}, None, 0, "0", 0.0]
    different += [
        -0.0,
        True,
        mg.Logistic(),
        mg.Linear(),
        mg.L1(0.1),
        mg.L1(0.2),
        [[1], 2],
        [1, [2]],
    ]
    different += [lambda t: t, lambda t: 2 * t, lambda t, k=2: k * t]
    assert len({digest(v) for v in different}) == len(different)
    assert digest(X) == digest(X.copy()) == digest(np.asfortranarray(X))


def test_functions_count_by_code_and_by_what_they_use(rng):
    def loss(tau):
        return lambda theta, z: tau * theta @ z

    assert digest(loss(0.1)) == digest(loss(0.1)) != digest(loss(0.2))
    assert digest(mg.CustomLoss(loss(0.1), 2)) == digest(mg.CustomLoss(loss(0.1), 2))
    knot: list = []
    knot.append(knot)
    assert digest(knot) == digest(knot)


def test_large_arrays_and_tables_cost_a_glance(rng):
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    X = rng.normal(size=(400_000, 2))
    last, first = X.copy(), X.copy()
    last[-1, 1], first[0, 0] = 0.0, 0.0
    assert len({digest(a) for a in (X, last, first, X[:-1])}) == 4
    table = pd.DataFrame({"a": X[:, 0], "g": np.where(X[:, 1] > 0, "u", "v")})
    other = table.assign(a=-table.a)
    for make in (lambda t: t, pl.from_pandas, pa.Table.from_pandas):
        assert digest(make(table)) == digest(make(table.copy())) != digest(make(other))


def test_files_count_by_content_and_time_and_not_by_name(tmp_path):
    one, two = tmp_path / "a.csv", tmp_path / "b.csv"
    one.write_text("x,y\n" + "1,2\n" * 100_000)
    before = digest_files([one])
    os.rename(one, two)
    assert digest_files([two]) == before
    two.write_text("x,y\n" + "1,2\n" * 99_999 + "1,3\n")
    assert digest_files([two]) != before
