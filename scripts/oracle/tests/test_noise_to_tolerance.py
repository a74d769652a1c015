import fnmatch
import json
import os
import subprocess
import sys

import pytest
from conftest import ORACLE
from noise_to_tolerance import rounded_up, rules_of, value_stages, worst_noise

# How the files of share/tolerance were made.
QWEN = ["qwen3vl-tiny/traces/noise.json", "qwen3vl-moe-tiny/traces/noise.json"]
QWEN_SOURCE = ["--stages", "share/stages/qwen3_vl.json", "--source", "qwen3vl-tiny, qwen3vl-moe-tiny"]
V41 = ["--noise", "tests/golden/v41-tiny/noise.json", "--stages", "share/stages/deepseek_v41.json",
       "--source", "v41-tiny"]


def modes(*names):
    return [word for name in names for word in ("--mode", name)]


MADE_OF_REPOSITORY = {
    "deepseek_v41.json": V41 + modes("free") + ["--cases", "text_1,text_5,text_mid,image_one,image_medium"],
    "deepseek_v41.forced.json": V41 + modes("blocks", "all"),
}
MADE_OF_GOLDENS = {
    "qwen3_vl.json": modes("bf16_eager", "bf16_f64", "bf16_457") + ["--factor", "2"],
    "qwen3_vl.f32.json": modes("f32_eager", "f32_f64", "f32_457") + ["--grid", "f32"],
}


def generate(root, out, arguments):
    command = [sys.executable, os.path.join(ORACLE, "noise_to_tolerance.py"), "--out", str(out)]
    subprocess.run(command + arguments, cwd=root, check=True, capture_output=True)
    return out.read_text()


def committed(root, name):
    with open(os.path.join(root, "share", "tolerance", name), encoding="utf-8") as file:
        return file.read()


@pytest.mark.parametrize("name", list(MADE_OF_REPOSITORY))
def test_v41_files_are_up_to_date(root, tmp_path, name):
    assert generate(root, tmp_path / name, MADE_OF_REPOSITORY[name]) == committed(root, name)


@pytest.mark.parametrize("name", list(MADE_OF_GOLDENS))
def test_qwen3_vl_files_are_up_to_date(root, goldens, tmp_path, name):
    noise = [word for file in QWEN for word in ("--noise", os.path.join(goldens, file))]
    arguments = noise + QWEN_SOURCE + MADE_OF_GOLDENS[name]
    assert generate(root, tmp_path / name, arguments) == committed(root, name)


def stage(tap, grid="bf16", kind="values"):
    return {"tap": tap, "kind": kind, "grid": grid}


MAP = {"stages": [
    {"tap": "ids", "kind": "integers"},
    {"each": "i", "stages": [stage("image{i}.patches"), stage("image{i}.vision.norm"),
                             stage("image{i}.aligner")]},
    {"each": "k", "stages": [
        {"each": "l", "stages": [
            stage("c{k}.layers.{l}.attn.q"), stage("c{k}.layers.{l}.attn"),
            stage("c{k}.layers.{l}.attn.mix.pre", "f32"), stage("c{k}.layers.{l}.ffn.mix.pre", "f32"),
            stage("c{k}.layers.{l}.ffn.gate.topk", kind="picks"), stage("c{k}.layers.{l}", "f32")]},
        stage("c{k}.norm"), stage("c{k}.confidence", "f32")]}]}


def limits(noise, names, factor=8, ceiling=0.5):
    worst = worst_noise([noise], ["m"])
    rules = rules_of(value_stages(MAP), worst, factor, ceiling)
    out = []
    for name in names:
        rule = next((r for r in rules if any(fnmatch.fnmatchcase(name, glob)
                                             for glob in r["taps"].split(","))), None)
        assert rule is None or rule["row"] == pytest.approx(8 * rule["rms"])
        out.append(rule and rule["rms"])
    return out


