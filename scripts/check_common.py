"""What the repository checks share: the list of files, and one way to report offences."""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SKIPPED_FOLDERS = {".git", "build", ".cache", "__pycache__", "third_party"}


def repository_files():
    """All files below the root, as sorted paths relative to it; build outputs are left out."""
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
        for name in names:
            path = os.path.join(folder, name)
            if not name.endswith(".pyc") and not os.path.islink(path):
                found.append(os.path.relpath(path, ROOT))
    return sorted(found)


def read_bytes(path):
    with open(os.path.join(ROOT, path), "rb") as file:
        return file.read()


class Report:
    """Collects offences; finish() prints them, one `path:line: message` per line, and exits."""

    def __init__(self, name):
        self.name = name
        self.offences = []

    def add(self, path, line, message):
        self.offences.append((path, line, message))

    def finish(self, what_was_checked):
        for path, line, message in sorted(self.offences):
            print(f"{path}:{line}: {message}")
        if self.offences:
            print(f"{self.name}: FAILED: {len(self.offences)} offence(s), {what_was_checked}")
            sys.exit(1)
        print(f"{self.name}: OK: {what_was_checked}")
