import json

import numpy as np
import pytest
import torch
from compare import read
from safetensors import safe_open
from trace_writer import TraceError, TraceWriter


def write(path, taps, globs="*", metadata=None):
    with TraceWriter(str(path), globs) as writer:
        for name, value in taps.items():
            writer.add(name, value)
        writer.commit(metadata or {})
    return read(str(path))


def test_values_are_widened_exactly(tmp_path):
    bf16 = torch.randn(3, 5, generator=torch.Generator().manual_seed(1)).bfloat16()
    taps = {"bf16": bf16, "f16": bf16.half(), "f32": torch.tensor([1e-40, -0.0, float("-inf")]),
            "mask": torch.tensor([True, False]), "u8": torch.tensor([0, 255], dtype=torch.uint8),
            "i32": torch.tensor([-7], dtype=torch.int32), "i64": torch.tensor([2 ** 62]),
            "none": torch.empty(0, 4), "one": torch.tensor(2.5)}
    found, _ = write(tmp_path / "t.safetensors", taps)
    assert found.keys() == taps.keys()
    for name, value in taps.items():
        is_float = value.is_floating_point()
        assert found[name].dtype == ("<f4" if is_float else "<i8")
        assert found[name].shape == tuple(value.shape)
        expected = value.float().numpy() if is_float else value.long().numpy()
        assert np.array_equal(found[name], expected)
    assert np.signbit(found["f32"][1])


def test_the_library_reads_it_and_integers_are_aligned(tmp_path):
    path = tmp_path / "t.safetensors"
    write(path, {"a": torch.ones(3), "b": torch.tensor([5]), "c": torch.ones(1)},
          metadata={"case": '{"é": 1}', "tokens": ""})
    with safe_open(str(path), "pt") as file:
        assert file.metadata() == {"format": "trace/1", "case": '{"é": 1}'}
        assert file.get_tensor("b").tolist() == [5] and file.get_tensor("a").tolist() == [1] * 3
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    assert size % 8 == 0
    assert json.loads(data[8:8 + size])["b"]["data_offsets"] == [0, 8]


def test_two_runs_give_the_same_bytes(tmp_path):
    taps = {f"t{i}": torch.full((i,), float(i)) for i in range(20)}
    write(tmp_path / "a", taps)
    write(tmp_path / "b", taps)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_globs_choose_taps(tmp_path):
    taps = {name: torch.ones(1) for name in ("ids", "c0.layers.0.attn", "c0.layers.0.ffn", "c1.norm")}
    found, _ = write(tmp_path / "t", taps, "ids,c0.*.attn")
    assert found.keys() == {"ids", "c0.layers.0.attn"}
    with pytest.raises(TraceError, match="at least one name"):
        TraceWriter(str(tmp_path / "u"), ",")


def test_what_does_not_fit_is_refused(tmp_path):
    with TraceWriter(str(tmp_path / "t")) as writer:
        with pytest.raises(TraceError, match="'x': torch.float64"):
            writer.add("x", torch.ones(1, dtype=torch.float64))
        writer.add("y", torch.ones(1))
        with pytest.raises(TraceError, match="'y' came twice"):
            writer.add("y", torch.ones(1))


def test_no_file_without_commit(tmp_path):
    with pytest.raises(RuntimeError):
        with TraceWriter(str(tmp_path / "t")) as writer:
            writer.add("x", torch.ones(4))
            raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(TraceError, match="name a folder"):
        TraceWriter(str(tmp_path / "missing" / "t"))
