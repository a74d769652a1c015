#!/usr/bin/env python3
r"""Makes a tolerance file (src/trace/tolerance.h) of measured noise.

  python noise_to_tolerance.py --noise tests/golden/v41-tiny/noise.json --mode free \
      --stages share/stages/deepseek_v41.json --source v41-tiny \
      --out share/tolerance/deepseek_v41.json

A noise file says how far legitimate evaluations of the same mathematics lie apart, per case and tap:
  {CASE: {"modes": {MODE: {"taps": {TAP: [max abs, relative L2, share changed]}}}}}, or
  {"cases": {CASE: {TAP: {MODE: [max abs, relative L2]}}}}.
`prefill.` and `c0.` are the first call, `decode.` and `cD.` the others. Limits of a tap:
  rms = factor * worst relative L2 over cases and modes, at least the floor of its number grid (bf16
        1.2e-3: one value in twenty a step off; f32 1e-5), at most --ceiling
  row = 8 * rms
The grid is the stage map's, which also says which taps have values; integers and choices get no rule.
A tap that the noise file does not list takes the noise of its nearest relative (RELATIVES below), and
layers behind the last measured one that of the noisiest one. What has no relative is left to the
built-in default.
"""

import argparse
import fnmatch
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

ROW_FACTOR = 8
FLOORS = {"bf16": 1.2e-3, "f32": 1e-5, "e4m3": 1.2e-3, "e2m1": 1.2e-3}  # codes are exact in bf16
BLOCK = re.compile(r"(layers|blocks|stage|deepstack)\.(\d+|\*)")
HOLE = re.compile(r"\{[^}]*\}")

# Nearest relatives: what a tap shares its noise with, by the end of its name within its block or
# scope. `^` is the block itself (layers.L, blocks.B). First the names where the ancestor by name
# would be a poor guess; then a name loses its last part until something is listed.
RELATIVES = [
    # Small matrices of weights in fp32, made of the same stream by the same formula.
    (r"(attn|ffn)\.mix\.(pre|post|comb)$", ["^.ffn.mix.pre"]),
    # The draft stages read streams of the last layers; so does the final norm.
    (r"taps$", ["norm"]),
]
# Made of integers alone, by elementwise formulas: no noise where the noise file has none.
QUIET = re.compile(r"(^|\.)(patches|rope\.(cos|sin))$")
LAST = {"image*": ["aligner", "vision.merger"], "video*": ["vision.merger"]}  # of a scope


class UsageError(Exception):
    """Something that the user can mend; the message is one line."""


@dataclass(frozen=True)
class Stage:
    scope: str  # "c0", "c*", "image*", "video*"
    tap: str    # behind the scope; * for every number
    grid: str


@dataclass(frozen=True)
class Limit:
    rms: float
    row: float


def read_json(path: str) -> object:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from error


def entries(stages: Iterable[dict]) -> Iterator[dict]:
    """The stages of a stage map in order; repetitions are opened."""
    for entry in stages:
        if "stages" in entry:
            yield from entries(entry["stages"])
        else:
            yield entry


def value_stages(stage_map: dict, grid: str | None = None) -> list[Stage]:
    """Stages whose values are compared with a tolerance, once per scope. `grid`: of all of them."""
    found = []
    for entry in entries(stage_map["stages"]):
        if entry.get("kind", "values") != "values" or "{" not in entry["tap"]:
            continue
        first, _, tap = HOLE.sub("*", entry["tap"]).partition(".")
        for scope in ["c0", "c*"] if first == "c*" else [first]:
            found.append(Stage(scope, tap, grid or entry.get("grid", "f32")))
    return found


def scope_of(name: str) -> tuple[str, str]:
    """("c*", "layers.*.attn") of "decode.layers.*.attn"."""
    first, _, tap = name.replace("image.*", "image*").partition(".")
    known = {"prefill": "c0", "decode": "c*", "cD": "c*"}
    first = known.get(first, re.sub(r"^(image|video)\d+$", r"\1*", first))
    return first, tap


