"""Stage maps as src/trace/stages.h reads them; for tests."""

import json
import os
import re

from noise_to_tolerance import entries

HOLE = re.compile(r"\\\{(\w+)\\\}")


def load(root: str, name: str) -> list[dict]:
    with open(os.path.join(root, "share", "stages", name + ".json"), encoding="utf-8") as file:
        value = json.load(file)
    assert value["format"] == "stages/1" and value["name"]
    return list(entries(value["stages"]))


def pattern(tap: str) -> re.Pattern:
    seen: set[str] = set()

    def hole(match: re.Match) -> str:
        name = match.group(1)
        first = name not in seen
        seen.add(name)
        return rf"(?P<{name}>\d+)" if first else rf"(?P={name})"

    return re.compile(HOLE.sub(hole, re.escape(tap)) + r"\Z")


def matches(stages: list[dict], tap: str) -> list[dict]:
    return [stage for stage in stages if pattern(stage["tap"]).match(tap)]
