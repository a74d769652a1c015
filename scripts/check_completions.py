#!/usr/bin/env python3
"""check_completions.py PROGRAM FOLDER: presses the tab key in interactive shells that have loaded the
completions which make_completions.py wrote to FOLDER.

Tried: every command of the program, every option that has a fixed list of values, and the lines
below. A shell that is not installed is named.
"""

import os
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time

from check_common import Report
from cli_help import read_command

SECONDS = 20  # for one line; a shell that takes longer hangs
# What is typed before tab -> the line after it. The shell's folder has `folder` and PICTURE.
PICTURE = "picture 1.png"
LINES = [
    ("tessera ru", "tessera run"),
    ("tessera run --im", "tessera run --image"),
    ("tessera run --image pict", f"tessera run --image {PICTURE}"),
    ("tessera run --image=pict", f"tessera run --image={PICTURE}"),
    ("tessera inspect --check", "tessera inspect --checksums"),
    ("tessera inspect --model fold", "tessera inspect --model folder/"),
    ("tessera inspect --model pict", "tessera inspect --model pict"),
    ("tessera image plan pict", f"tessera image plan {PICTURE}"),
    ("tessera run --seed pict", "tessera run --seed pict"),
]
START = {"bash": ["--norc", "--noprofile", "-i"], "zsh": ["-f", "-i"]}
# Ctrl-X D writes the line to a file and clears it.
SETUP = {
    "bash": "source {folder}/tessera; PS1=; bind 'set enable-bracketed-paste off'; "
            "dump() {{ printf '%s' \"$READLINE_LINE\" >new; mv new line; "
            "READLINE_LINE=; READLINE_POINT=0; }}; bind -x '\"\\C-xd\": dump'; touch ready\n",
    "zsh": "fpath=({folder} $fpath); autoload -U compinit; compinit -u -D; PS1=; "
           "dump() {{ print -rn -- \"$BUFFER\" >new; mv new line; BUFFER=; }}; "
           "zle -N dump; bindkey -e; bindkey '^Xd' dump; bindkey '^I' complete-word; touch ready\n",
}


class Shell:
    """An interactive shell on a terminal of its own."""

    def __init__(self, name, folder, place):
        self.place = place
        self.terminal, other = pty.openpty()
        environment = {"PATH": os.environ["PATH"], "HOME": place, "TERM": "dumb", "LC_ALL": "C.UTF-8"}
        self.process = subprocess.Popen([name, *START[name]], stdin=other, stdout=other, stderr=other,
                                        cwd=place, env=environment, start_new_session=True)
        os.close(other)
        self.type(SETUP[name].format(folder=folder))
        self.wait_for("ready")

    def type(self, text):
        os.write(self.terminal, text.encode())

    def wait_for(self, name):
        """Whether the file appeared; the echo is read meanwhile and dropped."""
        path = os.path.join(self.place, name)
        end = time.monotonic() + SECONDS
        while not os.path.exists(path) and time.monotonic() < end:
            readable, _, _ = select.select([self.terminal], [], [], 0.01)
            if readable:
                os.read(self.terminal, 65536)
        return os.path.exists(path)

    def complete(self, text):
        """The line after `text` and tab; None when the shell does not answer."""
        self.type(text + "\t\x18d")
        if not self.wait_for("line"):
            return None
        path = os.path.join(self.place, "line")
        with open(path, encoding="utf-8") as file:
            line = file.read()
        os.remove(path)
        return line

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.terminal)


def plain(line):
    """Without what shells do differently: quotes around blanks, what they put after a word."""
    return line.replace("\\ ", " ").replace("'", "").replace('"', "").rstrip(" =")


def shortest_prefix(word, others):
    """The shortest beginning that only `word` has, or None."""
    for length in range(1, len(word)):
        if not any(other.startswith(word[:length]) for other in others if other != word):
            return word[:length]
    return None


def lines_of(root):
    """Lines made from the program's own help."""
    lines = []
    for command in root.walk():
        path = " ".join(command.path)
        names = [below.path[-1] for below in command.commands]
        values = [(f"{path} ", names)]
        values += [(f"{path} {option.names[-1]} ", option.choices) for option in command.options]
        for before, words in values:
            for word in words:
                prefix = shortest_prefix(word, words)
                if prefix:
                    lines.append((before + prefix, before + word))
    return lines


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: check_completions.py PROGRAM FOLDER")
    lines = LINES + lines_of(read_command(sys.argv[1]))
    folder = os.path.abspath(sys.argv[2])
    report = Report("check_completions")
    shells = [name for name in START if shutil.which(name)]
    for name in shells:
        with tempfile.TemporaryDirectory() as place:
            os.mkdir(os.path.join(place, "folder"))
            with open(os.path.join(place, PICTURE), "wb"):
                pass
            shell = Shell(name, folder, place)
            for number, (typed, wanted) in enumerate(lines, 1):
                found = shell.complete(typed)
                if found is None or plain(found) != wanted:
                    report.add(name, number, f"{typed!r} became {found!r}, expected {wanted!r}")
                if found is None:
                    break
            shell.close()
    absent = [name for name in START if name not in shells]
    report.finish(f"{len(lines)} lines in {' and '.join(shells)}"
                  + (f"; not installed: {', '.join(absent)}" if absent else ""))


if __name__ == "__main__":
    main()
