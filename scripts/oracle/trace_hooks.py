#!/usr/bin/env python3
"""Records a PyTorch model's intermediate tensors in a trace file, by forward hooks that a mapping
file chooses. Library for the scripts of this folder, and a command for any model:

  python trace_hooks.py --program my_model.py --map my_model.hooks.json --out my_model.safetensors
  python trace_hooks.py --program my_model.py --list

The program is a Python file with `build(arguments)`, which returns (module, run): run() makes the
forward calls and may return a dict of what it knows about them: "tokens", a list of ids; "case", the
request; "calls", a list of [start, rows]. README.md describes mapping files. Hooks only read.
"""

import argparse
import collections
import difflib
import hashlib
import importlib.util
import json
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any

import torch

from case_file import read_json
from trace_writer import TraceError, TraceWriter

FORMAT = "hooks/1"
SCOPES = ("call", "item", "once")
HOLE = re.compile(r"\{(\w+)([+-]\d+)?\}")


@dataclass
class Rule:
    """One line of a mapping: which modules, which of their values, which tap."""
    module: str
    tap: str
    of: str = "output"  # or "input"
    at: list[int | str] = field(default_factory=list)  # path into the value: index, key, argument
    scope: str = "call"
    reshape: list[int | str] = field(default_factory=list)
    optional: bool = False

    @staticmethod
    def parse(value: Any, where: str) -> "Rule":
        known = [f.name for f in fields(Rule)]
        if not isinstance(value, dict) or not {"module", "tap"} <= value.keys() <= set(known):
            raise TraceError(f"{where}: expected an object with 'module' and 'tap', and any of "
                             f"{', '.join(known[2:])}")
        rule = Rule(**value)
        if rule.of not in ("input", "output") or rule.scope not in SCOPES:
            raise TraceError(f"{where}: 'of' is input or output, 'scope' one of {', '.join(SCOPES)}")
        rule.at = rule.at if isinstance(rule.at, list) else [rule.at]
        if rule.of == "input" and not rule.at:
            rule.at = [0]
        return rule


@dataclass
class Mapping:
    rules: list[Rule]
    calls: dict[str, str]  # module: a forward of it is a call; rows: the tap that has its rows
    items: dict[str, str]  # module: a forward of it is a run of the tower; kind; grid: an argument

    @staticmethod
    def parse(root: Any, where: str) -> "Mapping":
        if not isinstance(root, dict) or root.get("format") != FORMAT or "rules" not in root:
            raise TraceError(f"{where}: expected a mapping, an object with \"format\": \"{FORMAT}\" "
                             "and 'rules'")
        rules = [Rule.parse(rule, f"{where}: rules[{i}]") for i, rule in enumerate(root["rules"])]
        return Mapping(rules, root.get("calls", {}), root.get("items", {}))

    @staticmethod
    def load(path: str) -> "Mapping":
        return Mapping.parse(read_json(path), path)


def module_pattern(glob: str) -> re.Pattern[str]:
    """`*` is a run of characters within one name of a module path; each is captured."""
    return re.compile("".join(r"([^.]*)" if c == "*" else re.escape(c) for c in glob) + r"\Z")


def fill(template: str, values: dict[str, Any]) -> str | None:
    """`{1}` is the first capture, `{1-1}` the number before it, `{name}` a variable. None where a
    number would be negative."""
    out, end = "", 0
    for hole in HOLE.finditer(template):
        name, shift = hole.group(1), hole.group(2)
        if name not in values:
            raise TraceError(f"'{template}': {{{name}}} is not known; give it with --set {name}=...")
        value = values[name]
        if shift is not None:
            value = int(value) + int(shift)
            if value < 0:
                return None
        out += template[end:hole.start()] + str(value)
        end = hole.end()
    return out + template[end:]


def take(value: Any, path: Iterable[int | str], what: str) -> Any:
    """Walks through tuples, dicts and attributes."""
    for step in path:
        try:
            by_key = isinstance(step, int) or isinstance(value, dict)
            value = value[step] if by_key else getattr(value, step)
        except (IndexError, KeyError, AttributeError, TypeError) as error:
            raise TraceError(f"{what}: no {step!r} in a value of type "
                             f"{type(value).__name__}") from error
    return value


def reshaped(value: torch.Tensor, shape: list[int | str], variables: dict[str, Any],
             what: str) -> torch.Tensor:
    """In `shape`, 0 keeps the size at its place, -1 is what is left, "$name" a variable."""
    sizes = []
    for place, size in enumerate(shape):
        if isinstance(size, str):
            if size.removeprefix("$") not in variables:
                raise TraceError(f"{what}: {size} is not known; give it with --set")
            size = int(variables[size.removeprefix("$")])
        sizes.append(value.shape[place] if size == 0 else size)
    try:
        return value.reshape(sizes)
    except RuntimeError as error:
        raise TraceError(f"{what}: a tensor of shape {list(value.shape)} cannot become "
                         f"{sizes}") from error


