"""Against recorded traces of the same transformers version.

On another CPU torch sums in another order, so floating-point taps agree within the noise that
share/tolerance knows, and bit for bit only on the machine that recorded them.
"""

import argparse
import fnmatch
import glob
import json
import os

import numpy as np
import pytest
import torch
from compare import compare, read

transformers = pytest.importorskip("transformers")
qwen3_vl = pytest.importorskip("qwen3_vl")
from case_file import load_case  # noqa: E402

CASES = [("qwen3vl-tiny", case) for case in ("text", "one", "one_pil", "two", "video",
                                             "video_wrapped", "mixed", "wide", "tall", "limits")]
CASES += [("qwen3vl-moe-tiny", case) for case in ("text", "one", "two", "wide")]
TOLERANCES = {"f32": "qwen3_vl.f32.json", "bf16": "qwen3_vl.json"}


def run(model, source, out, **changes):
    torch.set_num_threads(1)
    options = dict(model=model, input=source, out=str(out), activations="f32", processor=None,
                   detail=True, decode_calls=None, tokens=[], all_logits=False, taps="*", threads=1)
    args = argparse.Namespace(**(options | changes))
    qwen3_vl.trace(load_case(source), args)
    return read(str(out))


def rms_limit(root, activations):
    path = os.path.join(root, "share", "tolerance", TOLERANCES[activations])
    with open(path, encoding="utf-8") as file:
        rules = json.load(file)["rules"]
    return lambda tap: next(r["rms"] for r in rules if any(
        fnmatch.fnmatchcase(tap, glob_) for glob_ in r["taps"].split(",")))


@pytest.mark.parametrize("activations", ["f32", "bf16"])
@pytest.mark.parametrize("model, case", CASES)
def test_every_recorded_tap(root, goldens, tmp_path, model, case, activations):
    folder = os.path.join(goldens, model)
    source = os.path.join(folder, "traces", f"{case}.{activations}.safetensors")
    expected, recorded = read(source)
    found, metadata = run(folder, source, tmp_path / "t", activations=activations)
    result = compare(expected, found)
    assert result.missing == [] and result.shapes == []
    for key in ("model", "calls", "tokens", "prompt"):
        assert metadata[key] == recorded[key]
    assert json.loads(metadata["case"]) == json.loads(recorded["case"])
    assert metadata["activations"] == activations and metadata["format"] == "trace/1"
    limit = rms_limit(root, activations)
    for name, value in expected.items():
        if value.dtype.kind == "f":
            distance = np.linalg.norm((value - found[name]).astype(np.float64))
            assert distance <= limit(name) * np.linalg.norm(value.astype(np.float64)), name
        elif activations == "f32" or not name.endswith(".topk"):
            assert np.array_equal(value, found[name]), name
        else:  # two experts as good as equal in bf16: a row in fifty
            assert (value == found[name]).all(-1).mean() >= 0.9, name


def test_options(goldens, tmp_path):
    folder = os.path.join(goldens, "qwen3vl-tiny")
    source = os.path.join(folder, "traces", "two.f32.safetensors")
    tokens = [3, 5]
    found, metadata = run(folder, source, tmp_path / "t", tokens=tokens, decode_calls=2,
                          all_logits=True, detail=False, taps="*.logits,ids,c?.embed")
    rows = len(found["ids"])
    assert found["c0.logits"].shape[0] == rows and found["c2.logits"].shape[0] == 1
    assert json.loads(metadata["calls"]) == [[0, rows], [rows, 1], [rows + 1, 1]]
    assert {n.split(".", 1)[1] for n in found if "." in n} == {"logits", "embed"}
    # Fed ids, not chosen ones, are embedded.
    prompt, _ = run(folder, source, tmp_path / "u", decode_calls=0, taps="ids,c0.embed")
    places = {int(i): row for i, row in zip(prompt["ids"], prompt["c0.embed"])}
    for call, token in enumerate(tokens, 1):
        if token in places:
            assert np.array_equal(found[f"c{call}.embed"][0], places[token])
    assert json.loads(metadata["tokens"])[0] == int(found["c0.logits"][-1].argmax())


def test_a_case_file_with_a_prompt(goldens, tmp_path):
    folder = os.path.join(goldens, "qwen3vl-tiny")
    trace = os.path.join(folder, "traces", "one.f32.safetensors")
    expected, recorded = read(trace)
    picture = json.loads(recorded["case"])["messages"][0]["content"][0]["image"]
    case = tmp_path / "case.json"
    case.write_text(json.dumps({"prompt": recorded["prompt"],
                                "images": [os.path.join(folder, picture)], "decode_calls": 0}))
    found, _ = run(folder, str(case), tmp_path / "t", detail=False)
    assert np.array_equal(found["ids"], expected["ids"])
    assert np.array_equal(found["image0.pixels"], expected["image0.pixels"])


def test_there_are_no_other_cases(goldens):
    names = {(model, os.path.basename(f).split(".")[0]) for model in ("qwen3vl-tiny", "qwen3vl-moe-tiny")
             for f in glob.glob(os.path.join(goldens, model, "traces", "*.safetensors"))}
    assert names == set(CASES)
