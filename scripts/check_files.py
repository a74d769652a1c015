#!/usr/bin/env python3
"""Checks sizes and bytes of the repository's files, and the numbering of the decision pages.

Each offence is one line `path:line: message`; the exit status is 1 when there is one.
"""

import os
import re

from check_common import ROOT, Report, read_bytes, repository_files

SOURCE_LINES_MAX = 600
LARGE_FILE_BYTES = 1_000_000
REPOSITORY_BYTES_MAX = 80_000_000

# Recorded data and the demo checkpoint: bytes from outside, kept as they are.
DATA_FOLDERS = ("tests/golden/", "models/demo/", "fuzz/corpus/")
# Files of more than 1 MB elsewhere, each with its reason.
LARGE_FILES_ALLOWED = {}

SOURCE = re.compile(r"\.(h|inl|cc|py|sh|cmake|js|css|html)$|(^|/)CMakeLists\.txt$|^x$|^\.ci/run$")
TEXT = re.compile(r"\.(md|txt|json|toml|ya?ml|csv|svg)$|^LICENSE$|(^|/)\.[a-z-]+$")
# A long source says why on its first lines: `Long file: reason`.
LONG_FILE_REASON = re.compile(rb"Long file: \S+ \S+")
BUILD_TIME = re.compile(rb"\b__(DATE|TIME|TIMESTAMP)__\b")
# A home folder in a source, a test or a page is somebody's machine.
HOME_PATH = re.compile(rb"(?<![\w.~])/(home|root|Users)/\w")
DECISION = re.compile(r"^docs/decisions/(\d{4})-[a-z0-9]+(-[a-z0-9]+)*\.md$")


def line_of(data, offset):
    return data.count(b"\n", 0, offset) + 1


def check_text(report, path, data, is_source):
    if data and not data.endswith(b"\n"):
        report.add(path, line_of(data, len(data)), "no line end after the last line")
    if b"\r" in data:
        report.add(path, line_of(data, data.index(b"\r")), "carriage return; lines end in \\n only")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        report.add(path, line_of(data, error.start), "not UTF-8")
    for match in HOME_PATH.finditer(data):
        report.add(path, line_of(data, match.start()), "path of one person's machine")
    if not is_source:
        return
    if b"\t" in data:
        report.add(path, line_of(data, data.index(b"\t")), "tab; indent with blanks")
    if path != "scripts/check_files.py":
        for match in BUILD_TIME.finditer(data):
            report.add(path, line_of(data, match.start()),
                       f"{match.group(0).decode()} makes builds differ")
    lines = data.count(b"\n")
    head = b"\n".join(data.split(b"\n")[:15])
    if lines > SOURCE_LINES_MAX and not LONG_FILE_REASON.search(head):
        report.add(path, 1, f"{lines} lines, at most {SOURCE_LINES_MAX}; split it, or say why not "
                   "on its first lines with `Long file: reason`")


def check_decisions(report, paths):
    numbers = {}
    for path in paths:
        if not path.startswith("docs/decisions/"):
            continue
        match = DECISION.match(path)
        if not match:
            report.add(path, 1, "name must be NNNN-words-in-lower-case.md")
            continue
        number = int(match.group(1))
        if number in numbers:
            report.add(path, 1, f"number {number:04} is taken by {numbers[number]}")
        numbers[number] = path
        if not read_bytes(path).startswith(b"# %04d: " % number):
            report.add(path, 1, f"first line must be `# {number:04}: title`")
    for expected, number in enumerate(sorted(numbers), 1):
        if expected != number:
            report.add(numbers[number], 1, f"gap in the numbers: {expected:04} is missing")
            break


def main():
    report = Report("check_files")
    paths = repository_files()
    total = 0
    for path in paths:
        size = os.path.getsize(os.path.join(ROOT, path))
        total += size
        is_data = path.startswith(DATA_FOLDERS)
        if size > LARGE_FILE_BYTES and not is_data and path not in LARGE_FILES_ALLOWED:
            report.add(path, 1, f"{size} bytes, at most {LARGE_FILE_BYTES}; move it, or list it in "
                       "LARGE_FILES_ALLOWED of scripts/check_files.py with its reason")
        is_source = SOURCE.search(path) is not None
        if not is_data and (is_source or TEXT.search(path)):
            check_text(report, path, read_bytes(path), is_source)
    for path in LARGE_FILES_ALLOWED:
        if path not in paths:
            report.add(path, 1, "is in LARGE_FILES_ALLOWED but does not exist")
    if total > REPOSITORY_BYTES_MAX:
        report.add(".", 1, f"repository holds {total} bytes, at most {REPOSITORY_BYTES_MAX}")
    check_decisions(report, paths)
    report.finish(f"{len(paths)} files, {total / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
