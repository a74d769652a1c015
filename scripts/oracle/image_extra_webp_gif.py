#!/usr/bin/env python3
"""Writes WebP and GIF files that ordinary encoders do not make, and what Pillow shows of them.

  python image_extra_webp_gif.py ../../tests/golden/image/files_extra

The folder gets the files and webp_gif.jsonl: `mode`, `size` and `rgb_sha256` of
Image.open(f).convert("RGB") or `refuse`, the fault; the same for policy recipe in `recipe_size`,
`recipe_rgb_sha256` or `recipe_refuse`; `transparent`, whether a pixel is; `orientation` and
`rotated_rgb_sha256` after ImageOps.exif_transpose. Needs Pillow 13.0.0, numpy and
deepseek-recipe 0.2.0. Every expected answer is checked: a picture's with Pillow, and with the
package by giving it the file and the expected pixels as a PNG; its two answers must be the same.
"""

import hashlib
import io
import json
import os
import struct
import sys

import deepseek_recipe
import numpy as np
from PIL import Image, ImageOps

COLOURS = [(10, 20, 30), (200, 0, 0), (0, 200, 0), (0, 0, 200)]
OTHERS = [(255, 255, 0), (0, 255, 255), (255, 0, 255), (1, 2, 3)]
RAMP = [(i, i, i) for i in range(4)]
BACKGROUND = 253  # of policy recipe
ALPHA, EXIF, ANIMATION = 0x10, 0x08, 0x02  # flags of VP8X


# ---------------------------------------------------------------- GIF

def lzw(pixels, bits, has_end=True):
    """LZW codes with a clear code before each pixel, so that they never grow."""
    codes = [code for pixel in pixels for code in (1 << bits, pixel)]
    value = count = 0
    for code in codes + [(1 << bits) + 1] * has_end:
        value |= code << count
        count += bits + 1
    return value.to_bytes((count + 7) // 8, "little")


def blocks(data):
    parts = [data[i:i + 255] for i in range(0, len(data), 255)]
    return b"".join(bytes([len(part)]) + part for part in parts) + b"\0"


def palette_bytes(palette):
    return b"".join(bytes(colour) for colour in palette)


def palette_flags(palette):
    return 0 if palette is None else 0x80 | (len(palette).bit_length() - 2)


def control(transparent):
    return b"!\xf9\x04" + bytes([transparent is not None, 0, 0, transparent or 0, 0])


def frame(x, y, rows, palette=None, bits=3, has_end=True, more=()):
    pixels = [index for row in rows for index in row] + list(more)
    head = struct.pack("<HHHHB", x, y, len(rows[0]), len(rows), palette_flags(palette))
    return (b"," + head + palette_bytes(palette or []) + bytes([bits]) +
            blocks(lzw(pixels, bits, has_end)))


def gif(width, height, palette, *records, version=b"GIF89a", background=2):
    head = struct.pack("<HHBBB", width, height, palette_flags(palette), background, 0)
    return version + head + palette_bytes(palette or []) + b"".join(records) + b";"


def gif_recipe(size, x, y, rows, palette, transparent=None):
    """RGBA of policy recipe: the frame on a transparent screen, cut at its edges."""
    out = np.zeros((size[1], size[0], 4), np.uint8)
    for dy, row in enumerate(rows):
        for dx, index in enumerate(row):
            is_inside = y + dy < size[1] and x + dx < size[0]
            if is_inside and index < len(palette) and index != transparent:
                out[y + dy, x + dx] = (*palette[index], 255)
    return out


def gif_cases():
    rows = [[1, 2, 3], [2, 3, 1]]
    wide = [[0, 1, 2, 3], [3, 2, 1, 0]]
    yield ("gif_offset_local.gif", "offset frame, local palette, transparent index",
           gif(7, 5, COLOURS, control(3), frame(2, 1, rows, OTHERS)),
           gif_recipe((7, 5), 2, 1, rows, OTHERS, 3))
    yield ("gif_offset_87a.gif", "GIF87a, offset frame, no transparency",
           gif(7, 5, COLOURS, frame(3, 2, rows), version=b"GIF87a"),
           gif_recipe((7, 5), 3, 2, rows, COLOURS))
    yield ("gif_beyond_screen.gif", "frame beyond the screen: it grows in Pillow, recipe cuts",
           gif(3, 2, COLOURS, frame(1, 1, rows)), gif_recipe((3, 2), 1, 1, rows, COLOURS))
    yield ("gif_beside_screen.gif", "frame wholly beyond the screen",
           gif(3, 2, COLOURS, control(2), frame(4, 3, rows)),
           gif_recipe((3, 2), 4, 3, rows, COLOURS))
    yield ("gif_no_palette.gif", "no palette: grey in Pillow, refused by recipe",
           gif(4, 3, None, frame(0, 1, [[0, 5, 6, 7]])), "corrupt")
    yield ("gif_ramp_global.gif", "global grey ramp: mode L, indices beyond it are grey",
           gif(5, 2, RAMP, control(6), frame(0, 0, [[0, 3, 4, 7]])),
           gif_recipe((5, 2), 0, 0, [[0, 3, 4, 7]], RAMP, 6))
    yield ("gif_ramp_local.gif", "local grey ramp: Pillow says L and shows the global palette",
           gif(5, 2, COLOURS, frame(0, 0, wide, RAMP)), gif_recipe((5, 2), 0, 0, wide, RAMP))
    yield ("gif_ramp_covered.gif", "local palette over a global grey ramp",
           gif(5, 2, RAMP, frame(0, 0, wide, OTHERS)), gif_recipe((5, 2), 0, 0, wide, OTHERS))
    yield ("gif_index_beyond.gif", "indices, also the transparent one, beyond the palette",
           gif(5, 2, COLOURS, control(200), frame(1, 0, [[1, 4, 7]])),
           gif_recipe((5, 2), 1, 0, [[1, 4, 7]], COLOURS, 200))
    yield ("gif_two_controls.gif", "the second control takes the transparent index back",
           gif(4, 3, COLOURS, control(3), control(None), frame(0, 0, [[1, 3]])),
           gif_recipe((4, 3), 0, 0, [[1, 3]], COLOURS))
    yield ("gif_no_end_code.gif", "no end code after the last pixel",
           gif(3, 2, COLOURS, frame(0, 0, rows, has_end=False)),
           gif_recipe((3, 2), 0, 0, rows, COLOURS))
    yield ("gif_more_pixels.gif", "more pixels than the frame has",
           gif(3, 2, COLOURS, frame(0, 0, rows, more=[1, 1, 2])),
           gif_recipe((3, 2), 0, 0, rows, COLOURS))
    yield ("gif_bytes_between.gif", "bytes before the first record",
           gif(3, 2, COLOURS, b"\0\0ab", frame(0, 0, rows)), None)
    yield ("gif_fewer_pixels.gif", "end code before the last pixel",
           gif(3, 3, COLOURS, frame(0, 0, rows).replace(b"\3\0\2\0", b"\3\0\3\0", 1)), "corrupt")
    yield ("gif_no_columns.gif", "frame of width 0",
           gif(3, 2, COLOURS, frame(0, 0, [[], []])), "corrupt")


# ---------------------------------------------------------------- WebP

def chunk(name, data):
    return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def riff(*chunks):
    body = b"WEBP" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def image_chunks(pixels, **options):
    """ALPH, VP8 and VP8L chunks of the picture that Pillow encodes."""
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "WEBP", exact=True, **options)
    data, at, out = stream.getvalue(), 12, b""
    while at < len(data):
        size = 8 + int.from_bytes(data[at + 4:at + 8], "little")
        size += size % 2
        if data[at:at + 4] in (b"ALPH", b"VP8 ", b"VP8L"):
            out += data[at:at + size]
        at += size
    return out