def v41(taps, other=None):
    cases = {"a": {"modes": {"m": {"taps": {t: [0, x, 0] for t, x in taps.items()}}}}}
    more = {t: [0, x, 0] for t, x in (other or {}).items()}
    return cases | {"b": {"modes": {"m": {"taps": more}, "n": {"taps": {"prefill.norm": [0, 9, 0]}}}}}


def test_worst_of_cases_times_factor_between_floor_and_ceiling():
    noise = v41({"prefill.norm": 1e-3, "decode.norm": 1e-5, "decode.confidence": 0},
                {"prefill.norm": 2e-3, "decode.norm": 1e-3, "prefill.confidence": 0.2})
    assert limits(noise, ["c0.norm", "c1.norm", "c12.norm", "c0.confidence", "c3.confidence"]) == [
        0.016, 0.008, 0.008, 0.5, 1e-5]


def test_first_call_and_others_are_kept_apart():
    noise = v41({"prefill.layers.*.attn": 0.01, "decode.layers.*.attn": 0.02})
    assert limits(noise, ["c0.layers.3.attn", "c1.layers.3.attn", "c0.norm"]) == [0.08, 0.16, None]


def test_relatives_of_taps_that_are_not_listed():
    noise = v41({"prefill.layers.0": 0.001, "prefill.layers.1": 0.02, "prefill.layers.2": 0.01,
                 "prefill.layers.0.ffn.mix.pre": 1e-4, "prefill.layers.1.ffn.mix.pre": 1e-3,
                 "prefill.layers.2.ffn.mix.pre": 1e-3, "image1.aligner": 1e-3})
    # By the name's ancestors: layers.1.attn.q -> layers.1; layers behind: the noisiest.
    assert limits(noise, ["c0.layers.0.attn.q", "c0.layers.1.attn.q", "c0.layers.2",
                          "c0.layers.39", "c0.layers.39.attn.q"]) == [0.008, 0.16, 0.08, 0.16, 0.16]
    # Mixing weights by the one that is listed.
    assert limits(noise, ["c0.layers.0.attn.mix.pre", "c0.layers.12.attn.mix.pre"]) == [8e-4, 8e-3]
    # The tower by its last tap; what is made of integers has no noise.
    assert limits(noise, ["image0.vision.norm", "image3.aligner", "image0.patches"]) == [
        8e-3, 8e-3, 2e-3]
    # Integers and choices have no rule of their own.
    assert limits(noise, ["ids", "c1.layers.0"]) == [None, None]


def test_columns_form():
    noise = {"cases": {"a": {"c0.norm": {"m": [0, 0.01], "n": [0, 0.9]}, "cD.norm": {"m": [0, 0.02]}}}}
    assert limits(noise, ["c0.norm", "c5.norm"]) == [0.08, 0.16]


def test_rounding_never_goes_below():
    for value in (0.0131, 1e-5, 9.91e-3, 0.5, 0.0130000000000000002, 0.096):
        assert value * (1 - 1e-12) <= rounded_up(value) <= value * 1.1
    assert rounded_up(0.0131) == 0.014 and rounded_up(9.91e-3) == 0.01


def test_unknown_modes_are_an_error(root, tmp_path):
    command = [sys.executable, os.path.join(ORACLE, "noise_to_tolerance.py"), "--out",
               str(tmp_path / "t.json"), *V41, "--mode", "fre"]
    failed = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert failed.returncode == 1 and "no case has the mode fre" in failed.stderr
    assert len(failed.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", [*MADE_OF_REPOSITORY, *MADE_OF_GOLDENS])
def test_form_of_the_files(root, name):
    value = json.loads(committed(root, name))
    assert value.keys() == {"format", "source", "rules"} and value["format"] == "tolerance/1"
    for rule in value["rules"]:
        assert rule["taps"] and 0 < rule["rms"] <= 0.5 and rule["row"] == pytest.approx(8 * rule["rms"])
