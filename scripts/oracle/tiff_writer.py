"""Writes TIFF files of any layout, also of those that Pillow does not write: planes, tiles, either
byte order, every codec. For short data; the callers see that the tags make sense."""

import io
import struct
import zlib

import numpy as np
from PIL import Image

SHORT, LONG = 3, 4
NONE, RLE, G3, G4, LZW, JPEG, ADOBE, PACKBITS, DEFLATE = 1, 2, 3, 4, 5, 7, 8, 32773, 32946
WHITE_ZERO, BLACK_ZERO, RGB, PALETTE, CMYK, YCBCR = 0, 1, 2, 3, 5, 6
FAX = {RLE: "tiff_ccitt", G3: "group3", G4: "group4"}


def pack(values, bits):
    """Rows of samples [rows, n] to rows of bytes, the highest bits first."""
    out = []
    for row in values:
        text = "".join(format(int(v), f"0{bits}b") for v in row)
        text += "0" * (-len(text) % 8)
        out.append(bytes(int(text[i:i + 8], 2) for i in range(0, len(text), 8)))
    return out


def packbits(data):
    out = b""
    while data:
        run = next((i for i, b in enumerate(data[:128]) if b != data[0]), min(len(data), 128))
        if run > 1:
            out += bytes([257 - run, data[0]])
            data = data[run:]
        else:
            out += bytes([min(len(data), 3) - 1]) + data[:3]
            data = data[3:]
    return out


def lzw(data):
    """TIFF's LZW, codes from the highest bit on; for data of up to 3800 bytes, without a reset."""
    table, prefix = {bytes([i]): i for i in range(256)}, b""
    bits = format(256, "09b")
    for byte in data:
        longer = prefix + bytes([byte])
        if longer not in table:
            bits += format(table[prefix], f"0{code_width(len(table) + 2)}b")
            table[longer] = len(table) + 2
            longer = bytes([byte])
        prefix = longer
    bits += format(table[prefix], f"0{code_width(len(table) + 2)}b")
    bits += format(257, f"0{code_width(len(table) + 3)}b")
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))


def code_width(entries):
    return max(9, entries.bit_length())


def fax(rows, width, codec, white_is_zero):
    """Strip data of a bilevel picture, taken out of a file that libtiff writes."""
    bits = np.array([[b >> (7 - i % 8) & 1 for i, b in
                      enumerate(np.repeat(np.frombuffer(row, np.uint8), 8))][:width]
                     for row in rows], np.uint8)
    black = bits if white_is_zero else 1 - bits
    out = io.BytesIO()
    Image.fromarray(np.uint8(255 * (1 - black))).convert("1").save(
        out, "TIFF", compression=FAX[codec], tiffinfo={262: 0, 278: len(rows)})
    tags = Image.open(io.BytesIO(out.getvalue())).tag_v2
    start, count = tags[273][0], tags[279][0]
    return out.getvalue()[start:start + count]


def jpeg(block, mode, **options):
    out = io.BytesIO()
    Image.fromarray(block, mode).save(out, "JPEG", **options)
    return out.getvalue()


