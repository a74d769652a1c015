#!/usr/bin/env python3
r"""Runs a Qwen3-VL checkpoint in transformers, on CPU, and writes a trace of it.

  python qwen3_vl.py --model DIR --input case.json --out case.safetensors
  python qwen3_vl.py --model DIR --input recorded.safetensors --activations f32 --detail \
      --out again.safetensors

The case is a case file or a trace (whose request is run again). Decoding is greedy, or follows
--tokens. Taps have the names of docs/numerics.md; --detail adds what lies inside the blocks.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
import transformers
from transformers import DynamicCache
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.vision_utils import get_vision_interpolation_indices_and_weights

from case_file import Case, load_case, read_json
from qwen3_vl_request import Request, load_processor, pixels_of, prepare
from trace_hooks import Mapping, Recorder, metadata_of
from trace_writer import TraceError, TraceWriter

HERE = os.path.dirname(os.path.abspath(__file__))
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
ARCHITECTURES = ("Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration")
VISUAL, TEXT = "model.visual", "model.language_model"


def load_model(folder: str, dtype: torch.dtype) -> torch.nn.Module:
    config = read_json(os.path.join(folder, "config.json"))
    name = (config.get("architectures") or [""])[0] if isinstance(config, dict) else ""
    if name not in ARCHITECTURES:
        raise TraceError(f"{folder}/config.json: architecture '{name}', expected one of "
                         f"{', '.join(ARCHITECTURES)}")
    return getattr(transformers, name).from_pretrained(folder, dtype=dtype,
                                                       attn_implementation="sdpa").eval()


def load_mapping(with_detail: bool) -> Mapping:
    mapping = Mapping.load(os.path.join(HERE, "qwen3_vl.hooks.json"))
    if with_detail:
        mapping.rules += Mapping.load(os.path.join(HERE, "qwen3_vl.detail.hooks.json")).rules
    return mapping


def variables_of(config: Any) -> dict[str, int]:
    text, vision = config.text_config, config.vision_config
    return {"last_layer": text.num_hidden_layers - 1, "head_dim": text.head_dim,
            "vision_heads": vision.num_heads}


class ModelTaps:
    """The taps that no module's input or output holds as it is."""

    def __init__(self, model: torch.nn.Module, recorder: Recorder) -> None:
        self.model, self.recorder = model, recorder
        self.table_rows: torch.Tensor | None = None  # [patches, 4, width]: corners' table rows
        self.embedded: torch.Tensor | None = None    # [patches, width]
        self.level = 0                               # of the DeepStack additions of this call

    def attach(self) -> None:
        recorder = self.recorder
        recorder.after(TEXT + ".rotary_emb", self._positions)
        recorder.after(VISUAL + ".pos_embed", self._keep_table)
        recorder.after(VISUAL + ".patch_embed", self._keep_embedded)
        recorder.after(VISUAL + ".rotary_pos_emb", self._position_rows)
        for l, layer in enumerate(recorder.module(TEXT + ".layers")):
            if hasattr(layer.mlp, "gate"):
                recorder.after(f"{TEXT}.layers.{l}.mlp.gate", self._gate(l))

    def _positions(self, module: torch.nn.Module, args: tuple, output: Any) -> None:
        self.level = 0
        if self.recorder.call == 0:
            self.recorder.once("positions", args[1][:, 0])

    def _keep_table(self, module: torch.nn.Module, args: tuple, output: torch.Tensor) -> None:
        self.table_rows = output.detach()

    def _keep_embedded(self, module: torch.nn.Module, args: tuple, output: torch.Tensor) -> None:
        self.embedded = output.detach()

    def _position_rows(self, module: torch.nn.Module, args: tuple, output: Any) -> None:
        """The interpolated rows have no module. They are formed again from the table's rows, and
        their sum with the patches must be what the tower goes on with."""
        tower = self.model.model.visual
        _, weights = get_vision_interpolation_indices_and_weights(
            self.recorder.item_grid, num_grid_per_side=tower.num_grid_per_side,
            mode=tower.interpolation_mode, align_corners=tower.interpolation_align_corners,
            spatial_merge_size=tower.spatial_merge_size)
        rows = (self.table_rows * weights[:, :, None]).sum(1).to(self.embedded.dtype)
        if not torch.equal(self.embedded + rows, args[0]):
            raise TraceError("the tower's input is not the sum of patches and position rows; this "
                             f"script was written for transformers 5.24.0, found "
                             f"{transformers.__version__}")
        self.recorder.in_items("vision.pos_embed", rows)
        self.table_rows = self.embedded = None

    def _gate(self, l: int) -> Any:
        def see(module: torch.nn.Module, args: tuple, output: tuple) -> None:
            logits, weights, experts = output
            order = experts.argsort(dim=-1)
            put, name = self.recorder.in_call, f"layers.{l}.ffn.gate."
            put(name + "scores", torch.softmax(logits, dim=-1, dtype=torch.float32))
            put(name + "topk", experts.gather(-1, order))
            put(name + "weights", weights.gather(-1, order))
        return see

    @contextmanager
    def deepstack(self) -> Iterator[None]:
        """Records what each DeepStack level adds to the rows of the call."""
        text = self.model.model.language_model
        add = text._deepstack_process

        def recorded(hidden: torch.Tensor, mask: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
            added = torch.zeros_like(hidden[0])
            added[mask[0]] = rows.to(hidden.dtype)
            self.recorder.in_call(f"layers.{self.level}.deepstack", added)
            self.level += 1
            return add(hidden, mask, rows)

        text._deepstack_process = recorded
        try:
            yield
        finally:
            del text._deepstack_process

    @contextmanager
    def attention(self) -> Iterator[None]:
        """Records queries and keys after rotation, where the attention function receives them."""
        attend = ALL_ATTENTION_FUNCTIONS["sdpa"]
        names = {id(module): path for path, module in self.recorder.modules.items()}
        slices: dict[str, list[torch.Tensor]] = {}  # of the tower: one attention per picture slice

        def recorded(module: torch.nn.Module, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
                     *args: Any, **kwargs: Any) -> Any:
            path = names[id(module)]
            for name, value in (("q", q), ("k", k)):
                rows = value[0].transpose(0, 1)  # [rows, heads, head_dim]
                if path.startswith(TEXT):
                    layer = path.split(".")[3]
                    self.recorder.in_call(f"layers.{layer}.attn.{name}", rows[-q.shape[2]:])
                    continue
                block = path.split(".")[3]
                parts = slices.setdefault(f"vision.blocks.{block}.attn.{name}", [])
                parts.append(rows)
                if sum(len(part) for part in parts) == sum(self.recorder.item_rows):
                    self.recorder.in_items(f"vision.blocks.{block}.attn.{name}", torch.cat(parts))
                    parts.clear()
            return attend(module, q, k, v, *args, **kwargs)

        ALL_ATTENTION_FUNCTIONS["sdpa"] = recorded
        try:
            yield
        finally:
            del ALL_ATTENTION_FUNCTIONS["sdpa"]


def add_pictures(writer: TraceWriter, request: Request, processor: Any) -> None:
    """What the processor made of pictures and videos."""
    for kind, values, part in (("image", "pixel_values", processor.image_processor),
                               ("video", "pixel_values_videos", processor.video_processor)):
        grids = request.inputs.get(f"{kind}_grid_thw")
        if grids is None:
            continue
        patches = request.inputs[values].split(grids.prod(-1).tolist())
        for k, grid in enumerate(grids):
            writer.add(f"{kind}{k}.grid", grid)
            pixels = pixels_of(patches[k], grid.tolist(), part)
            if kind == "image":
                writer.add(f"image{k}.pixels", pixels[0])
                continue
            video = request.videos[k]
            writer.add(f"video{k}.pixels", pixels[:len(video.frames)])
            writer.add(f"video{k}.frames", torch.from_numpy(video.frames))
            writer.add(f"video{k}.frame_indices", torch.tensor(video.indices))


def forward_calls(model: torch.nn.Module, request: Request, recorder: Recorder,
                  follow: list[int], decode_calls: int, all_logits: bool) -> list[int]:
    """Prefill and decode; the ids chosen. `follow`: ids to feed instead of the chosen ones."""
    inputs = request.inputs
    visual = {}
    for kind, values in (("image", "pixel_values"), ("video", "pixel_values_videos")):
        if f"{kind}_grid_thw" in inputs:  # the order in which the model runs its tower
            recorder.item_kinds.append(kind)
            visual |= {values: inputs[values], f"{kind}_grid_thw": inputs[f"{kind}_grid_thw"]}
    if visual:
        visual["mm_token_type_ids"] = inputs["mm_token_type_ids"]
    cache = DynamicCache(config=model.config.text_config)
    out = model(input_ids=inputs["input_ids"], cache=cache, use_cache=True,
                logits_to_keep=0 if all_logits else 1, **visual)
    delta = model.model.rope_deltas
    recorder.once("rope_delta", torch.zeros(1, dtype=torch.int64) if delta is None else delta[0])
    tokens: list[int] = []
    for step in range(decode_calls + 1):
        tokens.append(int(out.logits[0, -1].float().argmax()))
        if step < decode_calls:
            token = follow[step] if step < len(follow) else tokens[-1]
            out = model(input_ids=torch.tensor([[token]]), cache=cache, use_cache=True)
    return tokens


def trace(case: Case, args: argparse.Namespace) -> None:
    processor = load_processor(args.model, args.processor or case.value.get("processor", "fast"))
    request = prepare(processor, case)
    model = load_model(args.model, DTYPES[args.activations])
    decode_calls = args.decode_calls
    if decode_calls is None:
        decode_calls = int(case.value.get("decode_calls", len(args.tokens) or 4))
    with TraceWriter(args.out, args.taps) as writer, torch.no_grad():
        writer.add("ids", request.inputs["input_ids"][0])
        add_pictures(writer, request, processor)
        recorder = Recorder(model, load_mapping(args.detail), writer, variables_of(model.config))
        taps = ModelTaps(model, recorder)
        inside = taps.attention() if args.detail else nullcontext()
        with recorder, taps.deepstack(), inside:
            taps.attach()
            tokens = forward_calls(model, request, recorder, args.tokens, decode_calls,
                                   args.all_logits)
        producer = (f"transformers {transformers.__version__}, torch "
                    f"{torch.__version__.split('+')[0]}, CPU, {args.threads} thread(s)")
        metadata = metadata_of(producer, os.path.join(args.model, "config.json"), case.value,
                               recorder.calls, tokens, args.activations)
        writer.commit(metadata | {"prompt": request.prompt})
        print(f"{args.out}: {len(writer.entries)} taps, {len(recorder.calls)} calls, "
              f"tokens {tokens}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="checkpoint folder")
    parser.add_argument("--input", required=True, help="case file, or a trace to run again")
    parser.add_argument("--case", help="case of the file, by name or number")
    parser.add_argument("--image-root", help="folder of the pictures that the case names")
    parser.add_argument("--out", required=True, help="trace to write")
    parser.add_argument("--activations", choices=list(DTYPES), default="bf16")
    parser.add_argument("--processor", choices=["fast", "pil"], help="default: the case's, or fast")
    parser.add_argument("--detail", action="store_true", help="taps inside blocks and layers too")
    parser.add_argument("--decode-calls", type=int, help="default: the case's, or 4")
    parser.add_argument("--tokens", type=lambda text: [int(t) for t in text.split(",")], default=[],
                        help="ids to feed after the prompt instead of the likeliest: 5,17,9")
    parser.add_argument("--all-logits", action="store_true", help="logits of all rows of the prompt")
    parser.add_argument("--taps", default="*", help="globs of the taps to keep, separated by ','")
    parser.add_argument("--threads", type=int, default=1, help="the goldens were made with 1")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    transformers.logging.set_verbosity_error()
    try:
        trace(load_case(args.input, args.case, args.image_root), args)
    except TraceError as error:
        print(f"qwen3_vl: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
