#!/usr/bin/env python3
"""Checks who may include whom, and the rules for headers.

The table below is the design of the project (docs/architecture.md): dependencies point down.
Each offence is one line `path:line: message`; the exit status is 1 when there is one.
"""

import os
import re

from check_common import ROOT, Report, read_bytes, repository_files

# Folder under src/ -> folders it may include besides itself. `server` is narrower still: below.
ALLOWED = {
    "base": set(),
    "tensor": {"base"},
    "io": {"base", "tensor"},
    "tokenizer": {"base", "tensor", "io"},
    "image": {"base", "tensor"},
    "intake": {"base", "tensor", "io", "image"},
    "ops": {"base", "tensor"},
    "trace": {"base", "tensor", "io"},
    "models": {"base", "tensor", "io", "tokenizer", "image", "ops"},
    "runtime": {"base", "tensor", "io", "tokenizer", "image", "intake", "ops", "models"},
    "server": {"base", "io/json.h", "runtime/engine.h"},
}

# Programs see the engine boundary, the server, and JSON output. A subcommand's file (its name
# contains the word) may also include the modules that it exposes.
ANY_PROGRAM = {"base", "runtime/engine.h", "server", "io/json.h"}
SUBCOMMAND = {
    "diff": {"trace"},
    "trace": {"trace"},
    "inspect": {"io", "models"},
    "plan": {"io", "models", "runtime/machine.h", "runtime/machine_plan.h"},
    "synth": {"io", "models"},
    "convert": {"io", "models"},
    "tokenize": {"tokenizer", "models"},
    "picture": {"image"},
    "image": {"image", "intake", "io", "models"},  # pixels, their hashes, limits of a config.json
    "bench": {"ops", "bench"},  # what it measures
}

# A unit test sees what its module sees, and these.
ANY_TEST = {"base", "tensor", "io", "trace", "tests"}

# First part of a third-party include -> modules whose .cc files may have it. Tests, fuzz targets
# and benchmarks may use any of them.
THIRD_PARTY = {
    "nlohmann": {"io", "server"},
    "CLI": {"apps"},
    "histedit.h": {"apps"},
    "spdlog": {"base"},
    "fmt": {"base"},
    "pcre2.h": {"tokenizer"},
    "utf8proc.h": {"tokenizer", "models"},
    "jpeglib.h": {"intake"},
    "jerror.h": {"intake"},
    "zlib.h": {"intake"},
    "png.h": {"intake"},
    "webp": {"intake"},
    "gif_lib.h": {"intake"},
    "tiffio.h": {"intake"},
    "curl": {"intake"},
    "arpa": {"intake"},
    "netdb.h": {"intake"},
    "netinet": {"intake"},
    "openssl": {"io", "intake", "runtime", "server"},
    "xxhash.h": {"io", "intake", "models", "runtime", "trace"},
    "boost": {"server"},
    "curl": {"intake"},
    "prometheus": {"server"},
    "gtest": set(),
    "gmock": set(),
    "benchmark": set(),
    "lzma.h": set(),
}

# System headers; C++ standard headers have no dot and no slash.
SYSTEM = re.compile(
    r"^(sys/|linux/|arpa/|netinet/)|^(unistd|fcntl|sched|signal|dirent|poll|dlfcn|pthread|termios"
    r"|pwd|execinfo|ucontext|cpuid|[a-z]*intrin|netdb|ctype|string|stdio|setjmp|errno"
    r"|malloc|spawn|syscall|pty)\.h$")
# The C library headers and the intrinsics do not belong into public headers either, except where a
# header is part of one kernel level (its name contains the level).
KERNEL_LEVEL = re.compile(r"avx2|avx512")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


class Source:
    """One file: its module, and its includes as (line, quoted?, path)."""

    def __init__(self, path):
        self.path = path
        self.parts = path.split("/")
        self.name = self.parts[-1]
        self.is_header = self.name.endswith((".h", ".inl"))
        self.lines = read_bytes(path).decode("utf-8", "replace").split("\n")
        self.includes = []
        for number, line in enumerate(self.lines, 1):
            match = INCLUDE.match(line)
            if match:
                self.includes.append((number, match.group(1) == '"', match.group(2)))

    @property
    def module(self):
        return self.parts[1] if self.parts[0] == "src" else self.parts[0]

    @property
    def is_test(self):
        return (self.name.endswith(("_test.cc", "_bench.cc", "_test.h"))
                or self.name.startswith("test_") or self.module in ("tests", "fuzz", "bench"))


def target_module(source, include, headers):
    """The folder an include in quotes belongs to; a bare file name is in the source's own folder."""
    if "/" not in include:
        return source.module
    # The measuring libraries of bench/ include each other, and are included, from bench/.
    if "src/" + include not in headers and "bench/" + include in headers:
        return "bench"
    return include.split("/")[0]