def without_batch(value: torch.Tensor, what: str) -> torch.Tensor:
    if value.dim() == 0 or value.shape[0] != 1:
        raise TraceError(f"{what}: expected one sequence, found a tensor of shape "
                         f"{list(value.shape)}; run the model with a batch of one")
    return value[0]


class Recorder:
    """Attaches the hooks of a mapping for the time of a `with` block and writes what they see.

    `call` is the number of the running forward call; `items` are the prefixes of the pictures that
    the tower runs over, whose rows lie one behind the other in its tensors. Where towers run over
    several kinds, `item_kinds` names the kinds of the runs to come.
    """

    def __init__(self, model: torch.nn.Module, mapping: Mapping, writer: TraceWriter,
                 variables: dict[str, Any] | None = None) -> None:
        self.mapping, self.writer = mapping, writer
        self.modules = dict(model.named_modules())
        self.variables = dict(variables or {})
        self.call = -1
        self.calls: list[list[int]] = []
        self.items: list[str] = []
        self.item_rows: list[int] = []
        self.item_grid: torch.Tensor | None = None
        self.item_kinds: collections.deque[str] = collections.deque()
        self.counts: collections.Counter[str] = collections.Counter()
        self.handles: list[Any] = []

    def __enter__(self) -> "Recorder":
        # Counters first: hooks of a module run in the order in which they were attached.
        before = self.module(self.mapping.calls.get("module", ""))
        self.handles.append(before.register_forward_pre_hook(self._begin_call))
        if self.mapping.items:
            tower = self.mapping.items["module"]
            if tower in self.modules:
                self.handles.append(self.modules[tower].register_forward_pre_hook(
                    self._begin_items, with_kwargs=True))
        try:
            for rule in self.mapping.rules:
                self._attach(rule)
        except TraceError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused: object) -> None:
        for handle in self.handles:
            handle.remove()
        self.handles.clear()

    def module(self, path: str) -> torch.nn.Module:
        if path not in self.modules:
            close = difflib.get_close_matches(path, self.modules, 1)
            raise TraceError(f"the model has no module '{path}'"
                             + (f"; is it '{close[0]}'?" if close else "; see --list"))
        return self.modules[path]

    def after(self, path: str, see: Callable[[torch.nn.Module, tuple, Any], None]) -> None:
        """Calls see(module, arguments, output) behind every forward of a module. To be used inside
        the `with` block."""
        def hook(module: torch.nn.Module, args: tuple, output: Any) -> None:
            see(module, args, output)
        self.handles.append(self.module(path).register_forward_hook(hook))

    def before(self, path: str, see: Callable[[torch.nn.Module, tuple], None]) -> None:
        """The same in front of every forward: see(module, arguments)."""
        def hook(module: torch.nn.Module, args: tuple) -> None:
            see(module, args)
        self.handles.append(self.module(path).register_forward_pre_hook(hook))

    # Recording. The library's hooks and the scripts' own meet here.

    def once(self, name: str, value: torch.Tensor) -> None:
        self.writer.add(name, value)

    def in_call(self, name: str, value: torch.Tensor) -> None:
        """A value of the running call, without a batch dimension."""
        if self.call < 0:
            raise TraceError(f"tap '{name}' came before the first forward call; is the module of "
                             "'calls' the one that runs first?")
        if name == self.mapping.calls.get("rows"):
            start = sum(self.calls[-1]) if self.calls else 0
            self.calls.append([start, value.shape[0]])
        self.writer.add(f"c{self.call}.{name}", value)

    def in_items(self, name: str, value: torch.Tensor) -> None:
        """A value over all pictures of the tower's run: rows in picture order, in proportion to
        the pictures' patches."""
        total = sum(self.item_rows)
        first = 0
        for prefix, rows in zip(self.items, self.item_rows):
            if total == 0:  # no grid: the run has one picture
                self.writer.add(prefix + name, value)
                continue
            share, rest = divmod(rows * value.shape[0], total)
            if rest != 0:
                raise TraceError(f"tap '{name}': {value.shape[0]} rows cannot be split in the "
                                 f"proportion of the patches {self.item_rows}")
            self.writer.add(prefix + name, value[first:first + share])
            first += share

    # Hooks.

    def _begin_call(self, *unused: object) -> None:
        self.call += 1

    def _begin_items(self, module: torch.nn.Module, args: tuple, kwargs: dict) -> None:
        kind = self.mapping.items.get("kind", "image")
        kind = self.item_kinds.popleft() if self.item_kinds else kind
        grid = self.mapping.items.get("grid")
        if grid is None:
            self.item_rows = [0]
        elif grid in kwargs:
            self.item_grid = kwargs[grid]
            self.item_rows = self.item_grid.prod(-1).tolist()
        else:
            raise TraceError(f"the tower runs without the argument '{grid}'; expected by 'items'")
        start = self.counts[kind]
        self.items = [f"{kind}{start + k}." for k in range(len(self.item_rows))]
        self.counts[kind] += len(self.item_rows)

    def _attach(self, rule: Rule) -> None:
        pattern = module_pattern(rule.module)
        found = [(path, match) for path in self.modules if (match := pattern.match(path))]
        if not found and not rule.optional:
            self.module(rule.module)  # says what is close
        for path, match in found:
            numbers = {str(i + 1): text for i, text in enumerate(match.groups())}
            tap = fill(rule.tap, self.variables | numbers)
            if tap is not None:
                self._attach_to(rule, path, tap)

    def _attach_to(self, rule: Rule, path: str, tap: str) -> None:
        module, what = self.modules[path], f"tap '{tap}' ({rule.of} of {path})"

        def before(_: torch.nn.Module, args: tuple, kwargs: dict) -> None:
            first = rule.at[0]
            start = args if isinstance(first, int) else kwargs
            self._see(rule, tap, take(start, rule.at, what), what)

        def after(_: torch.nn.Module, args: tuple, output: Any) -> None:
            self._see(rule, tap, take(output, rule.at, what), what)

        if rule.of == "input":
            handle = module.register_forward_pre_hook(before, with_kwargs=True)
        else:
            handle = module.register_forward_hook(after)
        self.handles.append(handle)

    def _see(self, rule: Rule, tap: str, value: Any, what: str) -> None:
        if not isinstance(value, torch.Tensor):
            raise TraceError(f"{what}: expected a tensor, found {type(value).__name__}; 'at' picks "
                             "one of several")
        if rule.scope == "call":
            value = without_batch(value, what)
        if rule.reshape:
            value = reshaped(value, rule.reshape, self.variables, what)
        {"call": self.in_call, "item": self.in_items, "once": self.once}[rule.scope](tap, value)


