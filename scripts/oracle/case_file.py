"""Requests: the case files that `tessera run --input` reads, and the `case` of a trace.

A case file is JSON: one case, a list of messages, or a list of cases. A case has `messages`, or
`prompt` with `images`. A trace (NAME.safetensors) stands for the request in its metadata, so that a
recorded request can be run again.
"""

import json
import os
import struct
from dataclasses import dataclass

from trace_writer import TraceError

HEADER_MAX = 1 << 28  # bytes of a safetensors header


@dataclass
class Case:
    value: dict          # as the file has it
    folders: list[str]   # where its picture files are looked for, in this order

    def find(self, name: str) -> str:
        """Path of a file or folder that the case names."""
        tried = [os.path.join(folder, name) for folder in self.folders]
        for path in tried:
            if os.path.exists(path):
                return path
        raise TraceError(f"the case names '{name}', which is in none of {', '.join(self.folders)}; "
                         "name its folder with --image-root")


def read_header(path: str) -> dict:
    """The JSON header of a safetensors file."""
    try:
        with open(path, "rb") as file:
            start = file.read(8)
            size = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
            text = file.read(size) if 2 <= size <= HEADER_MAX else b""
        return json.loads(text)
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise TraceError(f"{path}: expected a safetensors file, found no header") from error


def read_json(path: str) -> object:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise TraceError(f"{path}: expected JSON: {error}") from error


def is_message_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(m, dict) and "role" in m for m in value)


def load_cases(path: str) -> list[dict]:
    if path.endswith(".safetensors"):
        text = read_header(path).get("__metadata__", {}).get("case")
        if text is None:
            raise TraceError(f"{path}: the trace does not say its request (metadata 'case')")
        root = json.loads(text)
    else:
        root = read_json(path)
    if is_message_list(root):
        return [{"messages": root}]
    cases = root if isinstance(root, list) else [root]
    for case in cases:
        if not isinstance(case, dict) or not ("messages" in case or "prompt" in case):
            raise TraceError(f"{path}: expected a case with 'messages' or 'prompt', a list of "
                             "messages, or a list of cases")
    return cases


def pick(cases: list[dict], which: str | None, path: str) -> dict:
    """The case that a name or a number from 0 stands for; the only one without."""
    if which is None:
        if len(cases) != 1:
            raise TraceError(f"{path} has {len(cases)} cases; name one with --case NAME or --case N")
        return cases[0]
    for case in cases:
        if case.get("name") == which:
            return case
    if which.isdigit() and int(which) < len(cases):
        return cases[int(which)]
    raise TraceError(f"--case {which}: {path} has no case of this name and {len(cases)} cases, "
                     "numbered from 0")


def load_case(path: str, which: str | None = None, image_root: str | None = None) -> Case:
    folder = os.path.dirname(os.path.abspath(path))
    folders = [folder, os.path.dirname(folder)] + ([image_root] if image_root else [])
    return Case(pick(load_cases(path), which, path), folders)
