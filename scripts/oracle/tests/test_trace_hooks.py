import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from compare import read
from conftest import ORACLE
from torch import nn
from trace_hooks import Mapping, Recorder, fill, module_pattern
from trace_writer import TraceError, TraceWriter


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(3, 4)

    def forward(self, patches, grid):
        return self.proj(patches)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = nn.Linear(4, 4)

    def forward(self, x, scale):
        return {"stream": x + self.mlp(x) * scale, "cache": (x, None)}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = Tower()
        self.layers = nn.ModuleList(Layer() for _ in range(3))
        self.norm = nn.LayerNorm(4)

    def forward(self, x, patches=None, grid=None):
        if patches is not None:
            x = x + self.tower(patches, grid=grid).mean(0)
        for layer in self.layers:
            x = layer(x, scale=torch.tensor([2.0]))["stream"]
        return self.norm(x)


RULES = [
    {"module": "tower.proj", "tap": "tower", "scope": "item"},
    {"module": "layers.0", "of": "input", "tap": "embed"},
    {"module": "layers.*.mlp", "tap": "layers.{1}.ffn"},
    {"module": "layers.*", "of": "input", "tap": "layers.{1-1}"},
    {"module": "layers.*", "at": ["cache", 0], "tap": "layers.{1}.cached", "reshape": [0, 2, "$width"]},
    {"module": "norm", "of": "input", "tap": "layers.{last}"},
    {"module": "norm", "tap": "norm"},
]
MAPPING = {"format": "hooks/1", "calls": {"module": "", "rows": "embed"},
           "items": {"module": "tower", "kind": "image", "grid": "grid"}, "rules": RULES}


def mapping(**changes):
    return Mapping.parse({**MAPPING, **changes}, "map")


def record(path, model, inputs, **changes):
    with TraceWriter(str(path)) as writer, torch.no_grad():
        with Recorder(model, mapping(**changes), writer, {"last": 2, "width": 2}) as recorder:
            outputs = [model(*x) for x in inputs]
        writer.commit({})
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in model.modules())
    return read(str(path))[0], outputs, recorder


@pytest.fixture
def model():
    torch.manual_seed(3)
    return Model()


def test_taps_are_the_models_values(tmp_path, model):
    x = torch.randn(1, 5, 4)
    patches, grid = torch.randn(12, 3), torch.tensor([[1, 2, 2], [2, 2, 2]])
    found, outputs, recorder = record(tmp_path / "t", model,
                                      [(x, patches, grid), (torch.randn(1, 1, 4),)])
    assert recorder.calls == [[0, 5], [5, 1]]
    with torch.no_grad():
        tower = model.tower(patches, grid)
        stream = x + tower.mean(0)
        assert np.array_equal(found["image0.tower"], tower[:4])
        assert np.array_equal(found["image1.tower"], tower[4:])
        assert np.array_equal(found["c0.embed"], stream[0])
        for l, layer in enumerate(model.layers):
            assert np.array_equal(found[f"c0.layers.{l}.cached"], stream[0].reshape(5, 2, 2))
            assert np.array_equal(found[f"c0.layers.{l}.ffn"], layer.mlp(stream)[0])
            stream = layer(stream, torch.tensor([2.0]))["stream"]
            assert np.array_equal(found[f"c0.layers.{l}"], stream[0])
    assert np.array_equal(found["c0.norm"], outputs[0][0])
    assert np.array_equal(found["c1.norm"], outputs[1][0])
    assert len(found) == 2 + 2 * (1 + 3 + 3 + 3 + 1)


