#!/usr/bin/env python3
"""The weights of `tessera synth`, made again: any tensor of a config.json by its name.

The rules are those of src/models/deepseek_v41/synthetic_values.h; this file is written from that
text, so that each checks the other. Needs numpy.

  python synthetic_weights.py --config DIR/config.json --list
  python synthetic_weights.py --config DIR/config.json --tensor head.weight --out head.bin
  python synthetic_weights.py --config DIR/config.json --compare DIR [--tensor 'layers.0.*']

--out writes the bytes as a checkpoint stores them. --compare reads the checkpoint in DIR and says
which tensors differ; the exit status is 1 when one does.
"""

import argparse
import fnmatch
import json
import math
import os
import struct
import sys
from collections import namedtuple

import numpy as np

Tensor = namedtuple("Tensor", "name dtype shape")
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MASK = (1 << 64) - 1
CHUNK = 1 << 20  # numbers made at a time
E4M3_RMS, E2M1_RMS, SCALE_E4M3_RMS = 107.0, 2.926, 148.3
BYTES = {"F32": 4, "BF16": 2, "F16": 2, "F8_E4M3": 1, "F8_E8M0": 1, "I8": 1, "U8": 1}


# Numbers.

def mix(x):
    with np.errstate(over="ignore"):
        z = np.asarray(x, np.uint64) + GOLDEN
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def fnv(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 & MASK
    return h


def bits(name, seed, first, count):
    key = mix(np.uint64(seed ^ fnv(name.encode())))
    with np.errstate(over="ignore"):
        return mix(key + np.arange(first, first + count, dtype=np.uint64) * GOLDEN)


def units(raw):
    return ((raw >> np.uint64(40)).astype(np.int64) - (1 << 23)).astype(np.float32) * np.float32(2.0**-23)


def to_bf16(x):
    u = x.view(np.uint32).astype(np.uint64)
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)


def nearest(x):
    return math.floor(x + 0.5)


# Rules.

QUANTISED = (".attn.wq_a.weight", ".attn.wq_b.weight", ".attn.wkv.weight", ".attn.wo_a.weight",
             ".attn.wo_b.weight", ".attn.indexer.wq_b.weight", ".main_proj.weight", ".engram.wkv.weight")
SCALES = (".scale", ".weight_scale", ".weight_scale_inv", ".weight_scale_2", ".input_scale")


def row_length(weight):
    if len(weight.shape) != 2:
        return 1
    return max(1, weight.shape[1] * (2 if weight.dtype in ("I8", "U8") else 1))


def centre_and_width(t):
    """c and a of c + a * u."""
    name = t.name
    is_weight = name.endswith(".weight")
    if ("norm" in name or name.endswith((".engram.q_weight", ".engram.k_weight"))
            or (t.dtype == "F32" and ".hc_" in name and name.endswith("_scale"))):
        return 1.0, 2.0**-2
    if t.dtype == "F32" and not is_weight:
        return 0.0, 2.0**-8 if ".hc_" in name and name.endswith("_fn") else 2.0**-3
    if name.endswith(".bias"):
        return 0.0, 2.0**-3
    if name == "aligner.w1.weight":
        return 0.0, 2.0**-6
    if name == "aligner.w2.weight" or name.endswith(".mlp.w2.weight"):
        return 0.0, 2.0**-5
    if name.endswith((".engram.embed.weight", ".markov_head.embed.weight")):
        return 0.0, 1.0
    if name.endswith(QUANTISED) or (is_weight and (".ffn.experts." in name or ".ffn.shared_experts." in name)):
        return 0.0, 2.0**nearest(math.log2(3.0 / row_length(t)) / 2)
    return 0.0, 2.0**-4


