#!/usr/bin/env python3
"""check_reproducible.py BUILD_DIR [SOURCE...]: the same source in two folders gives the same object.

Takes the compile commands of a configured build, runs them in two copies of the sources with
different paths and compares the objects byte by byte.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from check_common import ROOT, Report

# One file with the project's checks (__FILE__), one kernel, one file with third-party headers.
SOURCES = ["src/base/thread_pool.cc", "src/tensor/dtype.cc", "src/base/log.cc"]


def compile_in(copy, entry):
    """Object bytes of one source, compiled inside a copy of the tree."""
    command = re.sub(re.escape(ROOT) + r"\b", copy, entry["command"])
    folder = entry["directory"].replace(ROOT, copy, 1)
    output = os.path.join(folder, re.search(r" -o (\S+\.o) ", command).group(1))
    os.makedirs(os.path.dirname(output), exist_ok=True)
    subprocess.run(command, shell=True, check=True, cwd=folder,
                   env={**os.environ, "CCACHE_DISABLE": "1"})
    with open(output, "rb") as file:
        return file.read()


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: check_reproducible.py BUILD_DIR [SOURCE...]")
    build = os.path.abspath(sys.argv[1])
    sources = sys.argv[2:] or SOURCES
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = {os.path.relpath(entry["file"], ROOT): entry for entry in json.load(file)}
    report = Report("check_reproducible")
    with tempfile.TemporaryDirectory() as folder:
        copies = [os.path.join(folder, name) for name in ("one", "another-place/two")]
        for copy in copies:
            for part in ("src", "apps"):
                shutil.copytree(os.path.join(ROOT, part), os.path.join(copy, part))
            os.makedirs(build.replace(ROOT, copy, 1), exist_ok=True)
        for source in sources:
            if source not in entries:
                report.add(source, 1, f"not in {build}/compile_commands.json")
                continue
            first, second = (compile_in(copy, entries[source]) for copy in copies)
            if first != second:
                report.add(source, 1, "objects of two build folders differ; is a path compiled in?")
    report.finish(f"{len(sources)} objects built twice")


if __name__ == "__main__":
    main()