def test_towers_are_counted_by_kind(tmp_path, model):
    with TraceWriter(str(tmp_path / "t")) as writer, torch.no_grad():
        with Recorder(model, mapping(), writer, {"last": 2, "width": 2}) as recorder:
            recorder.item_kinds.extend(["image", "video"])
            for n in (4, 8, 4):
                model.tower(torch.randn(n, 3), grid=torch.tensor([[1, 2, n // 2]]))
        writer.commit({})
    found, _ = read(str(tmp_path / "t"))
    assert {n: v.shape[0] for n, v in found.items()} == {
        "image0.tower": 4, "video0.tower": 8, "image1.tower": 4}


def test_arguments_by_name(tmp_path, model):
    rules = [{"module": "layers.1", "of": "input", "at": "scale", "tap": "scale", "scope": "once"}]
    found, *_ = record(tmp_path / "t", model, [(torch.randn(1, 2, 4),)], rules=rules)
    assert found["scale"].tolist() == [2.0]


@pytest.mark.parametrize("rule, message", [
    ({"module": "layer.*.mlp", "tap": "x"}, "no module 'layer"),
    ({"module": "norms", "tap": "x"}, "is it 'norm'"),
    ({"module": "layers.*", "tap": "x.{1}"}, "expected a tensor, found dict"),
    ({"module": "layers.*", "at": "streams", "tap": "x.{1}"}, "no 'streams' in a value of type dict"),
    ({"module": "norm", "tap": "{2}"}, r"\{2\} is not known"),
    ({"module": "norm", "tap": "x", "reshape": [3, -1]}, "cannot become"),
    ({"module": "norm", "tap": "x", "reshape": ["$heads", -1]}, r"\$heads is not known"),
    ({"module": "norm", "tap": "x", "off": "output"}, "'module' and 'tap', and any of"),
    ({"module": "norm", "tap": "x", "scope": "image"}, "'scope' one of call, item, once"),
    ({"module": "layers.*.mlp", "tap": "x"}, "came twice"),
])
def test_wrong_rules_are_named(tmp_path, model, rule, message):
    with pytest.raises(TraceError, match=message):
        record(tmp_path / "t", model, [(torch.randn(1, 4, 4),)], rules=[rule])


def test_one_sequence_at_a_time(tmp_path, model):
    with pytest.raises(TraceError, match="expected one sequence.*batch of one"):
        record(tmp_path / "t", model, [(torch.randn(2, 5, 4),)])


def test_rows_that_cannot_be_split(tmp_path, model):
    with pytest.raises(TraceError, match="cannot be split"):
        record(tmp_path / "t", model,
               [(torch.randn(1, 5, 4), torch.randn(7, 3), torch.tensor([[1, 2, 2], [1, 2, 2]]))])


def test_templates():
    assert fill("layers.{1-1}.{name}", {"1": "3", "name": "x"}) == "layers.2.x"
    assert fill("layers.{1-1}", {"1": "0"}) is None
    assert module_pattern("layers.*").match("layers.3.mlp") is None
    assert module_pattern("a.*.b.*").match("a.10.b.c").groups() == ("10", "c")


PROGRAM = """
import torch
from torch import nn

def build(arguments):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU()).to(torch.bfloat16)
    def run():
        model(torch.ones(1, int(arguments[0]), 2, dtype=torch.bfloat16))
        return {"tokens": [7], "case": {"prompt": "x"}}
    return model, run
"""


def test_command(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "map.json").write_text(json.dumps({
        "format": "hooks/1", "calls": {"module": "", "rows": "linear"},
        "rules": [{"module": "0", "tap": "linear"}, {"module": "1", "tap": "relu.{n}"}]}))
    command = [sys.executable, os.path.join(ORACLE, "trace_hooks.py"), "--program",
               str(tmp_path / "program.py"), "--argument", "3"]
    listed = subprocess.run([*command, "--list"], capture_output=True, text=True, check=True)
    assert listed.stdout.splitlines() == ["(root)  Sequential", "0  Linear", "1  ReLU"]
    out = str(tmp_path / "t.safetensors")
    command += ["--map", str(tmp_path / "map.json"), "--config", str(tmp_path / "config.json"),
                "--out", out, "--producer", "test"]
    failed = subprocess.run(command, capture_output=True, text=True)
    assert failed.returncode == 1 and "{n} is not known" in failed.stderr
    assert len(failed.stderr.splitlines()) == 1 and not os.path.exists(out)
    subprocess.run([*command, "--set", "n=5"], capture_output=True, text=True, check=True)
    found, metadata = read(out)
    assert found.keys() == {"c0.linear", "c0.relu.5"}
    assert np.array_equal(found["c0.relu.5"], np.maximum(found["c0.linear"], 0))
    assert metadata == {
        "format": "trace/1", "producer": "test", "case": '{"prompt": "x"}', "calls": "[[0, 3]]",
        "tokens": "[7]", "activations": "bf16",
        "model": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}