def measurements(noise: dict, modes: list[str], cases: str) -> Iterator[tuple[str, float]]:
    """(tap, relative L2) of every wanted case in any of the modes."""
    for name, case in noise.get("cases", noise).items():
        if not any(fnmatch.fnmatchcase(name, glob) for glob in cases.split(",")):
            continue
        if "modes" in case:
            for mode in modes:
                for tap, values in case["modes"].get(mode, {}).get("taps", {}).items():
                    yield tap, values[1]
        else:
            for tap, columns in case.items():
                for mode in modes:
                    if mode in columns:
                        yield tap, columns[mode][1]


def worst_noise(noises: list[dict], modes: list[str],
                cases: str = "*") -> dict[tuple[str, str], float]:
    worst: dict[tuple[str, str], float] = {}
    for noise in noises:
        for name, relative in measurements(noise, modes, cases):
            key = scope_of(name)
            worst[key] = max(worst.get(key, 0.0), relative)
    return worst


def numbers_of(stage: Stage, worst: dict[tuple[str, str], float]) -> list[str]:
    """The layer numbers for which the noise file has lines of their own, then * for all others."""
    block = BLOCK.search(stage.tap)
    if block is None:
        return [""]
    kind = block.group(1)
    numbers = {match.group(2) for scope, tap in worst if scope == stage.scope
               for match in [BLOCK.search(tap)] if match and match.group(1) == kind}
    return sorted(numbers - {"*"}, key=int) + ["*"]


def candidates(scope: str, tap: str) -> Iterator[str]:
    """The tap, then its relatives from the nearest on."""
    yield tap
    block = BLOCK.search(tap)
    for pattern, relatives in RELATIVES:
        if re.search(pattern, tap):
            for relative in relatives:
                yield relative.replace("^", block.group(0)) if block else relative
    parts = tap.split(".")
    while len(parts) > (2 if block else 1):
        parts.pop()
        yield ".".join(parts)
    yield from LAST.get(scope, [])


def noise_of(stage: Stage, number: str, worst: dict[tuple[str, str], float]) -> float | None:
    """Measured, or a relative's; None without one. For `*` the largest of the numbered blocks."""
    tap = BLOCK.sub(lambda m: f"{m.group(1)}.{number}", stage.tap, count=1)
    if (stage.scope, tap) not in worst and QUIET.search(tap):
        return 0.0
    for candidate in candidates(stage.scope, tap):
        if (stage.scope, candidate) in worst:
            return worst[(stage.scope, candidate)]
    others = [noise_of(stage, n, worst) for n in numbers_of(stage, worst)[:-1]]
    known = [noise for noise in others if noise is not None] if number == "*" else []
    return max(known, default=None)


def rounded_up(value: float) -> float:
    """Two digits, not below the value."""
    text = f"{value:.1e}"
    if float(text) < value * (1 - 1e-12):
        digits, exponent = text.split("e")
        text = f"{float(digits) + 0.1:.1f}e{exponent}"
    return float(text)


def limit_of(noise: float, grid: str, factor: float, ceiling: float) -> Limit:
    rms = rounded_up(min(max(factor * noise, FLOORS[grid]), ceiling))
    return Limit(rms, float(f"{ROW_FACTOR * rms:.6g}"))


SCOPES = {"image*": 0, "video*": 1, "c0": 2, "c*": 3}


def place_of(scope: str, tap: str) -> tuple[int, int]:
    """Where a glob stands. The first rule that fits counts, and `*` runs over dots, so what is meant
    for one block or one inner tap comes before what covers it."""
    block = BLOCK.search(tap)
    if block and block.group(2) != "*":
        tier = 1 if tap.endswith(".*") else 0
    elif block and block.end() == len(tap):
        tier = 3
    else:
        tier = 2 if "." in tap else 4
    return SCOPES[scope], tier


def shortened(limits: dict[str, Limit], own: str) -> dict[str, Limit]:
    """The limits of one numbered block by glob: exceptions, then NAME and NAME.* for the most."""
    counts: dict[Limit, int] = {}
    for limit in limits.values():
        counts[limit] = counts.get(limit, 0) + 1
    most = max(counts, key=lambda limit: (counts[limit], limit.rms))
    if len(limits) == 1 or own not in limits:
        return limits
    out = {tap: limit for tap, limit in limits.items() if limit != most and tap != own}
    return out | {own: limits[own], own + ".*": most}


