"""The V4.1 script on a stand-in of the reference program (see stand_in/README.md): which taps it
records, of what shapes, and how a checkpoint is read. It cannot say anything about values."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from compare import read
from stage_maps import load, matches

deepseek_v41 = pytest.importorskip("deepseek_v41")
import deepseek_v41_reference as loader  # noqa: E402
from case_file import load_case, read_header  # noqa: E402
from conftest import ORACLE, TESTS  # noqa: E402
from trace_writer import TraceError  # noqa: E402

STAND_IN = os.path.join(TESTS, "stand_in")
DTYPES = {"BF16": torch.bfloat16, "F32": torch.float32, "F8_E4M3": torch.float8_e4m3fn,
          "F8_E8M0": torch.float8_e8m0fnu, "I8": getattr(torch, "float4_e2m1fn_x2", torch.int8)}
WIDE = re.compile(r"\.ffn\.gate\.weight$|norm\.weight$")  # fp32 in the stand-in


@pytest.fixture(scope="module")
def golden(root):
    return os.path.join(root, "tests", "golden", "v41-tiny")


@pytest.fixture(scope="module")
def reference(golden):
    """The stand-in, with a parameter for every tensor of the tiny checkpoint."""
    reference = loader.load_reference(STAND_IN)
    header = read_header(os.path.join(golden, "model", "model.safetensors"))
    header.pop("__metadata__", None)
    for name, entry in header.items():
        if name.endswith("attn.wo_a.scale"):
            continue
        dtype = DTYPES[entry["dtype"]]
        if WIDE.search(name):
            dtype = torch.float32
        if name.endswith("attn.wo_a.weight"):
            dtype = torch.bfloat16
        reference.model.PARAMETERS.append((name, entry["shape"], dtype))
    return reference


def run(monkeypatch, reference, golden, source, out, **changes):
    monkeypatch.setattr(deepseek_v41, "load_reference", lambda folder, kernels: reference)
    options = dict(reference=STAND_IN, kernels=None, model=os.path.join(golden, "model"), out=str(out),
                   decode_calls=None, tokens=[], prefill=None, drafts=False, index_keys="reference",
                   thinking_mode="chat", max_seq_len=128, taps="*", producer="stand-in")
    args = argparse.Namespace(**(options | changes))
    deepseek_v41.trace(load_case(source), args)
    return read(str(out))


def case(golden, name):
    return os.path.join(golden, "cases", name + ".safetensors")


@pytest.mark.parametrize("name", ["image_one", "text_1", "text_5", "text_mid"])
def test_names_and_shapes_are_those_of_the_recorded_trace(monkeypatch, reference, golden, tmp_path,
                                                          name):
    expected, recorded = read(case(golden, name))
    found, metadata = run(monkeypatch, reference, golden, case(golden, name), tmp_path / "t")
    assert found.keys() == expected.keys()
    for tap, value in expected.items():
        assert found[tap].shape == value.shape, tap
        assert (found[tap].dtype.kind == "f") == (value.dtype.kind == "f"), tap
    assert np.array_equal(found["ids"], expected["ids"])
    assert np.array_equal(found["types"], expected["types"])
    for key in ("model", "calls", "activations", "index_keys", "format"):
        assert metadata[key] == recorded[key]
    for tap, value in found.items():
        if tap.endswith("gate.topk"):
            assert (np.diff(value, axis=-1) > 0).all(), tap
        if tap.endswith("indexer.topk"):  # the stand-in's window offset is gone
            visible = found[tap.replace("topk", "scores")].shape[-1]
            assert value.min() >= -1 and value.max() < visible, tap


def test_every_stage_has_a_tap(monkeypatch, reference, golden, root, tmp_path):
    stages = load(root, "deepseek_v41")
    found, _ = run(monkeypatch, reference, golden, case(golden, "image_one"), tmp_path / "t")
    used = [matches(stages, tap) for tap in found]
    assert all(len(m) == 1 for m in used)
    assert {m[0]["tap"] for m in used} == {stage["tap"] for stage in stages}


def test_prompt_in_steps_and_given_ids(monkeypatch, reference, golden, tmp_path):
    found, metadata = run(monkeypatch, reference, golden, case(golden, "text_steps"), tmp_path / "t",
                          taps="*.embed")
    expected, recorded = read(case(golden, "text_steps"))
    assert metadata["calls"] == recorded["calls"]
    assert {n: v.shape for n, v in found.items()} == {
        n: v.shape for n, v in expected.items() if n.endswith(".embed")}
    found, metadata = run(monkeypatch, reference, golden, case(golden, "text_5"), tmp_path / "t",
                          tokens=[7, 8, 9], prefill=6)
    assert json.loads(metadata["calls"]) == [[0, 6], [6, 1], [7, 1], [8, 1]]
    with pytest.raises(TraceError, match="first call only"):
        run(monkeypatch, reference, golden, case(golden, "image_one"), tmp_path / "t", prefill=3)


def test_nothing_stays_wrapped(monkeypatch, reference, golden, tmp_path):
    program = reference.model
    before = (program.sparse_attn, program.Block.hc_post, program.Indexer.forward, torch.Tensor.topk,
              torch.nn.functional.softplus, reference.vision.get_vision_cos_sin)
    run(monkeypatch, reference, golden, case(golden, "text_1"), tmp_path / "t")
    assert before == (program.sparse_attn, program.Block.hc_post, program.Indexer.forward,
                      torch.Tensor.topk, torch.nn.functional.softplus,
                      reference.vision.get_vision_cos_sin)


def test_own_index_keys_are_put_into_the_slot(monkeypatch, reference, golden, tmp_path):
    seen = []
    forward = reference.model.Indexer.forward

    def spy(module, *args):
        seen.append(reference.model.shared_attn.index_k is module.k_cache)
        return forward(module, *args)
    monkeypatch.setattr(reference.model.Indexer, "forward", spy)
    for keys in ("reference", "own"):
        seen.clear()
        _, metadata = run(monkeypatch, reference, golden, case(golden, "text_1"), tmp_path / "t",
                          index_keys=keys, decode_calls=0)
        assert metadata["index_keys"] == keys and any(seen) == (keys == "own")


def test_parameters_are_the_checkpoints(reference, golden):
    tokenizer = deepseek_v41.load_tokenizer(os.path.join(golden, "model"))
    net, arguments = loader.load_model(reference, os.path.join(golden, "model"), tokenizer, 128)
    parameters = dict(net.named_parameters())
    checkpoint = loader.Checkpoint(os.path.join(golden, "model"))
    kinds = set()
    for name, parameter in parameters.items():
        stored = checkpoint.get(name)
        if name.endswith("attn.wo_a.weight"):
            scale = checkpoint.get(name.replace("weight", "scale")).float()
            rows, columns = stored.shape
            by_hand = torch.stack([stored[r].float() * scale[r // 32].repeat_interleave(32)[:columns]
                                   for r in range(rows)]).bfloat16()
            assert torch.equal(parameter, by_hand)
        elif parameter.dtype == torch.float32 and stored.dtype == torch.bfloat16:
            assert torch.equal(parameter, stored.float())
        else:
            assert torch.equal(parameter.reshape(-1).view(torch.uint8),
                               stored.reshape(-1).view(torch.uint8))
        kinds.add((str(parameter.dtype), str(stored.dtype)))
    assert len(kinds) >= 5 and len(parameters) > 900
    assert arguments.dim == 96 and arguments.window_size == 16 and arguments.rope_factor == 4
    assert len(arguments.compress_ratios) == arguments.n_layers + arguments.n_mtp_layers


def test_wrong_checkpoints_are_named(reference, golden, monkeypatch):
    parameters = reference.model.PARAMETERS
    folder = os.path.join(golden, "model")
    tokenizer = deepseek_v41.load_tokenizer(folder)
    name, shape, dtype = parameters[0]
    for wrong, message in (((name, [3, 5], dtype), "has shape"), ((name, shape, torch.float64), "wants"),
                           (("layers.0.more", [1], dtype), "checkpoint and program differ")):
        monkeypatch.setattr(reference.model, "PARAMETERS", [wrong] + parameters[1:])
        with pytest.raises(TraceError, match=message):
            loader.load_model(reference, folder, tokenizer, 128)


FLAT = """
import sys
sys.path.insert(0, sys.argv[1])
from deepseek_v41_reference import load_reference
r = load_reference(sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None)
assert r.model.Vision is r.vision.Vision and r.model.EngramHash is r.engram.EngramHash
print(r.model.sparse_attn.__name__, r.encoding.IMAGE_PLACEHOLDER == r.image_processor.IMAGE_PLACEHOLDER)
"""


def test_modules_that_import_one_another_by_name(tmp_path):
    """The released layout: kernel.py, which needs a GPU, gives way to kernels for CPU."""
    shutil.copytree(STAND_IN, tmp_path / "release")
    inference = tmp_path / "release" / "inference"
    text = (inference / "model.py").read_text().replace("from .", "from ")
    text = text.replace("def sparse_attn", "from kernel import sparse_attn\n\n\ndef unused")
    (inference / "model.py").write_text(text)
    (inference / "kernel.py").write_text("raise ImportError('needs a GPU')\n")
    kernels = tmp_path / "my_kernels.py"
    kernels.write_text("def cpu_attn(*args):\n    pass\n\n\nsparse_attn = cpu_attn\n")
    command = [sys.executable, "-B", "-c", FLAT, ORACLE, str(tmp_path / "release")]
    assert subprocess.run(command, capture_output=True).returncode != 0
    named = subprocess.run([*command, str(kernels)], capture_output=True, text=True, check=True)
    assert named.stdout.split() == ["cpu_attn", "True"]
    shutil.copy(kernels, inference / "kernel_cpu.py")
    beside = subprocess.run(command, capture_output=True, text=True, check=True)
    assert beside.stdout.split() == ["cpu_attn", "True"]


def test_folder_without_the_program(tmp_path):
    with pytest.raises(TraceError, match="model.py is missing; --reference names"):
        loader.load_reference(str(tmp_path))