def values(t, weight, seed, first, count):
    """Elements [first, first + count) of a tensor as an array of its bytes or numbers. `weight` is
    NAME.weight for a scale NAME.*, otherwise the tensor itself."""
    if not t.name.endswith(SCALES):
        if t.dtype in ("F8_E4M3", "I8", "U8"):
            begin = first // 8
            code = bits(t.name, seed, begin, -(-(first + count) // 8) - begin).astype("<u8").view(np.uint8)
            code = code[first - 8 * begin:][:count].copy()
            if t.dtype == "F8_E4M3":
                code[(code & 0x7F) == 0x7F] -= 1
            return code
        centre, width = centre_and_width(t)
        x = np.float32(centre) + np.float32(width) * units(bits(t.name, seed, first, count))
        return {"BF16": to_bf16, "F16": lambda v: v.astype(np.float16), "F32": lambda v: v}[t.dtype](x)
    raw = bits(t.name, seed, first, count)
    code_rms = E2M1_RMS if weight.dtype in ("I8", "U8") else E4M3_RMS
    rms = 1.0 if t.name.endswith(".engram.embed.scale") else 1 / math.sqrt(row_length(weight))
    exponent = math.log2(rms / code_rms)
    if t.name.endswith(".input_scale"):
        return np.full(count, 2.0**-8, np.float32)
    if t.name.endswith(".weight_scale_2"):
        factor = 2.0**nearest(exponent - math.log2(SCALE_E4M3_RMS))
        return (np.float32(1) + np.float32(0.25) * units(raw)) * np.float32(factor)
    if t.name.endswith(".weight_scale_inv"):
        return (np.float32(0.75) + np.float32(0.25) * units(raw)) * np.float32(2.0**nearest(exponent))
    if t.name.endswith(".weight_scale"):
        return (0x68 + (raw >> np.uint64(60)).astype(np.uint8)).astype(np.uint8)
    return (127 + nearest(exponent) - (raw >> np.uint64(63)).astype(np.int64)).astype(np.uint8)


def pieces(t, weight, seed=1):
    """The bytes of a tensor, piece by piece."""
    total = math.prod(t.shape)
    for first in range(0, total, CHUNK):
        yield values(t, weight, seed, first, min(CHUNK, total - first)).tobytes()


# The tensors of a configuration.

FLAT = {"hidden_size": "dim", "moe_intermediate_size": "moe_inter_dim", "num_hidden_layers": "n_layers",
        "num_nextn_predict_layers": "n_mtp_layers", "num_attention_heads": "n_heads",
        "kv_source_layer_ids": "kv_source_layers", "index_source_layer_ids": "index_source_layers"}
FLAT_VISION = {"num_hidden_layers": "vision_n_layers", "hidden_size": "vision_dim",
               "intermediate_size": "vision_inter_dim", "patch_size": "vision_patch_size",
               "downsample_ratio": "vision_downsample_ratio"}


class Catalogue:
    """All tensors of a config.json, in both of its dialects, by name."""

    def __init__(self, config):
        self.tensors = {}
        nested = "text_config" in config
        text = config["text_config"] if nested else config
        self.c = lambda key: text[key if nested else FLAT.get(key, key)]
        vision = config.get("vision_config") if nested else config
        self.v = lambda key: vision[key if nested else FLAT_VISION[key]] if vision else 0
        self.formats(config, nested)
        self.model()

    def formats(self, config, nested):
        q = config.get("quantization_config", {}) if nested else config
        experts = q.get("expert_dtype", "fp4")
        self.table = q.get("engram_dtype", "fp8")
        if (not nested and q.get("dtype") == "bf16") or not q:
            self.projection = "bf16" if q else "fp8"
            self.block = 32
        else:
            block = q.get("weight_block_size", [32, 32])[0]
            is_e8m0 = q.get("scale_fmt", "ue8m0" if not nested or "quant_algo" in q else "float") == "ue8m0"
            self.projection, self.block = "fp8" if is_e8m0 else "fp8_f32", block
            if nested and "quant_algo" not in q:
                experts = q.get("expert_dtype", "fp8")
        self.expert = {"fp4": "mxfp4", "bf16": "bf16", "fp8": self.projection}[experts]
        self.draft_expert = self.expert
        if "quant_algo" in q:
            self.expert = "nvfp4"

    def add(self, name, dtype, *shape):
        self.tensors[name] = Tensor(name, dtype, shape)

    def matrix(self, name, outputs, inputs, form="bf16"):
        tiles = (-(-outputs // self.block), -(-inputs // self.block))
        if form == "bf16":
            self.add(name + ".weight", "BF16", outputs, inputs)
        elif form in ("fp8", "fp8_f32"):
            self.add(name + ".weight", "F8_E4M3", outputs, inputs)
            self.add(name + (".scale" if form == "fp8" else ".weight_scale_inv"),
                     "F8_E8M0" if form == "fp8" else "F32", *tiles)
        elif form == "mxfp4":
            self.add(name + ".weight", "I8", outputs, inputs // 2)
            self.add(name + ".scale", "F8_E8M0", outputs, inputs // 32)
        else:
            self.add(name + ".weight", "U8", outputs, inputs // 2)
            self.add(name + ".weight_scale", "F8_E4M3", outputs, inputs // 16)
            self.add(name + ".weight_scale_2", "F32")
            self.add(name + ".input_scale", "F32")

    def block_of(self, p, experts, form):
        c, fp8 = self.c, self.projection
        hidden, ffn, copies = c("hidden_size"), c("moe_intermediate_size"), c("hc_mult")
        heads, width = c("num_attention_heads"), c("head_dim")
        q_rank, o_rank, groups = c("q_lora_rank"), c("o_lora_rank"), c("o_groups")
        self.add(p + "attn_norm.weight", "BF16", hidden)
        self.add(p + "ffn_norm.weight", "BF16", hidden)
        for half in ("hc_attn", "hc_ffn"):
            self.add(p + half + "_fn", "F32", (2 + copies) * copies, copies * hidden)
            self.add(p + half + "_base", "F32", (2 + copies) * copies)
            self.add(p + half + "_scale", "F32", 3)
        self.matrix(p + "attn.wq_a", q_rank, hidden, fp8)
        self.add(p + "attn.q_norm.weight", "BF16", q_rank)
        self.matrix(p + "attn.wq_b", heads * width, q_rank, fp8)
        self.matrix(p + "attn.wkv", width, hidden, fp8)
        self.add(p + "attn.kv_norm.weight", "BF16", width)
        self.matrix(p + "attn.wo_a", groups * o_rank, heads * width // groups, fp8)
        self.matrix(p + "attn.wo_b", hidden, groups * o_rank, fp8)
        self.add(p + "attn.attn_sink", "F32", heads)
        self.matrix(p + "ffn.gate", experts, hidden)
        self.add(p + "ffn.gate.bias", "F32", experts)
        self.add(p + "ffn.gate.bias_vl", "F32", experts)
        for e in range(experts):
            self.expert_of(f"{p}ffn.experts.{e}.", hidden, ffn, form)
        self.expert_of(p + "ffn.shared_experts.", hidden, ffn, fp8)

    def expert_of(self, p, hidden, ffn, form):
        self.matrix(p + "w1", ffn, hidden, form)
        self.matrix(p + "w3", ffn, hidden, form)
        self.matrix(p + "w2", hidden, ffn, form)

    def sources(self, p, layer):
        c, hidden, width = self.c, self.c("hidden_size"), self.c("head_dim")
        if layer in c("kv_source_layer_ids"):
            self.matrix(p + "compressor.wkv", width, hidden)
            if c("compress_ratios")[layer] > 1:
                self.matrix(p + "compressor.wgate", width, hidden)
            self.add(p + "compressor.norm.weight", "BF16", width)
            self.matrix(p + "indexer.wk", c("index_head_dim"), width)
            self.add(p + "indexer.k_norm.weight", "BF16", c("index_head_dim"))
        if layer in c("index_source_layer_ids"):
            self.matrix(p + "indexer.wq_b", c("index_n_heads") * c("index_head_dim"), c("q_lora_rank"),
                        self.projection)
            self.matrix(p + "indexer.weights_proj", c("index_n_heads"), hidden)

    def engram(self, p, rows):
        c, hidden, copies, width = self.c, self.c("hidden_size"), self.c("hc_mult"), self.c("engram_head_dim")
        dtype, per_byte = {"fp8": ("F8_E4M3", 1), "fp4": ("U8", 2), "bf16": ("BF16", 1)}[self.table]
        self.add(p + "embed.weight", dtype, rows, width // per_byte)
        if self.table != "bf16":
            self.add(p + "embed.scale", "F8_E8M0", rows, width // 32)
        columns = (c("engram_max_ngram_size") - 1) * c("engram_n_heads")
        self.matrix(p + "wkv", (copies + 1) * hidden, columns * width, self.projection)
        self.add(p + "q_weight", "BF16", copies, hidden)
        self.add(p + "k_weight", "BF16", copies, hidden)

    def model(self):
        c, hidden = self.c, self.c("hidden_size")
        self.add("embed.weight", "BF16", c("vocab_size"), hidden)
        self.matrix("head", c("vocab_size"), hidden)
        self.add("norm.weight", "BF16", hidden)
        memories = dict(zip(c("engram_layer_ids"), c("engram_num_embeddings")))
        for layer in range(c("num_hidden_layers")):
            p = f"layers.{layer}."
            self.block_of(p, c("n_routed_experts"), self.expert)
            self.sources(p + "attn.", layer)
            if layer in memories:
                self.engram(p + "engram.", memories[layer])
        if self.v("num_hidden_layers"):
            self.vision()
        if c("num_nextn_predict_layers"):
            self.drafts()

    def vision(self):
        v, hidden = self.v, self.c("hidden_size")
        width = v("hidden_size")

        def with_bias(name, outputs, inputs):
            self.matrix(name, outputs, inputs)
            self.add(name + ".bias", "BF16", outputs)
        with_bias("vision.patch_embed.proj", width, 3 * v("patch_size")**2)
        for i in range(v("num_hidden_layers")):
            p = f"vision.blocks.{i}."
            self.add(p + "norm1.weight", "BF16", width)
            self.add(p + "norm2.weight", "BF16", width)
            with_bias(p + "attn.wqkv", 3 * width, width)
            with_bias(p + "attn.wo", width, width)
            self.matrix(p + "mlp.w1", 2 * v("intermediate_size"), width)
            self.matrix(p + "mlp.w2", width, v("intermediate_size"))
        self.add("vision.norm.weight", "BF16", width)
        with_bias("aligner.w1", hidden, width * v("downsample_ratio")**2)
        with_bias("aligner.w2", hidden, hidden)
        for name in ("image_start", "image_end", "image_newline"):
            self.add(name, "BF16", hidden)

    def drafts(self):
        c, hidden = self.c, self.c("hidden_size")
        stages, rank = c("num_nextn_predict_layers"), c("dspark_markov_rank")
        for i in range(stages):
            self.block_of(f"mtp.{i}.", c("dspark_n_routed_experts"), self.draft_expert)
        self.matrix("mtp.0.main_proj", hidden, len(c("dspark_target_layer_ids")) * hidden, self.projection)
        self.add("mtp.0.main_norm.weight", "BF16", hidden)
        last = f"mtp.{stages - 1}."
        self.add(last + "norm.weight", "BF16", hidden)
        self.add(last + "markov_head.embed.weight", "BF16", c("vocab_size"), rank)
        self.matrix(last + "markov_head.head", c("vocab_size"), rank)
        self.matrix(last + "confidence_head.proj", 1, hidden + rank)

    def weight_of(self, tensor):
        if not tensor.name.endswith(SCALES):
            return tensor
        return self.tensors[tensor.name[:tensor.name.rindex(".")] + ".weight"]


# Checkpoints.

class Checkpoint:
    def __init__(self, folder):
        self.places = {}  # name: file, dtype, shape, begin, end
        for file in sorted(f for f in os.listdir(folder) if f.endswith(".safetensors")):
            path = os.path.join(folder, file)
            with open(path, "rb") as stream:
                (size,) = struct.unpack("<Q", stream.read(8))
                header = json.loads(stream.read(size))
            header.pop("__metadata__", None)
            for name, entry in header.items():
                begin, end = entry["data_offsets"]
                self.places[name] = (path, entry["dtype"], tuple(entry["shape"]), 8 + size + begin, end - begin)

    def has(self, tensor):
        place = self.places.get(tensor.name)
        return place is not None and place[1:3] == (tensor.dtype, tensor.shape)

    def equals(self, tensor, made):
        path, _, _, begin, size = self.places[tensor.name]
        if size != math.prod(tensor.shape) * BYTES[tensor.dtype]:
            return False
        with open(path, "rb") as stream:
            stream.seek(begin)
            return all(stream.read(len(piece)) == piece for piece in made)


def compare(catalogue, folder, pattern, seed):
    checkpoint = Checkpoint(folder)
    equal = different = 0
    for tensor in catalogue.tensors.values():
        if not fnmatch.fnmatchcase(tensor.name, pattern):
            continue
        if not checkpoint.has(tensor):
            print(f"{tensor.name}: not in the checkpoint as {tensor.dtype} {list(tensor.shape)}")
        elif not checkpoint.equals(tensor, pieces(tensor, catalogue.weight_of(tensor), seed)):
            print(f"{tensor.name}: other bytes")
        else:
            equal += 1
            continue
        different += 1
    unknown = [n for n in checkpoint.places if n not in catalogue.tensors and fnmatch.fnmatchcase(n, pattern)]
    for name in unknown:
        print(f"{name}: in the checkpoint, not of this configuration")
    print(f"{equal} tensors equal, {different + len(unknown)} different")
    return 1 if different or unknown or not equal else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True, metavar="FILE")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tensor", default="*", metavar="NAME", help="a name; a pattern with --list and --compare")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--out", metavar="FILE")
    parser.add_argument("--compare", metavar="DIR")
    a = parser.parse_args()
    with open(a.config, encoding="utf-8") as file:
        catalogue = Catalogue(json.load(file))
    if a.compare:
        return compare(catalogue, a.compare, a.tensor, a.seed)
    if a.list:
        for tensor in catalogue.tensors.values():
            if fnmatch.fnmatchcase(tensor.name, a.tensor):
                print(tensor.name, tensor.dtype, list(tensor.shape))
        return 0
    if a.out is None or a.tensor not in catalogue.tensors:
        parser.error("expected --list, --compare DIR, or --out FILE with the --tensor of this configuration")
    tensor = catalogue.tensors[a.tensor]
    with open(a.out, "wb") as file:
        for piece in pieces(tensor, catalogue.weight_of(tensor), a.seed):
            file.write(piece)
    return 0


if __name__ == "__main__":
    sys.exit(main())
