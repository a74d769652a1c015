#!/usr/bin/env python3
"""make_cli_docs.py PROGRAM [--check]: docs/cli.md, the --help of every command in one page.

With --check nothing is written; the exit status is 1 when the page differs from what the program
says, or a command says nothing with examples.
"""

import argparse
import os

from check_common import ROOT, Report, read_bytes
from cli_help import read_command

PAGE = "docs/cli.md"
HEAD = """\
# Command line

What every command of the program says with `--help`, made by `scripts/make_cli_docs.py`; do not edit.

Exit codes: 0 done; 1 a check said no; 2 bad usage or bad input; 3 the machine failed; 130 interrupted. An error
is one line on standard error. Results go to standard output, progress and warnings to standard error.
"""


def make_page(root):
    parts = [HEAD]
    for command in root.walk():
        parts.append(f"## {' '.join(command.path)}\n\n```\n{command.help}```\n")
    return "\n".join(parts)


def first_difference(page, wanted):
    """Number of the first line that differs, from 1."""
    lines, wanted_lines = page.split("\n"), wanted.split("\n")
    for number, (line, wanted_line) in enumerate(zip(lines, wanted_lines), 1):
        if line != wanted_line:
            return number
    return min(len(lines), len(wanted_lines))


def main():
    parser = argparse.ArgumentParser(description="Makes docs/cli.md.")
    parser.add_argument("program")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    root = read_command(arguments.program)
    wanted = make_page(root)
    path = os.path.join(ROOT, PAGE)
    if not arguments.check:
        with open(path, "w", encoding="utf-8") as file:
            file.write(wanted)
        return
    report = Report("check_cli_docs")
    page = read_bytes(PAGE).decode("utf-8", "replace") if os.path.exists(path) else ""
    if page != wanted:
        report.add(PAGE, first_difference(page, wanted),
                   "is not what the program says with --help; run "
                   f"scripts/make_cli_docs.py {arguments.program}")
    for command in root.walk():
        if command is not root and "\nExamples:\n" not in command.help:
            report.add(PAGE, 1, f"{' '.join(command.path)} --help has no `Examples:`")
    report.finish(f"{PAGE}, {wanted.count(chr(10) + '## ')} commands")


if __name__ == "__main__":
    main()