def file_sha256(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def activations_of(model: torch.nn.Module) -> str:
    """What most of the model's values are: "bf16" or "f32"."""
    counts: collections.Counter[torch.dtype] = collections.Counter()
    for parameter in model.parameters():
        counts[parameter.dtype] += parameter.numel()
    common = counts.most_common(1)
    return "bf16" if common and common[0][0] == torch.bfloat16 else "f32"


def metadata_of(producer: str, config: str | None, case: dict | None, calls: list[list[int]],
                tokens: list[int], activations: str) -> dict[str, str]:
    """The metadata of a trace; docs/numerics.md, part F."""
    return {
        "producer": producer,
        "model": file_sha256(config) if config else "",
        "case": json.dumps(case, ensure_ascii=False) if case else "",
        "calls": json.dumps(calls) if calls else "",
        "tokens": json.dumps(tokens) if tokens else "",
        "activations": activations,
    }


def load_program(path: str, arguments: list[str]) -> tuple[torch.nn.Module, Callable[[], Any]]:
    spec = importlib.util.spec_from_file_location("traced_program", path)
    if spec is None or spec.loader is None:
        raise TraceError(f"{path}: expected a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from error
    if not hasattr(module, "build"):
        raise TraceError(f"{path}: has no function build(arguments)")
    return module.build(arguments)


def parse_variables(texts: list[str]) -> dict[str, Any]:
    variables = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise TraceError(f"--set {text}: expected NAME=VALUE")
        variables[name] = int(value) if value.lstrip("-").isdigit() else value
    return variables


def run(args: argparse.Namespace) -> None:
    model, forward = load_program(args.program, args.argument)
    if args.list:
        for path, module in model.named_modules():
            print(f"{path or '(root)'}  {type(module).__name__}")
        return
    if not args.map or not args.out:
        raise TraceError("expected --map FILE and --out FILE, or --list")
    mapping = Mapping.load(args.map)
    with TraceWriter(args.out, args.taps) as writer, torch.no_grad():
        with Recorder(model, mapping, writer, parse_variables(args.set)) as recorder:
            known = forward() or {}
        producer = args.producer or f"torch {torch.__version__}, {args.program}"
        writer.commit(metadata_of(producer, args.config, known.get("case"),
                                  known.get("calls", recorder.calls), known.get("tokens", []),
                                  args.activations or activations_of(model)))
        print(f"{args.out}: {len(writer.entries)} taps, {recorder.call + 1} calls")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="Python file with build(arguments)")
    parser.add_argument("--argument", action="append", default=[], help="handed to build()")
    parser.add_argument("--list", action="store_true", help="list the model's modules and stop")
    parser.add_argument("--map", help="mapping file")
    parser.add_argument("--out", help="trace to write")
    parser.add_argument("--taps", default="*", help="globs of the taps to keep, separated by ','")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                        help="variable of the mapping file")
    parser.add_argument("--config", help="the checkpoint's config.json, whose SHA-256 is recorded")
    parser.add_argument("--producer", help="text that says what made the trace")
    parser.add_argument("--activations", choices=["bf16", "f32"],
                        help="default: what most of the parameters are")
    try:
        run(parser.parse_args())
    except TraceError as error:
        print(f"trace_hooks: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
