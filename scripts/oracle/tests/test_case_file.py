import json
import os

import pytest
import torch
from case_file import load_case
from trace_writer import TraceError, TraceWriter

MESSAGES = [{"role": "user", "content": "Hi"}]


def write(path, value):
    path.write_text(json.dumps(value), encoding="utf-8")
    return str(path)


def test_the_three_forms(tmp_path):
    path = tmp_path / "case.json"
    assert load_case(write(path, MESSAGES)).value == {"messages": MESSAGES}
    assert load_case(write(path, {"prompt": "x"})).value == {"prompt": "x"}
    cases = [{"name": "a", "prompt": "x"}, {"name": "b", "messages": MESSAGES}]
    file = write(path, cases)
    assert load_case(file, "b").value == cases[1]
    assert load_case(file, "0").value == cases[0]
    for which in ("c", "2", "-1"):
        with pytest.raises(TraceError, match="no case of this name and 2 cases"):
            load_case(file, which)
    with pytest.raises(TraceError, match="has 2 cases; name one"):
        load_case(file)


def test_a_trace_holds_its_request(tmp_path):
    path = str(tmp_path / "t.safetensors")
    with TraceWriter(path) as writer:
        writer.add("ids", torch.tensor([1]))
        writer.commit({"case": json.dumps({"messages": MESSAGES})})
    assert load_case(path).value == {"messages": MESSAGES}
    with TraceWriter(path) as writer:
        writer.commit({"producer": "x"})
    with pytest.raises(TraceError, match="does not say its request"):
        load_case(path)


@pytest.mark.parametrize("text", ["{", "[]]", "7", '{"ids": []}', "[1]"])
def test_bad_files_are_named(tmp_path, text):
    path = tmp_path / "case.json"
    path.write_text(text)
    with pytest.raises(TraceError, match="case.json: expected"):
        load_case(str(path))


def test_bad_traces_are_named(tmp_path):
    path = tmp_path / "t.safetensors"
    for data in (b"", b"\xff" * 8, (4).to_bytes(8, "little") + b"nope"):
        path.write_bytes(data)
        with pytest.raises(TraceError, match="expected a safetensors file"):
            load_case(str(path))
    with pytest.raises(TraceError, match="No such file"):
        load_case(str(tmp_path / "missing.safetensors"))


def test_pictures_are_looked_for_in_three_folders(tmp_path):
    (tmp_path / "cases").mkdir()
    (tmp_path / "more").mkdir()
    for name in ("cases/a.png", "b.png", "more/c.png"):
        (tmp_path / name).touch()
    file = write(tmp_path / "cases" / "case.json", {"prompt": "x"})
    case = load_case(file, image_root=str(tmp_path / "more"))
    for name, place in (("a.png", "cases/a.png"), ("b.png", "b.png"), ("c.png", "more/c.png")):
        assert os.path.samefile(case.find(name), tmp_path / place)
    with pytest.raises(TraceError, match="names 'd.png'.*--image-root"):
        case.find("d.png")
