"""Small TIFF, BMP and PNM files and what Pillow 13.0.0 makes of them.

    python image_extra_tiff_bmp_pnm.py FOLDER

writes one file per case and tiff_bmp_pnm.jsonl, one row per file: `expect` accept with `format`,
`mode`, `size` and `rgb_sha256` (over Image.open(f).convert("RGB")), or refuse with `class`, the fault
that the decoder has to name, and what `pillow` says. Cases that Pillow reads and the decoder refuses
on purpose have `pillow` "accepts". Needs the packages Pillow 13.0.0 and numpy.
"""

import hashlib
import io
import json
import logging
import os
import struct
import sys
import warnings
import zlib

import numpy as np
from PIL import Image

from tiff_writer import (ADOBE, BLACK_ZERO, CMYK, DEFLATE, G3, G4, JPEG, LONG, LZW, NONE, PACKBITS,
                         PALETTE, RGB, RLE, SHORT, WHITE_ZERO, YCBCR, Tiff, lzw, pack)

SIZE = (7, 3)  # of most pictures


def noise(shape, seed=1):
    """Reproducible values of a little structure, 0 to 65535."""
    count = int(np.prod(shape))
    x = np.arange(count, dtype=np.uint64)
    steps = (x // 3 * 2654435761 + np.uint64(seed) * 40503) >> np.uint64(7)
    return (steps % 65536).astype(np.uint16).reshape(shape)


def picture(bits, count, size=SIZE, seed=1):
    """[height, width, count] of integers."""
    return noise((size[1], size[0], count), seed) >> max(0, 16 - bits)


def colour_map(bits):
    return (320, (SHORT, [int(v) for v in noise((3 << bits,), 5)]))


def tiff_layouts():
    """name, (samples, bits, colour), options: every layout that Pillow names, uncompressed."""
    for bits in (1, 2, 4, 8):
        yield f"grey{bits}", (picture(bits, 1), bits, BLACK_ZERO), {}
        yield f"white{bits}", (picture(bits, 1), bits, WHITE_ZERO), {}
    for bits in (1, 2, 4):
        yield f"palette{bits}", (picture(bits, 1), bits, PALETTE), {"tags": [colour_map(bits)]}
    yield "grey12", (picture(12, 1), 12, BLACK_ZERO), {}
    yield "grey16", (picture(16, 1) >> 7, 16, BLACK_ZERO), {}
    yield "white16", (picture(16, 1) >> 7, 16, WHITE_ZERO), {}
    signed = picture(16, 1).astype(np.int32) // 60 - 200
    yield "int8", (np.int8(signed // 6), 8, BLACK_ZERO), {"sample_format": 2}
    yield "int16", (np.int16(signed), 16, BLACK_ZERO), {"sample_format": 2}
    yield "int32", (signed, 32, BLACK_ZERO), {"sample_format": 2}
    yield "uint32", (np.uint32(np.int64(signed) % 2**32), 32, BLACK_ZERO), {}
    real = np.float32(signed) / np.float32(3)
    real[0, :3, 0] = np.nan, np.inf, -np.inf
    yield "real32", (real, 32, BLACK_ZERO), {"sample_format": 3}
    for kind in (0, 1, 2):
        yield f"grey8_extra{kind}", (picture(8, 2), 8, BLACK_ZERO), {"extra": [kind]}
    for bits in (8, 16):
        yield f"rgb{bits}", (picture(bits, 3), bits, RGB), {}
        yield f"rgba{bits}", (picture(bits, 4), bits, RGB), {}
        for kind in (0, 1, 2):
            yield f"rgb{bits}_extra{kind}", (picture(bits, 4), bits, RGB), {"extra": [kind]}
        yield f"cmyk{bits}", (picture(bits, 4), bits, CMYK), {}
    yield "rgb8_extra999", (picture(8, 4), 8, RGB), {"extra": [999]}
    for kind in (0, 1, 2):
        yield f"rgb8_extra{kind}0", (picture(8, 5), 8, RGB), {"extra": [kind, 0]}
        yield f"rgb8_extra{kind}00", (picture(8, 6), 8, RGB), {"extra": [kind, 0, 0]}
    yield "cmyk8_extra0", (picture(8, 5), 8, CMYK), {"extra": [0]}
    yield "cmyk8_extra00", (picture(8, 6), 8, CMYK), {"extra": [0, 0]}
    for kind in (0, 2):
        shape = picture(8, 2, (6, 3))
        shape[:, :, 0] %= 4
        yield (f"palette8_extra{kind}", (shape, 8, PALETTE),
               {"extra": [kind], "tags": [colour_map(8)]})
    yield "ycbcr", (picture(8, 3), 8, YCBCR), {"tags": [(530, (SHORT, [1, 1]))]}


def tiff_cases():
    """name, bytes; the name's end says which byte order, planes or codec."""
    codecs = {"lzw": LZW, "deflate": ADOBE, "deflate_old": DEFLATE, "packbits": PACKBITS}
    depths = {"grey1", "grey2", "grey4", "rgb8", "rgb16", "real32"}
    for name, what, options in tiff_layouts():
        many = what[0].shape[2] > 1
        yield name, Tiff(*what, **options).bytes()
        if what[1] > 8:
            yield f"{name}_mm", Tiff(*what, order=">", **options).bytes()
        if name in ("grey16", "int16", "int32", "real32", "rgb16", "rgb16_extra1", "cmyk16"):
            yield f"{name}_lzw_mm", Tiff(*what, order=">", codec=LZW, **options).bytes()
        if name in ("grey1", "white1", "white2", "grey4", "grey8", "white8", "palette4", "rgb8",
                    "grey16"):
            yield f"{name}_lsb", Tiff(*what, fill=2, **options).bytes()
        for codec, value in codecs.items():
            if name in depths and (codec != "deflate_old" or name == "rgb8"):
                yield f"{name}_{codec}", Tiff(*what, codec=value, rows=2, **options).bytes()
        if name in ("rgb8", "rgba8", "rgb8_extra0", "rgb8_extra1", "rgb8_extra2", "cmyk8", "rgb16",
                    "grey8", "white8", "palette4", "grey8_extra0", "grey8_extra2"):
            yield f"{name}_planar", Tiff(*what, planar=True, rows=2, **options).bytes()
        if many and what[0].shape[2] < 5 and not name.startswith(("ycbcr", "palette8")):
            yield (f"{name}_planar_lzw",
                   Tiff(*what, codec=LZW, planar=True, rows=2, **options).bytes())
    for codec in ("deflate", "packbits"):
        for bits in (8, 16):
            yield (f"rgb{bits}_planar_{codec}",
                   Tiff(picture(bits, 3), bits, RGB, codec=codecs[codec], planar=True,
                        rows=2).bytes())
    yield from tiff_codecs()
    yield from tiff_geometry()
    yield from tiff_refused()


def tiff_codecs():
    flat = (np.uint16([[0, 0, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 0]] * 3 +
                      [[1] * 19, [0] * 19, [0, 1] * 9 + [0]])[:, :, None], 1)
    for codec, name in ((RLE, "rle"), (G3, "group3"), (G4, "group4")):
        for colour, side in ((WHITE_ZERO, "white"), (BLACK_ZERO, "black")):
            yield f"{name}_{side}", Tiff(*flat, colour, codec=codec, rows=4).bytes()
    yield "group4_lsb", Tiff(*flat, WHITE_ZERO, codec=G4, fill=2).bytes()
    yield "group4_tiles", Tiff(*flat, WHITE_ZERO, codec=G4, tile=(16, 16)).bytes()
    for predictor_bits in (8, 16):
        what = (picture(predictor_bits, 3), predictor_bits, RGB)
        yield (f"rgb{predictor_bits}_lzw_predictor",
               Tiff(*what, codec=LZW, predictor=2).bytes())
        yield (f"rgb{predictor_bits}_deflate_predictor_mm",
               Tiff(*what, codec=ADOBE, predictor=2, order=">").bytes())
    smooth = np.uint8(np.add.outer(np.add.outer(np.arange(11) * 9, np.arange(18) * 5),
                                   np.arange(4) * 20))
    quality = {"quality": 60}
    same = np.uint16(np.full((5, 9, 1), 77))
    for codec, name in ((LZW, "lzw"), (ADOBE, "deflate"), (PACKBITS, "packbits")):
        yield (f"last_strip_full_{name}",
               Tiff(same, 8, BLACK_ZERO, codec=codec, rows=3, fills_last=True).bytes())
    yield "jpeg_last_strip_full", Tiff(smooth[:9, :, :1], 8, BLACK_ZERO, codec=JPEG, rows=8,
                                       jpeg_mode="L", jpeg_options=quality,
                                       fills_last=True).bytes()
    yield "jpeg_grey", Tiff(smooth[:, :, :1], 8, BLACK_ZERO, codec=JPEG, jpeg_mode="L",
                            jpeg_options=quality).bytes()
    for factors, subsampling in (((2, 1), 1), ((2, 2), 2)):
        yield (f"jpeg_ycbcr_{factors[0]}{factors[1]}",
               Tiff(smooth[:, :, :3], 8, YCBCR, codec=JPEG, jpeg_mode="RGB",
                    tags=[(530, (SHORT, list(factors)))],
                    jpeg_options=quality | {"subsampling": subsampling}).bytes())
    yield "jpeg_rgb", Tiff(smooth[:, :, :3], 8, RGB, codec=JPEG, jpeg_mode="RGB",
                           jpeg_options=quality | {"keep_rgb": True}).bytes()
    yield "jpeg_cmyk", Tiff(smooth, 8, CMYK, codec=JPEG, jpeg_mode="CMYK",
                            jpeg_options=quality).bytes()
    yield "jpeg_progressive", Tiff(smooth[:, :, :1], 8, BLACK_ZERO, codec=JPEG, jpeg_mode="L",
                                   jpeg_options=quality | {"progressive": True}).bytes()
    # Runs of PackBits that go on in the next row.
    run = Tiff(np.uint16(np.full((3, 10, 1), 7)), 8, BLACK_ZERO, codec=PACKBITS)
    run.encode = lambda block: bytes([257 - 30, 7])
    yield "packbits_across_rows", run.bytes()


def tiff_geometry():
    for orientation in range(1, 10):
        yield (f"orientation{orientation}",
               Tiff(picture(8, 3, (3, 2)), 8, RGB,
                    tags=[(274, (SHORT, [orientation]))]).bytes())
    for name, text in {"attribute": '="6"', "element": ">8<", "other": "='6'"}.items():
        packet = f"<x tiff:Orientation{text}/>".encode()
        yield (f"orientation_xmp_{name}",
               Tiff(picture(8, 3, (3, 2)), 8, RGB, tags=[(700, (1, packet))]).bytes())
    flat = picture(4, 1, (18, 14)) * 16
    yield "tiles_grey8_lzw", Tiff(flat, 8, BLACK_ZERO, codec=LZW, tile=(16, 32)).bytes()
    bands = np.repeat(picture(8, 3, (20, 1)), 18, axis=0)
    for planar in (False, True):
        for bits in (8, 16):
            yield (f"tiles_rgb{bits}{'_planar' if planar else ''}_deflate",
                   Tiff(bands << (bits - 8), bits, RGB, codec=ADOBE, tile=(16, 16),
                        planar=planar).bytes())
    yield "tiles_grey1", Tiff(picture(1, 1, (20, 18)), 1, WHITE_ZERO, tile=(16, 16)).bytes()
    yield "one_pixel", Tiff(picture(8, 3, (1, 1)), 8, RGB).bytes()


def tiff_refused():
    grey = (picture(8, 1), 8, BLACK_ZERO)
    yield "refuse_lab", Tiff(picture(8, 3), 8, 8).bytes()
    yield "refuse_bits_mixed", Tiff(picture(8, 3), 8, RGB,
                                    tags=[(258, (SHORT, [5, 6, 5]))]).bytes()
    yield "refuse_samples7", Tiff(picture(8, 7), 8, RGB, extra=[0] * 4).bytes()
    yield "refuse_rgb32", Tiff(np.uint32(picture(16, 3)), 32, RGB).bytes()
    yield "refuse_real64", Tiff(np.float64(picture(8, 1)), 64, BLACK_ZERO,
                                sample_format=3).bytes()
    yield "refuse_rgb_palette", Tiff(picture(8, 1), 8, PALETTE).bytes()
    for codec in (6, 32771, 32809, 34925, 50000, 50001, 34712, 777):
        data = Tiff(*grey)
        data.tags[259] = (SHORT, [codec])
        yield f"refuse_codec{codec}", data.bytes()
    for name, tags in {
            "no_width": {256: (2, b"9\0")},
            "width0": {256: (LONG, [0])},
            "fill_order3": {266: (SHORT, [3])},
            "two_places": {324: (LONG, [8]), 325: (LONG, [21]), 322: (SHORT, [16]),
                           323: (SHORT, [16])},
            "offset_outside": {273: (LONG, [4000])},
            "rows0": {278: (SHORT, [0])},
            "photometric_twice": {262: (SHORT, [1, 0])},
            "strips_surplus": {273: (LONG, [8, 9])},
            "samples0": {277: (SHORT, [0])},
            "tile_bomb": {322: (LONG, [65536]), 323: (LONG, [65536]), 324: (LONG, [8]),
                          325: (LONG, [21]), 273: (2, b""), 279: (2, b"")},
            "side_bomb": {256: (LONG, [1 << 20]), 257: (LONG, [1 << 20])}}.items():
        data = Tiff(*grey)
        data.tags.update(tags)
        if name == "tile_bomb":
            for tag in (273, 279):
                data.tags[tag] = (2, b"")
        yield f"refuse_{name}", data.bytes()
    # Tag data that all entries share.
    huge = Tiff(*grey, tags=[(tag, (1, b"shared")) for tag in range(40000, 40020)]).bytes()
    yield "refuse_tag_bomb", huge.replace(struct.pack("<HI", 1, 6), struct.pack("<HI", 1, 100))
    short = Tiff(*grey, codec=ADOBE)
    short.encode = lambda block: zlib.compress(bytes(10))
    yield "refuse_deflate_short", short.bytes()
    blank = Tiff(np.zeros((16, 16, 1), int), 1, WHITE_ZERO, codec=G4, tile=(16, 16))
    blank.encode = lambda block: b"\x80\x08\x00\x80"  # one white row, 1, and EOFB
    yield "refuse_group4_tile_short", blank.bytes()
    bomb = Tiff(*grey, codec=ADOBE)
    bomb.tags[256] = bomb.tags[257] = bomb.tags[278] = (LONG, [9000])
    yield "refuse_deflate_bomb", bomb.bytes()
    broken = Tiff(*grey, codec=LZW)
    broken.encode = lambda block: lzw(bytes(21))[:4]
    yield "refuse_lzw_short", broken.bytes()


def bmp(width, height, bits, rows, compression=0, palette=b"", header=40, masks=b"", colours=0,
        offset=None, data=None):
    """`rows` [stored rows] of bytes without padding, or `data` as it is."""
    body = data if data is not None else b"".join(row + b"\0" * (-len(row) % 4) for row in rows)
    if header == 12:
        info = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        info = struct.pack("<IiiHHIIiiII", header, width, height, 1, bits, compression, len(body),
                           2835, 2835, colours, 0) + (masks if header > 40 else b"")
        info = info.ljust(header, b"\0") + (masks if header == 40 else b"")
    start = 14 + len(info) + len(palette) if offset is None else offset
    return (b"BM" + struct.pack("<IHHI", 14 + len(info) + len(palette) + len(body), 0, 0, start) +
            info + palette + body)


def quads(count, seed=5):
    return np.uint8(noise((count, 4), seed) >> 8).tobytes()


def bmp_cases():
    for bits in (1, 4, 8):
        size = SIZE
        rows = pack(picture(bits, 1)[:, :, 0], bits)
        count = min(1 << bits, 40)
        rows8 = pack(picture(bits, 1)[:, :, 0] % count, bits)
        yield f"palette{bits}", bmp(*size, bits, rows8, palette=quads(count), colours=count)
        yield (f"palette{bits}_short",
               bmp(*size, bits, rows, palette=quads(max(1, count // 3)),
                   colours=max(1, count // 3)))
        yield (f"palette{bits}_no_offset",
               bmp(*size, bits, rows8, palette=quads(count), colours=count, offset=0))
        yield (f"palette{bits}_header_offset",
               bmp(*size, bits, rows8, palette=quads(count), colours=count, offset=54))
    rows = pack(picture(4, 1)[:, :, 0], 4)
    yield "palette4_core", bmp(*SIZE, 4, rows, palette=quads(16)[:48], header=12)
    yield "palette4_long", bmp(*SIZE, 4, rows, palette=quads(60), colours=60)
    yield "palette4_topdown", bmp(SIZE[0], -SIZE[1], 4, rows, palette=quads(16))
    black_white = b"\0\0\0\0\xff\xff\xff\0"
    for name, palette in (("bw", black_white), ("wb", black_white[4:] + black_white[:4])):
        yield f"bilevel_{name}", bmp(*SIZE, 1, pack(picture(1, 1)[:, :, 0], 1), palette=palette)
    ramp = b"".join(bytes([i, i, i, 0]) for i in range(20))
    yield "grey_ramp", bmp(*SIZE, 8, pack(picture(6, 1)[:, :, 0], 8), palette=ramp, colours=20)
    yield "refuse_grey_ramp4", bmp(*SIZE, 4, rows, palette=ramp[:64])
    yield ("refuse_bilevel8",
           bmp(*SIZE, 8, pack(picture(1, 1)[:, :, 0], 8), palette=black_white, colours=2))
    for count in (200, 70000):
        yield f"refuse_palette{count}", bmp(1, 1, 8, [b"\0"], palette=quads(40), colours=count)
    wide = [row.astype("<u2").tobytes() for row in picture(16, 1)[:, :, 0]]
    yield "16_555", bmp(*SIZE, 16, wide)
    for name, masks in {"565": (0xf800, 0x7e0, 0x1f), "555": (0x7c00, 0x3e0, 0x1f),
                        "444": (0xf00, 0xf0, 0xf)}.items():
        yield (f"{'refuse_' if name == '444' else ''}16_masks_{name}",
               bmp(*SIZE, 16, wide, 3, masks=struct.pack("<3I", *masks)))
    three = [row.tobytes() for row in np.uint8(picture(8, 3))]
    four = [row.tobytes() for row in np.uint8(picture(8, 4))]
    yield "24", bmp(*SIZE, 24, three)
    yield "24_masks", bmp(*SIZE, 24, three, 3, masks=struct.pack("<3I", 0xff0000, 0xff00, 0xff))
    yield "24_last_row_unpadded", bmp(*SIZE, 24, three)[:-1]
    yield "32", bmp(*SIZE, 32, four)
    for masks in ((0xff0000, 0xff00, 0xff, 0), (0xff000000, 0xff0000, 0xff00, 0),
                  (0xff000000, 0xff00, 0xff, 0), (0xff000000, 0xff0000, 0xff00, 0xff),
                  (0xff, 0xff00, 0xff0000, 0xff000000), (0xff0000, 0xff00, 0xff, 0xff000000),
                  (0xff000000, 0xff00, 0xff, 0xff0000), (0, 0, 0, 0), (0xff, 0xff00, 0xff0000, 0)):
        name = f"32_masks_{masks[0]:x}_{masks[1]:x}_{masks[3]:x}"
        known = masks != (0xff, 0xff00, 0xff0000, 0)
        yield (name if known else f"refuse_{name}",
               bmp(*SIZE, 32, four, 3, header=56, masks=struct.pack("<4I", *masks)))
    yield ("32_masks_v5",
           bmp(SIZE[0], -SIZE[1], 32, four, 3, header=124,
               masks=struct.pack("<4I", 0xff0000, 0xff00, 0xff, 0xff000000)))
    yield ("32_masks_52",
           bmp(*SIZE, 32, four, 3, header=52, masks=struct.pack("<3I", 0xff0000, 0xff00, 0xff)))
    yield "os2_64", bmp(*SIZE, 24, three, header=64)
    for compression in (4, 5, 6):
        yield f"refuse_compression{compression}", bmp(*SIZE, 24, three, compression)
    yield "refuse_bits2", bmp(*SIZE, 2, pack(picture(2, 1)[:, :, 0], 2), palette=quads(4))
    yield "refuse_bits7", bmp(*SIZE, 7, three, palette=quads(4))
    yield "refuse_rle_24", bmp(*SIZE, 24, three, 1)
    yield "refuse_side_bomb", bmp(1 << 20, 1 << 20, 24, three)
    yield from bmp_runs()


def bmp_runs():
    """RLE: width 7, height 4, 28 pixels."""
    end = b"\0\1"
    runs8 = {
        "plain": b"\7\1\0\0\7\2\0\0\7\3\0\0\7\4" + end,
        "no_ends_of_row": b"\7\1" + b"\0\7\1\2\3\4\5\6\7\0" + b"\0\0\7\3\0\0\7\4",
        "row_ends_early": b"\3\1\0\0\7\2\0\0\2\3\0\0\4\4\0\0" + end,
        "delta": b"\2\1\0\2\2\1\3\2\0\2\0\1\2\4\0\2\7\1",
        "delta_past_the_end": b"\2\1\0\2\xff\xff\3\2",
        "run_past_row": b"\xff\1\5\2\0\0\7\2\0\0\7\3\0\0\xff\4",
        "literal_past_row": b"\4\1\0\5\1\2\3\4\5\0\3\6\0\0\7\3\0\0\7\4",
        "literal_odd": b"\0\3\1\2\3\0\4\4\0\0\7\2\0\0\7\3\0\0\7\4",
        "literal_past_end": b"\7\1\0\0\7\2\0\0\7\3\0\0\0\xff\1\2\3\4\5\6\7",
        "refuse_end_early": b"\7\1\0\0\7\2" + end,
        "refuse_cut": b"\7\1\0\0\7\2\0\0\7\3\0\0",
        "refuse_cut_literal": b"\7\1\0\0\7\2\0\0\7\3\0\0\0\7\1\2\3",
        "refuse_cut_delta": b"\7\1\0\2\1",
    }
    runs4 = {
        "plain": b"\7\x12\0\0\7\x34\0\0\7\x56\0\0\7\x78" + end,
        "literal": b"\0\7\x12\x34\x56\x70\0\0\0\5\x12\x34\x50\0\2\x67\0\0\7\x11\0\0\7\x22",
        "literal_past_row": b"\5\x12\0\5\x12\x34\x56\0\7\x99\0\0\7\x11\0\0\7\x22\0\0\7\x33",
        "delta": b"\3\x12\0\2\1\2\2\x34\0\0\7\x55",
    }
    for bits, cases in ((8, runs8), (4, runs4)):
        for name, data in cases.items():
            stem = f"rle{bits}_{name}" if not name.startswith("refuse") else (
                f"refuse_rle{bits}_{name[7:]}")
            yield stem, bmp(7, 4, bits, None, 3 - bits // 4, palette=quads(16), colours=16,
                            data=data)
    yield "rle8_topdown", bmp(7, -4, 8, None, 1, palette=quads(16), colours=16,
                              data=runs8["plain"])
    yield "rle8_odd_offset", bmp(7, 4, 8, None, 1, palette=quads(16), colours=16, offset=119,
                                 data=b"\0\0\3\1\2\3\4\4\0\0\7\2\0\0\7\3\0\0\7\4")
    yield ("rle8_grey", bmp(7, 4, 8, None, 1, colours=20, data=runs8["plain"],
                            palette=b"".join(bytes([i, i, i, 0]) for i in range(20))))
    yield ("refuse_rle8_bilevel", bmp(7, 4, 8, None, 1, colours=2, data=runs8["plain"],
                                      palette=b"\0\0\0\0\xff\xff\xff\0"))
    yield "rle4_of_8_bits", bmp(7, 4, 8, None, 2, palette=quads(16), colours=16,
                                data=runs4["plain"])


def pnm_cases():
    bits = picture(1, 1)[:, :, 0]
    rows = b"".join(pack(bits, 1))
    yield "p1.pbm", b"P1\n7 3\n" + b"\n".join(bytes(48 + v for v in row) for row in bits)
    yield "p1_spaces.pbm", b"P1 7\t3\r" + b" ".join(b"%d" % v for v in bits.ravel()) + b"\n"
    yield "p1_comments.pbm", b"P1\n# a\n7 # b\n3\n01#01\n0101010" + b"1" * 20
    yield "p4.pbm", b"P4\n7 3\n" + rows
    yield "p4_comment.pbm", b"P4\n#\n7 3 " + rows
    grey = np.uint8(picture(8, 1)).tobytes()
    colour = np.uint8(picture(8, 3)).tobytes()
    big = picture(16, 1).astype(">u2").tobytes()
    big3 = picture(16, 3).astype(">u2").tobytes()
    for top in (1, 3, 100, 254, 255):
        yield f"p5_{top}.pgm", b"P5 7 3 %d\n" % top + grey
        yield f"p6_{top}.ppm", b"P6 7 3 %d\n" % top + colour
        part = bytes(v % (top + 1) for v in colour)
        yield f"p3_{top}.ppm", b"P3 7 3 %d\n" % top + b" ".join(b"%d" % v for v in part)
    for top in (256, 1023, 40000, 65534, 65535):
        small = (picture(16, 1).astype(int) % (top + 1)).ravel()
        yield f"p5_{top}.pgm", b"P5 7 3 %d\n" % top + big
        yield f"p6_{top}.ppm", b"P6 7 3 %d\n" % top + big3
        if top < 5000:
            yield f"p2_{top}.pgm", b"P2 7 3 %d\n" % top + b" ".join(b"%d" % v for v in small)
    yield "p3_1023.ppm", b"P3 2 1 1023\n0 1 2 511 512 1023"
    yield "p5_dark_wide.pgm", b"P5 7 3 65535\n" + (picture(16, 1) >> 7).astype(">u2").tobytes()
    yield "p5_comments.pgm", b"P5 # c\n#\r7# x\n 3 #\n\n2#..\n55\n" + grey
    yield "p5_comment_in_number.pgm", b"P5\n#\n7\n3 2#comment\n55 " + grey
    yield "p2_comments.pgm", b"P2\n2 2 9\n1 #2 3\n2 3#4\n 4#end"
    yield "p2_comment_joins.pgm", b"P2\n2 1 99\n1#x\n2 3"
    yield "p6_space_data.ppm", b"P6 1 1 255 " + b"\n\n\n"
    yield "p6_two_pictures.ppm", b"P6 1 1 255\nabc" + b"P6 1 1 255\ndef"
    yield "refuse_p7.pam", b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 1\nMAXVAL 255\nTUPLTYPE GRAYSCALE\nENDHDR\n0"
    yield "refuse_top_0.pgm", b"P5 1 1 0\n\0"
    yield "refuse_top_65536.pgm", b"P5 1 1 65536\n\0\0"
    yield "refuse_width_0.pgm", b"P5 0 1 255\n\0"
    yield "refuse_letters.pgm", b"P5 1x 1 255\n\0"
    yield "refuse_long_number.pgm", b"P5 00000000001 1 255\n\0"
    yield "refuse_value.pgm", b"P2 2 1 9\n1 10"
    yield "refuse_negative.pgm", b"P2 2 1 9\n1 -1"
    yield "refuse_digit.pbm", b"P1 2 1\n12"
    yield "refuse_short.pgm", b"P5 7 3 255\n" + grey[:-1]
    yield "refuse_short_text.pgm", b"P2 3 1 255\n100 200 "
    yield "refuse_short_comment.pgm", b"P2 3 1 255\n1 2 # 3"
    yield "refuse_no_size.pgm", b"P5 7 "
    yield "refuse_side_bomb.ppm", b"P6 99999 99999 255\nabc"


# Faults of the cases named refuse_..., where it is not `corrupt`.
CLASSES = {
    "unsupported": ("lab", "bits_mixed", "samples7", "rgb32", "real64", "codec", "grey_ramp4",
                    "bilevel8", "16_masks", "32_masks", "compression", "bits2", "rle8_bilevel",
                    "p7"),
    "truncated": ("palette200", "offset_outside", "deflate_short", "deflate_bomb", "group4_tile_short",
                  "rle8_cut", "short", "no_size"),
    "too_large": ("side_bomb", "tile_bomb"),
}


def fault(name):
    for kind, stems in CLASSES.items():
        if any(name.startswith(f"refuse_{stem}") for stem in stems):
            return kind
    return "corrupt"


def pillow_answer(data):
    try:
        picture_ = Image.open(io.BytesIO(data))
        answer = {"format": picture_.format, "mode": picture_.mode}
        rgb = picture_.convert("RGB")
    except Exception as error:  # Pillow raises many kinds
        text = str(error).split(" <")[0].split("\n")[0]
        return f"{type(error).__name__}: {text}"
    return answer | {"size": list(rgb.size),
                     "rgb_sha256": hashlib.sha256(rgb.tobytes()).hexdigest()}


def row_of(name, stem, data, refused_layouts):
    answer = pillow_answer(data)
    refuses = stem.startswith("refuse_") or stem in refused_layouts or isinstance(answer, str)
    if not refuses:
        return {"file": name, "expect": "accept"} | answer
    kind = fault(stem) if stem.startswith("refuse_") else "unsupported"
    return {"file": name, "expect": "refuse", "class": kind,
            "pillow": answer if isinstance(answer, str) else "accepts"}


def misread_layouts(names):
    """Cases that Pillow accepts and shows wrong: see is_misread() in src/intake/tiff_layout.cc."""
    swapped = {f"{name}_lzw_mm" for name in ("int16", "int32", "real32")}
    planes = {f"{name}_planar" for name in ("white8", "palette4", "rgb16")}
    return (swapped | planes) & names


def all_cases():
    for stem, data in tiff_cases():
        yield f"tiff_{stem}.tif", stem, data
    for stem, data in bmp_cases():
        yield f"bmp_{stem}.bmp", stem, data
    for name, data in pnm_cases():
        yield f"pnm_{name}", name, data


def main():
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    cases = list(all_cases())
    refused = misread_layouts({stem for _, stem, _ in cases})
    with open(os.path.join(folder, "tiff_bmp_pnm.jsonl"), "w", encoding="utf-8") as rows:
        for name, stem, data in cases:
            with open(os.path.join(folder, name), "wb") as out:
                out.write(data)
            rows.write(json.dumps(row_of(name, stem, data, refused)) + "\n")


if __name__ == "__main__":
    main()