class Tiff:
    """One picture. `samples` [height, width, n] of integers or floats."""

    def __init__(self, samples, bits, colour, codec=NONE, order="<", planar=False, tile=None,
                 rows=None, extra=None, sample_format=None, predictor=1, fill=1, tags=(),
                 jpeg_mode=None, jpeg_options=None, fills_last=False):
        self.samples, self.bits, self.codec, self.order = samples, bits, codec, order
        self.colour, self.planar, self.predictor, self.fill = colour, planar, predictor, fill
        self.tile, self.rows = tile, rows or samples.shape[0]
        self.fills_last = fills_last  # the last strip has rows below the picture
        self.jpeg_mode, self.jpeg_options = jpeg_mode, jpeg_options or {}
        height, width, count = samples.shape
        self.tags = {256: (LONG, [width]), 257: (LONG, [height]), 258: (SHORT, [bits] * count),
                     259: (SHORT, [codec]), 262: (SHORT, [colour]), 277: (SHORT, [count])}
        if planar:
            self.tags[284] = (SHORT, [2])
        if extra is not None:
            self.tags[338] = (SHORT, extra)
        if sample_format:
            self.tags[339] = (SHORT, [sample_format] * count)
        if predictor != 1:
            self.tags[317] = (SHORT, [predictor])
        if fill != 1:
            self.tags[266] = (SHORT, [fill])
        if tile:
            self.tags.update({322: (SHORT, [tile[0]]), 323: (SHORT, [tile[1]])})
        elif rows:
            self.tags[278] = (SHORT, [rows])
        self.tags.update(dict(tags))

    def encode(self, block):
        """One strip or tile [rows, width, n] to its stored bytes."""
        rows, width, count = block.shape
        if self.codec == JPEG:
            return jpeg(np.uint8(block.squeeze()), self.jpeg_mode, **self.jpeg_options)
        if self.predictor == 2:
            block = np.concatenate([block[:, :1], block[:, 1:] - block[:, :-1]], axis=1)
        if self.bits < 8 or self.bits == 12:
            lines = pack(block.reshape(rows, -1), self.bits)
        else:
            kind = f"{self.order}{block.dtype.kind}{self.bits // 8}"
            lines = [row.astype(kind).tobytes() for row in block.reshape(rows, -1)]
        if self.codec in FAX:
            return self.flip(fax(lines, width, self.codec, self.colour == WHITE_ZERO))
        data = b"".join(lines)
        data = {NONE: lambda d: d, LZW: lzw, ADOBE: zlib.compress, DEFLATE: zlib.compress,
                PACKBITS: lambda d: b"".join(packbits(line) for line in lines)}[self.codec](data)
        return self.flip(data)

    def flip(self, data):
        """FillOrder 2: the lowest bit first."""
        return data if self.fill == 1 else bytes(int(format(b, "08b")[::-1], 2) for b in data)

    def blocks(self):
        height, width, count = self.samples.shape
        planes = [self.samples[:, :, i:i + 1] for i in range(count)] if self.planar else [
            self.samples]
        for plane in planes:
            if not self.tile:
                below = -height % self.rows if self.fills_last else 0
                plane = np.pad(plane, ((0, below), (0, 0), (0, 0)), "edge")
                for y in range(0, height, self.rows):
                    yield self.encode(plane[y:y + self.rows])
                continue
            across, down = self.tile
            whole = np.pad(plane, ((0, -height % down), (0, -width % across), (0, 0)), "edge")
            for y in range(0, height, down):
                for x in range(0, width, across):
                    yield self.encode(whole[y:y + down, x:x + across])

    def bytes(self):
        data, places, counts = b"", [], []
        for block in self.blocks():
            places.append(8 + len(data))
            counts.append(len(block))
            data += block + b"\0" * (len(block) % 2)
        names = (324, 325) if self.tile else (273, 279)
        for name, values in zip(names, (places, counts)):
            self.tags.setdefault(name, (LONG, values))
        return self.directory(data)

    def directory(self, data):
        order = self.order
        entries, more, at = b"", b"", 8 + len(data) + 2 + 12 * len(self.tags) + 4
        for tag, (kind, values) in sorted(self.tags.items()):
            value = values if isinstance(values, bytes) else struct.pack(
                f"{order}{len(values)}{'HI'[kind == LONG]}", *values)
            entries += struct.pack(f"{order}HHI", tag, kind, len(values))
            if len(value) > 4:
                entries += struct.pack(f"{order}I", at + len(more))
                more += value + b"\0" * (len(value) % 2)
            else:
                entries += value.ljust(4, b"\0")
        magic = b"II*\0" if order == "<" else b"MM\0*"
        return (magic + struct.pack(f"{order}I", 8 + len(data)) + data +
                struct.pack(f"{order}H", len(self.tags)) + entries + b"\0\0\0\0" + more)
