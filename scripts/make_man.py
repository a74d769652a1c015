#!/usr/bin/env python3
"""make_man.py PROGRAM -o FOLDER --release VERSION: manual pages tessera.1.gz, tessera-run.1.gz, ...

help2man makes them, one per command, from what the program says with --help. Pages of commands that
are gone are removed. The date in a page is SOURCE_DATE_EPOCH, else that of the last commit, so that
one source gives one page.
"""

import argparse
import glob
import gzip
import os
import re
import subprocess
import sys
import tempfile

from check_common import ROOT
from cli_help import read_command

# What --help does not say: of every page, and of tessera(1) alone.
EXIT_STATUS = """\
[EXIT STATUS]
0: done. 1: a check said no. 2: bad usage, or missing, unreadable or malformed input. 3: the machine
failed. 130: interrupted.
"""
MAIN_SECTIONS = """\
[ENVIRONMENT]
.TP
.B TESSERA_SHARE
Folder of the program's data (demo model, configurations), instead of the one that was installed.
.TP
.B HF_HUB_CACHE, HF_HOME
Where the Hugging Face cache lies, for models that are named by organisation and name.
.TP
.B TESSERA_FORCE_ISA
Kernels to use: reference, avx2 or avx512.
.TP
.B NO_COLOR
If set, no colours on a terminal.
"""


def see_also(command, root):
    """Parents and commands below."""
    pages = ["-".join(command.path[:length]) for length in range(1, len(command.path))]
    pages += ["-".join(below.path) for below in command.commands]
    return "[SEE ALSO]\n" + ",\n".join(f".BR {page} (1)" for page in pages) + "\n" if pages else ""


def for_help2man(text):
    """Help in the form that help2man expects: names of an option apart, examples with a prompt so
    that they stay line by line, sections with an empty line before and blanks in every line."""
    lines, section = [], ""
    for line in text.split("\n"):
        header = re.match(r"([A-Z][^:]*):$", line)
        if header:
            section = header.group(1)
            lines.append("")
        elif not line:
            section = ""
        elif section == "Examples":
            line = "  $ " + line.strip()
        elif section and not line.startswith(" "):
            line = "  " + line
        lines.append(re.sub(r"^(  -\w),(--)", r"\1, \2", line))
    return "\n".join(lines)


def source_date():
    """Seconds since 1970, or None where neither the environment nor git knows."""
    if os.environ.get("SOURCE_DATE_EPOCH"):
        return os.environ["SOURCE_DATE_EPOCH"]
    try:
        found = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%ct"], check=True,
                               capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip() or None


def make_page(command, root, help2man, release):
    """The page's text. help2man runs a program, so it gets one that prints the prepared help."""
    name = "-".join(command.path)
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, name)
        sections = os.path.join(folder, "sections")
        with open(program + ".txt", "w", encoding="utf-8") as file:
            file.write(for_help2man(command.help))
        with open(program, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nexec cat \"$0.txt\"\n")
        os.chmod(program, 0o755)
        with open(sections, "w", encoding="utf-8") as file:
            file.write((MAIN_SECTIONS if command is root else "") + EXIT_STATUS
                       + see_also(command, root))
        environment = {**os.environ, "LC_ALL": "C.UTF-8"}
        date = source_date()
        if date:
            environment["SOURCE_DATE_EPOCH"] = date
        result = subprocess.run(
            [help2man, "--no-info", "--section=1", "--locale=C.UTF-8", "--manual=User Commands",
             f"--source=Tessera {release}", f"--version-string={release}",
             f"--name={command.text.removeprefix('Tessera: ').rstrip('.')}", f"--include={sections}", program],
            check=True, capture_output=True, text=True, encoding="utf-8", env=environment,
            timeout=60)
    # Its second line names the program that it ran.
    return result.stdout.replace(folder + "/", "")


def main():
    parser = argparse.ArgumentParser(description="Makes manual pages with help2man.")
    parser.add_argument("program")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER")
    parser.add_argument("--release", required=True, metavar="VERSION")
    parser.add_argument("--help2man", default="help2man", metavar="PROGRAM")
    arguments = parser.parse_args()
    root = read_command(arguments.program)
    os.makedirs(arguments.output, exist_ok=True)
    for old in glob.glob(os.path.join(arguments.output, "tessera*.1.gz")):
        os.remove(old)
    for command in root.walk():
        try:
            page = make_page(command, root, arguments.help2man, arguments.release)
        except subprocess.CalledProcessError as error:
            sys.exit(f"make_man.py: {' '.join(command.path)}: help2man failed: {error.stderr}")
        path = os.path.join(arguments.output, "-".join(command.path) + ".1.gz")
        with open(path, "wb") as file:
            with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
                packed.write(page.encode())


if __name__ == "__main__":
    main()
