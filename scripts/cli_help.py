#!/usr/bin/env python3
"""What a program that is built on CLI11 says with --help, as data: commands, options, values.

The words after an option are the contract between the help text and the tools that read it:
FILE and DIR are paths, NUMBER is a number, `bf16|fp32` lists what may be given, anything else is
free text. In such a list a part in capitals, as in `off|low|high|1..100`, is not a word to type.
"""

import re
import subprocess
import sys
from dataclasses import dataclass, field

SECTION = re.compile(r"^(\S[^:]*):$")
ENTRY = re.compile(r"^  (\S.*)$")
CONTINUATION = re.compile(r"^ {20,}(\S.*)$")
WORD = re.compile(r"^[a-z0-9][a-z0-9_-]*(\.[a-z0-9_-]+)*$")


@dataclass
class Option:
    names: list  # ["-h", "--help"]; of a positional its one name
    value: str = ""  # words after the names: "FILE", "bf16|fp32"; empty for a flag
    is_repeated: bool = False
    text: str = ""

    @property
    def choices(self):
        """Words that may be given, or []."""
        listed = re.search(r"\{([^}]*)\}", self.value)
        if listed:
            return [word.strip() for word in listed.group(1).split(",")]
        parts = self.value.split("|")
        return [part for part in parts if WORD.match(part)] if len(parts) > 1 else []

    @property
    def takes_file(self):
        return bool(re.search(r"\bFILE\b", f"{self.value} {self.names[0]}"))

    @property
    def takes_folder(self):
        return bool(re.search(r"\b(DIR|FOLDER)\b", f"{self.value} {self.names[0]}"))

    @property
    def takes_number(self):
        return self.value in ("NUMBER", "INT", "UINT", "FLOAT")


@dataclass
class Command:
    path: list  # ["tessera", "image", "plan"]
    help: str
    text: str = ""  # its first line
    options: list = field(default_factory=list)
    positionals: list = field(default_factory=list)
    commands: list = field(default_factory=list)

    def walk(self):
        """The command and everything below it, parents first."""
        yield self
        for command in self.commands:
            yield from command.walk()


def parse_option(entry):
    names, _, rest = entry.partition(" ")
    words = [word for word in rest.split() if word != "REQUIRED"]
    for clause in ("Needs:", "Excludes:"):
        if clause in words:
            words = words[:words.index(clause)]
    is_repeated = bool(words) and words[-1] == "..."
    value = " ".join(word for word in words if word != "..." and not word.startswith("(Env:"))
    value = re.sub(r"=.*| x \d+$", "", value)  # a default, a number of values
    return Option(names.rstrip(".").split(","), value, is_repeated or names.endswith("..."))


def parse_entries(lines):
    """(what stands left, the text right of it) of a section's lines."""
    entries = []
    for line in lines:
        continuation = CONTINUATION.match(line)
        entry = ENTRY.match(line)
        if continuation and entries:
            left, text = entries[-1]
            entries[-1] = (left, (text + " " + continuation.group(1)).strip())
        elif entry:
            left, _, text = re.sub(r" {2,}", "\0", entry.group(1), count=1).partition("\0")
            entries.append((left.strip(), text.strip()))
    return entries


def sections_of(text):
    """Lines of each section, by name; what stands before, between and after is left out."""
    sections, current = {}, None
    for line in text.split("\n"):
        header = SECTION.match(line)
        if header:
            current = sections.setdefault(header.group(1), [])
        elif not line.strip() or not line.startswith(" "):
            current = None
        elif current is not None:
            current.append(line)
    return sections


def help_text(program, words):
    """What PROGRAM WORDS... --help prints; lines without blanks at their end."""
    result = subprocess.run([program, *words, "--help"], check=True, capture_output=True,
                            text=True, encoding="utf-8", timeout=60)
    return "\n".join(line.rstrip() for line in result.stdout.split("\n")).strip() + "\n"


def read_command(program, path=("tessera",)):
    """Asks the program about the command `path` and everything below it."""
    text = help_text(program, path[1:])
    sections = sections_of(text)
    command = Command(list(path), text, text.split("\n", 1)[0])
    for lines in sections.values():  # "Options" and groups with names of their own
        for left, right in parse_entries(lines):
            if left.startswith("-"):
                option = parse_option(left)
                option.text = right
                command.options.append(option)
    for left, right in parse_entries(sections.get("Positionals", [])):
        positional = parse_option(left)
        positional.text = right
        command.positionals.append(positional)
    for left, _ in parse_entries(sections.get("Subcommands", [])):
        command.commands.append(read_command(program, (*path, left.split(",")[0])))
    if not command.options:
        raise ValueError(f"{' '.join(path)} --help: no options found; has the form of its help "
                         "changed? See scripts/cli_help.py")
    return command


def main():
    """cli_help.py PROGRAM: the program's commands, one a line."""
    for command in read_command(sys.argv[1]).walk():
        print(" ".join(command.path))


if __name__ == "__main__":
    main()
