"""Writes a trace/1 file: a safetensors file of named tensors, one at a time.

Floating-point values become F32, which must hold them exactly (bf16, fp16 and fp8 are widened, fp64
is refused); integers and booleans become I64. Memory: one tensor in its stored form. The bytes wait
in two unnamed temporary files beside the output, integers apart from floats so that every tensor is
aligned, and move into place when commit() knows the header; the disk holds them twice for that time.
Without commit() no file appears.
"""

import fnmatch
import json
import os
import shutil
import sys
import tempfile
from types import TracebackType
from typing import BinaryIO

import torch

FORMAT = "trace/1"
WIDENED = (torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2,
           torch.float8_e8m0fnu)
INTEGERS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32,
            torch.uint32, torch.int64)


class TraceError(Exception):
    """Something that the user can mend; the message is one line."""


def stored(name: str, value: torch.Tensor) -> torch.Tensor:
    """The value as the file has it: contiguous F32 or I64 in main memory."""
    value = value.detach()
    if value.dtype in WIDENED:
        wanted = torch.float32
    elif value.dtype in INTEGERS:
        wanted = torch.int64
    else:
        raise TraceError(f"tap '{name}': {value.dtype} fits neither F32 nor I64 exactly; convert "
                         "it before it is recorded")
    return value.to("cpu", wanted).contiguous()


class TraceWriter:
    """`taps`: globs separated by ','; `*` is any run of characters, dots too. Others are dropped."""

    def __init__(self, path: str, taps: str = "*") -> None:
        if sys.byteorder != "little":
            raise TraceError("safetensors files are little endian, this machine is not")
        self.path = path
        self.globs = [glob for glob in taps.split(",") if glob]
        if not self.globs:
            raise TraceError(f"taps '{taps}': expected at least one name or pattern; '*' for all")
        folder = os.path.dirname(os.path.abspath(path))
        try:
            self.spools: dict[str, BinaryIO] = {dtype: tempfile.TemporaryFile(dir=folder)
                                                for dtype in ("I64", "F32")}
        except OSError as error:
            raise TraceError(f"{path}: {error.strerror}; name a folder that takes files") from error
        self.entries: dict[str, tuple[str, list[int], int, int]] = {}  # dtype, shape, first, last

    def __enter__(self) -> "TraceWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        for spool in self.spools.values():
            spool.close()

    def wants(self, name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, glob) for glob in self.globs)

    def add(self, name: str, value: torch.Tensor) -> None:
        """Every name comes once."""
        if not self.wants(name):
            return
        if name in self.entries:
            raise TraceError(f"tap '{name}' came twice; two rules give it, or a module runs twice "
                             "in one call")
        data = stored(name, value)
        dtype = "F32" if data.dtype == torch.float32 else "I64"
        spool = self.spools[dtype]
        first = spool.tell()
        if data.numel() > 0:
            spool.write(memoryview(data.reshape(-1).view(torch.uint8).numpy()))
        self.entries[name] = (dtype, list(data.shape), first, spool.tell())

    def commit(self, metadata: dict[str, str]) -> None:
        """Writes the file. `format` is added; empty values are left out."""
        header: dict[str, object] = {
            "__metadata__": {"format": FORMAT} | {k: v for k, v in metadata.items() if v}}
        base = {"I64": 0, "F32": self.spools["I64"].tell()}
        for name, (dtype, shape, first, last) in sorted(self.entries.items(),
                                                        key=lambda e: (e[1][0] != "I64", e[1][2])):
            offsets = [base[dtype] + first, base[dtype] + last]
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        part = self.path + ".part"
        try:
            with open(part, "wb") as file:
                file.write(len(text).to_bytes(8, "little") + text)
                for spool in self.spools.values():
                    spool.seek(0)
                    shutil.copyfileobj(spool, file, 1 << 20)
            os.replace(part, self.path)
        except OSError as error:
            raise TraceError(f"{self.path}: {error.strerror}; the trace was not written") from error
