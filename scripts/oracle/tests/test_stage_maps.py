import glob
import os
import re

import pytest
from compare import read
from stage_maps import load, matches

KINDS = {"values", "picks", "mask", "integers", "image"}
GRIDS = {"f32", "bf16", "e4m3", "e2m1"}
ROWS = {"tokens", "patches", "cells", "lines", "groups", "block", "last"}


@pytest.mark.parametrize("name", ["deepseek_v41", "qwen3_vl"])
def test_entries_are_well_formed(root, name):
    stages = load(root, name)
    taps = [stage["tap"] for stage in stages]
    assert len(set(taps)) == len(taps)
    plain = {re.sub(r"\{[^}]*\}", "#", tap): i for i, tap in reversed(list(enumerate(taps)))}
    for i, stage in enumerate(stages):
        assert stage.keys() <= {"tap", "kind", "grid", "rows", "parents", "scores", "hints"}
        assert stage["kind"] in KINDS and stage.get("grid", "f32") in GRIDS
        assert stage.get("rows", "tokens") in ROWS and all(stage["hints"])
        assert (stage["kind"] == "values") == ("grid" in stage) or "rope" in stage["tap"]
        for parent in stage.get("parents", []) + ([stage["scores"]] if "scores" in stage else []):
            for alternative in parent.split("|"):
                place = plain.get(re.sub(r"\{[^}]*\}", "#", alternative))
                assert place is not None, f"{stage['tap']}: no stage {alternative}"
                # {l-1} is an earlier turn of the repetition; all else stands before.
                assert "-1}" in alternative or place < i, f"{stage['tap']}: {alternative} is later"


def check_taps(stages, files):
    used = set()
    assert files
    for file in files:
        for tap, value in read(file)[0].items():
            found = matches(stages, tap)
            assert len(found) == 1, f"{file}: {tap} fits {[s['tap'] for s in found]}"
            used.add(found[0]["tap"])
            is_integer = value.dtype.kind in "iu"
            assert is_integer == (found[0]["kind"] not in ("values",)), tap
    return used


def test_every_recorded_tap_of_v41_has_a_stage(root):
    stages = load(root, "deepseek_v41")
    files = glob.glob(os.path.join(root, "tests/golden/v41-tiny/cases/*.safetensors"))
    assert check_taps(stages, files) == {stage["tap"] for stage in stages}


def test_every_recorded_tap_of_qwen3_vl_has_a_stage(root, goldens):
    stages = load(root, "qwen3_vl")
    used = check_taps(stages, glob.glob(os.path.join(goldens, "qwen3vl*-tiny/traces/*.safetensors")))
    assert used == {stage["tap"] for stage in stages
                    if not re.search(r"video.*\.(norm[12]|attn.*|mlp)$", stage["tap"])}