def u24(value):
    return struct.pack("<I", value)[:3]


def vp8x(flags, width, height):
    return chunk(b"VP8X", struct.pack("<I", flags) + u24(width - 1) + u24(height - 1))


def animation(flags, size, *frames):
    return riff(vp8x(ANIMATION | flags, *size), chunk(b"ANIM", struct.pack("<IH", 0xff112233, 0)),
                *frames)


def animation_frame(x, y, pixels, data, is_blended=True):
    height, width = pixels.shape[:2]
    head = u24(x // 2) + u24(y // 2) + u24(width - 1) + u24(height - 1) + u24(100)
    return chunk(b"ANMF", head + bytes([0 if is_blended else 2]) + data)


def gradient(width, height, channels):
    y, x = np.mgrid[0:height, 0:width]
    planes = [x * 11 + y * 5, 255 - x * 7, y * 23 + 40, 255 - x * 13 - y * 3][:channels]
    return (np.stack(planes, -1) % 256).astype(np.uint8)


def exif(orientation):
    return b"II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0" + struct.pack("<HHI", orientation, 0, 0)


def on_canvas(size, x, y, decoded):
    out = np.zeros((size[1], size[0], decoded.shape[2]), np.uint8)
    out[y:y + decoded.shape[0], x:x + decoded.shape[1]] = decoded
    return out


def decoded(data):
    """Pixels of a still WebP file."""
    return np.asarray(Image.open(io.BytesIO(data)))


def webp_cases():
    opaque, clear = gradient(14, 10, 3), gradient(14, 10, 4)
    plain, alpha = image_chunks(opaque, lossless=True), image_chunks(clear, lossless=True)
    lossy = image_chunks(clear, quality=60)
    lossy_pixels = decoded(riff(vp8x(ALPHA, 14, 10), lossy))
    size = (24, 18)
    second = animation_frame(0, 0, opaque, plain)
    yield ("webp_anim_offset.webp", "offset first frame, no alpha: black around it",
           animation(0, size, animation_frame(6, 4, opaque, plain), second),
           on_canvas(size, 6, 4, opaque))
    yield ("webp_anim_offset_alpha.webp", "offset first frame with alpha, blended",
           animation(ALPHA, size, animation_frame(6, 4, clear, alpha), second),
           on_canvas(size, 6, 4, clear))
    yield ("webp_anim_offset_over.webp", "offset first frame with alpha, not blended",
           animation(ALPHA, size, animation_frame(10, 8, clear, alpha, False), second),
           on_canvas(size, 10, 8, clear))
    yield ("webp_anim_offset_lossy.webp", "offset lossy first frame with an alpha chunk",
           animation(ALPHA, size, animation_frame(2, 0, clear, lossy)),
           on_canvas(size, 2, 0, lossy_pixels))
    yield ("webp_anim_hidden_alpha.webp", "frame with alpha in a file that says it has none",
           animation(0, size, animation_frame(2, 0, clear, alpha)),
           on_canvas(size, 2, 0, clear)[..., :3])
    yield ("webp_exif6_alpha.webp", "EXIF orientation 6, alpha",
           riff(vp8x(ALPHA | EXIF, 14, 10), alpha, chunk(b"EXIF", exif(6))), clear)
    yield ("webp_unknown_chunks.webp", "unknown chunks, and bytes after the container",
           riff(vp8x(0, 14, 10), chunk(b"abcd", b"123"), plain, chunk(b"efgh", b"")) + b"more",
           opaque)
    yield ("webp_second_damaged.webp", "damaged second frame",
           animation(0, (14, 10), second,
                     animation_frame(0, 0, opaque, plain[:16] + b"\xff" * (len(plain) - 16))),
           opaque)
    yield ("webp_short_data.webp", "whole container, image data cut",
           riff(chunk(b"VP8L", plain[8:-12])), "corrupt")
    yield ("webp_frame_beyond.webp", "frame beyond the canvas",
           animation(0, size, animation_frame(12, 0, opaque, plain)), "corrupt")
    yield ("webp_other_canvas.webp", "still picture of another size than the canvas",
           riff(vp8x(0, 14, 12), plain), "corrupt")
    yield ("webp_no_frames.webp", "animation without frames", animation(0, size), "corrupt")


# ---------------------------------------------------------------- answers

def sha256(rgb):
    return hashlib.sha256(np.ascontiguousarray(rgb).tobytes()).hexdigest()


def pillow_answer(data):
    picture = Image.open(io.BytesIO(data))
    row = {"mode": picture.mode, "size": list(picture.size)}
    orientation = picture.getexif().get(0x0112, 1)
    row["rgb_sha256"] = sha256(np.asarray(picture.convert("RGB")))
    if orientation != 1:
        rotated = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
        row.update(orientation=orientation, rotated_rgb_sha256=sha256(np.asarray(rotated)))
    return row


def blended(pixels):
    if pixels.shape[2] == 3:
        return pixels
    alpha = pixels[..., 3:].astype(np.int64)
    colour = pixels[..., :3].astype(np.int64)
    return ((colour * alpha + BACKGROUND * (255 - alpha) + 127) // 255).astype(np.uint8)


def package_answer(data):
    options = deepseek_recipe.PreprocessOptions("high", 8192, 512)
    try:
        return deepseek_recipe.OpenCvImagePreprocessor().preprocess(data, options).data
    except deepseek_recipe.ImageError:
        return None


def recipe_answer(name, data, pixels):
    if isinstance(pixels, str):
        assert package_answer(data) is None, f"{name}: the package accepts it"
        return {"recipe_refuse": pixels}
    rgb = blended(pixels)
    stream = io.BytesIO()
    Image.fromarray(rgb).save(stream, "PNG")
    assert package_answer(data) == package_answer(stream.getvalue()), f"{name}: other pixels"
    return {"recipe_size": [rgb.shape[1], rgb.shape[0]], "recipe_rgb_sha256": sha256(rgb),
            "transparent": bool(pixels.shape[2] == 4 and (pixels[..., 3] < 255).any())}


def answer(name, note, data, expected):
    row = {"file": name, "note": note}
    try:
        row.update(pillow_answer(data))
    except (OSError, ValueError):
        assert isinstance(expected, str), f"{name}: Pillow refuses it"
        row["refuse"] = expected
    if expected is not None:  # None: recipe's answer is not kept
        row.update(recipe_answer(name, data, expected))
    return row


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: image_extra_webp_gif.py FOLDER")
    with open(os.path.join(sys.argv[1], "webp_gif.jsonl"), "w", encoding="utf-8") as index:
        for name, note, data, expected in (*gif_cases(), *webp_cases()):
            with open(os.path.join(sys.argv[1], name), "wb") as file:
                file.write(data)
            index.write(json.dumps(answer(name, note, data, expected)) + "\n")


if __name__ == "__main__":
    main()
