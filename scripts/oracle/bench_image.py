#!/usr/bin/env python3
r"""Races Tessera against Pillow: one JPEG of 12 megapixels to the canvas of DeepSeek-V4.1.

  python bench_image.py build/release/bench/image_bench

Both decode the same bytes from memory and fit the picture into 1512 x 1134 pixels; then Pillow makes a
NumPy array of it, Tessera the patch rows. They take turns, one thread each, on one processor; the first
turns are not counted. Prints the medians and the median of Pillow's time over Tessera's, turn by turn.
With --least R the exit status is 1 when that ratio is below R. Needs pillow and numpy.
"""

import argparse
import io
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import PIL
from PIL import Image, ImageOps, features

CANVAS = (1512, 1134)
GREY = (127, 127, 127)
UNCOUNTED = 2


class Failure(Exception):
    """Something that the user can mend; the message is one line."""


class Tessera:
    """`image_bench --paced`: a run for each line it is sent."""

    def __init__(self, program: str) -> None:
        self.process = subprocess.Popen([program, "--paced"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def run(self) -> tuple[float, float]:
        """Milliseconds: decoding, and everything after it."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if len(answer) != 3:
            raise Failure("image_bench ended early; run it by hand to see why")
        return float(answer[0]), float(answer[1])

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def run_pillow(jpeg: bytes) -> tuple[float, float]:
    """Milliseconds: decoding, and everything after it."""
    start = time.perf_counter()
    picture = Image.open(io.BytesIO(jpeg))
    picture.load()
    decoded = time.perf_counter()
    canvas = numpy.asarray(ImageOps.pad(picture, CANVAS, color=GREY))
    end = time.perf_counter()
    if canvas.shape != (CANVAS[1], CANVAS[0], 3):
        raise Failure(f"Pillow's canvas has shape {canvas.shape}")
    return 1e3 * (decoded - start), 1e3 * (end - decoded)


def drawn_jpeg(program: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "drawn.jpg")
        subprocess.run([program, "--write", path], check=True)
        with open(path, "rb") as file:
            return file.read()


def race(program: str, turns: int) -> float:
    jpeg = drawn_jpeg(program)
    tessera = Tessera(program)
    times = []
    for turn in range(UNCOUNTED + turns):
        pair = (tessera.run(), run_pillow(jpeg))
        if turn >= UNCOUNTED:
            times.append(pair)
    tessera.close()
    print(f"{len(jpeg)} bytes, {turns} turns; Pillow {PIL.__version__}, "
          f"libjpeg-turbo {features.version('libjpeg_turbo')}, NumPy {numpy.__version__}")
    for name, runs in zip(("tessera", "pillow"), zip(*times)):
        decode, rest = (statistics.median(part) for part in zip(*runs))
        total = statistics.median(sum(run) for run in runs)
        print(f"{name:8} decode {decode:6.1f} ms, the rest {rest:6.1f} ms, total {total:6.1f} ms")
    ratio = statistics.median(sum(pillow) / sum(ours) for ours, pillow in times)
    print(f"ratio    {ratio:.2f}")
    return ratio


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="image_bench of a release build")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--least", type=float, default=0.0, help="fail below this ratio")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # the child inherits it
    try:
        ratio = race(arguments.program, arguments.turns)
    except (Failure, OSError, subprocess.CalledProcessError) as error:
        print(f"bench_image.py: {error}", file=sys.stderr)
        return 2
    return 1 if ratio < arguments.least else 0


if __name__ == "__main__":
    sys.exit(main())