def rules_of(stages: list[Stage], worst: dict[tuple[str, str], float], factor: float,
             ceiling: float) -> list[dict]:
    expected: dict[tuple[str, str], Limit] = {}  # by scope and tap
    blocks: dict[tuple[str, str], dict[str, Limit]] = {}  # the same, by numbered block
    for stage in stages:
        for number in numbers_of(stage, worst):
            noise = noise_of(stage, number, worst)
            if noise is None:
                continue
            tap = BLOCK.sub(lambda m: f"{m.group(1)}.{number}", stage.tap, count=1)
            limit = limit_of(noise, stage.grid, factor, ceiling)
            expected[(stage.scope, tap)] = limit
            block = BLOCK.search(tap)
            own = tap[:block.end()] if block and number.isdigit() else tap
            blocks.setdefault((stage.scope, own), {})[tap] = limit
    grouped: dict[tuple[int, int], dict[Limit, list[str]]] = {}
    for (scope, own), limits in blocks.items():
        for tap, limit in shortened(limits, own).items():
            grouped.setdefault(place_of(scope, tap), {}).setdefault(limit, []).append(
                f"{scope}.{tap}")
    rules = [{"taps": ",".join(taps), "rms": limit.rms, "row": limit.row}
             for _, limits in sorted(grouped.items()) for limit, taps in limits.items()]
    check(rules, expected)
    return rules


def check(rules: list[dict], expected: dict[tuple[str, str], Limit]) -> None:
    """Every tap must meet its own rule first, whatever numbers stand in its name."""
    for (scope, tap), limit in expected.items():
        for call, number in (("0", "99"), ("12", "107")):
            if scope in ("c0", "c*"):
                first = "c0" if scope == "c0" else f"c{12 + int(call)}"
            else:
                first = scope.replace("*", call)
            name = f"{first}.{tap.replace('*', number)}"
            rule = next(r for r in rules
                        if any(fnmatch.fnmatchcase(name, glob) for glob in r["taps"].split(",")))
            if (rule["rms"], rule["row"]) != (limit.rms, limit.row):
                raise UsageError(f"rules do not tell '{name}' from '{rule['taps'][:60]}...'; its "
                                 "name needs a place of its own in place_of()")


def dump(source: str, rules: list[dict]) -> str:
    lines = ",\n".join("    " + json.dumps(rule) for rule in rules)
    return (f'{{\n  "format": "tolerance/1",\n  "source": {json.dumps(source)},\n'
            f'  "rules": [\n{lines}\n  ]\n}}\n')


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--noise", required=True, action="append", help="noise file; may be repeated")
    parser.add_argument("--mode", required=True, action="append",
                        help="mode or column of the noise file; the worst of several")
    parser.add_argument("--cases", default="*", help="globs of the cases, separated by ','")
    parser.add_argument("--stages", required=True, help="stage map")
    parser.add_argument("--grid", choices=list(FLOORS), help="number grid of all taps instead of "
                        "the map's: f32 for a run without bf16")
    parser.add_argument("--source", required=True, help="name of the measurement, for the file")
    parser.add_argument("--factor", type=float, default=8, help="limit over noise (default 8)")
    parser.add_argument("--ceiling", type=float, default=0.5, help="largest rms (default 0.5: "
                        "unrelated tensors of equal size are 1.4 apart)")
    parser.add_argument("--out", required=True, help="tolerance file to write")
    args = parser.parse_args()
    try:
        worst = worst_noise([read_json(path) for path in args.noise], args.mode,
                            args.cases)
        if not worst:
            raise UsageError(f"{', '.join(args.noise)}: no case has the mode {', '.join(args.mode)}")
        stages = value_stages(read_json(args.stages), args.grid)
        rules = rules_of(stages, worst, args.factor, args.ceiling)
        source = (f"{args.source}, {' and '.join(args.mode)}: {args.factor:g} times the worst "
                  f"relative L2; at least bf16 {FLOORS['bf16']:g}, f32 {FLOORS['f32']:g}; at most "
                  f"{args.ceiling:g}" + ("" if args.cases == "*" else f"; cases {args.cases}"))
        with open(args.out, "w", encoding="utf-8") as file:
            file.write(dump(source, rules))
    except (UsageError, OSError) as error:
        print(f"noise_to_tolerance: {error}", file=sys.stderr)
        return 1
    print(f"{args.out}: {len(rules)} rules")
    return 0


if __name__ == "__main__":
    sys.exit(main())