def allowed_for(source):
    """Modules or single headers that a file may include, or None for all."""
    if source.module in ("tests", "fuzz", "bench"):
        return None
    if source.module == "apps":
        allowed = set(ANY_PROGRAM)
        for word in re.split(r"[_.]", source.name):
            allowed |= SUBCOMMAND.get(word, set())
        return allowed
    allowed = ALLOWED.get(source.module, set()) | {source.module}
    if source.is_test:
        allowed = allowed | ANY_TEST
    return allowed


def check_own_modules(report, source, headers):
    allowed = allowed_for(source)
    family = source.parts[2] if source.module == "models" and len(source.parts) > 3 else None
    for line, is_quoted, include in source.includes:
        if not is_quoted:
            continue
        if include.startswith(".") or "/../" in include:
            report.add(source.path, line, f"include \"{include}\" by its path from src/")
            continue
        module = target_module(source, include, headers)
        if source.module == "apps" and module == "apps":
            continue
        if allowed is not None and module not in allowed and include not in allowed:
            report.add(source.path, line,
                       f"{source.module} may not include \"{include}\" (allowed: "
                       f"{', '.join(sorted(allowed - {source.module})) or 'the standard library'})")
        parts = include.split("/")
        if family and module == "models" and len(parts) > 2 and parts[1] != family:
            report.add(source.path, line, f"model family {family} may not include {parts[1]}")


def check_outside_headers(report, source):
    for line, is_quoted, include in source.includes:
        if is_quoted:
            continue
        first = include.split("/")[0]
        if first in THIRD_PARTY:
            if source.is_header and not source.is_test:
                report.add(source.path, line, f"third-party <{include}> belongs into a .cc file")
            elif not source.is_test and source.module not in THIRD_PARTY[first]:
                report.add(source.path, line, f"{source.module} may not use <{include}> (allowed: "
                           f"{', '.join(sorted(THIRD_PARTY[first])) or 'tests'})")
        elif SYSTEM.match(include):
            if source.is_header and not KERNEL_LEVEL.search(source.name):
                report.add(source.path, line, f"system header <{include}> belongs into a .cc file")
        elif "." in include or "/" in include:
            report.add(source.path, line,
                       f"<{include}> is unknown; add it to THIRD_PARTY in scripts/check_includes.py")


def check_form(report, source, headers):
    if source.name.endswith(".h") and not any(line.strip() == "#pragma once" for line in source.lines):
        report.add(source.path, 1, "header without `#pragma once`")
    own = re.sub(r"\.cc$", ".h", source.path)
    if not source.is_header and own in headers:
        first = source.includes[0] if source.includes else (1, True, "none")
        if not ("/" + own).endswith("/" + first[2]):
            report.add(source.path, first[0], f"first include must be its own header {own}")
    for number, line in enumerate(source.lines, 1):
        # Namespaces are not indented, so what is indented is inside a function.
        if source.is_header and line.startswith("using namespace "):
            report.add(source.path, number, "`using namespace` at file scope")


def resolve(source, include, headers):
    """Path of an included header of ours, or None."""
    beside = "/".join(source.parts[:-1] + [include])
    for path in ("src/" + include, "bench/" + include, include, beside):
        if path in headers:
            return path
    return None


def check_cycles(report, headers):
    """Depth-first search over the headers; each cycle is reported where it closes."""
    edges = {
        path: [(line, target) for line, is_quoted, include in source.includes if is_quoted
               for target in [resolve(source, include, headers)] if target]
        for path, source in headers.items()
    }
    done, open_path = set(), []

    def visit(path):
        open_path.append(path)
        for line, target in edges[path]:
            if target in open_path:
                cycle = open_path[open_path.index(target):] + [target]
                report.add(path, line, "include cycle: " + " -> ".join(cycle))
            elif target not in done:
                visit(target)
        open_path.pop()
        done.add(path)

    for path in sorted(edges):
        if path not in done:
            visit(path)


def main():
    report = Report("check_includes")
    sources = [Source(path) for path in repository_files() if path.endswith((".h", ".inl", ".cc"))]
    headers = {source.path: source for source in sources if source.is_header}
    for folder in sorted(os.listdir(os.path.join(ROOT, "src"))):
        if os.path.isdir(os.path.join(ROOT, "src", folder)) and folder not in ALLOWED:
            report.add(f"src/{folder}", 1,
                       "folder is not in the table ALLOWED of scripts/check_includes.py")
    for source in sources:
        check_own_modules(report, source, headers)
        check_outside_headers(report, source)
        check_form(report, source, headers)
    check_cycles(report, headers)
    report.finish(f"{len(sources)} files, {sum(len(s.includes) for s in sources)} includes")


if __name__ == "__main__":
    main()
