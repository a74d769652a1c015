"""Compares two trace files tap by tap; plain numpy, independent of the writer under test."""

import json
from dataclasses import dataclass

import numpy as np

DTYPES = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "I32": "<i4", "U8": "u1"}


def read(path: str) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Tensors, BF16 widened to float32, and metadata. Offsets must cover the file without gaps."""
    with open(path, "rb") as file:
        data = file.read()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    metadata = header.pop("__metadata__", {})
    body, tensors, end = data[8 + size:], {}, 0
    for name, entry in sorted(header.items(), key=lambda e: e[1]["data_offsets"]):
        first, last = entry["data_offsets"]
        assert first == end, f"{path}: gap before {name}"
        end = last
        if entry["dtype"] == "BF16":
            bits = np.frombuffer(body[first:last], "<u2").astype("<u4") << 16
            value = bits.view("<f4")
        else:
            value = np.frombuffer(body[first:last], DTYPES[entry["dtype"]])
        tensors[name] = value.reshape(entry["shape"])
    assert end == len(body), f"{path}: {len(body) - end} bytes behind the last tensor"
    return tensors, metadata


@dataclass
class Comparison:
    compared: int           # taps that both have
    equal: int              # of these, equal in every element
    missing: list[str]      # taps of the reference that the other lacks
    shapes: list[str]       # taps of different shapes
    differing: list[str]    # "tap: relative L2, share of changed values"
    worst: float            # largest relative L2


def compare(reference: dict[str, np.ndarray], ours: dict[str, np.ndarray]) -> Comparison:
    out = Comparison(0, 0, [], [], [], 0.0)
    for name, expected in reference.items():
        if name not in ours:
            out.missing.append(name)
            continue
        found = ours[name]
        if found.shape != expected.shape:
            out.shapes.append(f"{name}: {found.shape}, expected {expected.shape}")
            continue
        out.compared += 1
        a, b = expected.astype(np.float64), found.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if same.all():
            out.equal += 1
            continue
        difference = np.where(same, 0.0, a - b)
        norm = float(np.linalg.norm(np.where(np.isfinite(a), a, 0.0)))
        relative = float(np.linalg.norm(difference)) / norm if norm else float("inf")
        out.worst = max(out.worst, relative)
        out.differing.append(f"{name}: relative L2 {relative:.3g}, {1 - same.mean():.3g} changed")
    return out
