#!/usr/bin/env python3
r"""Runs DeepSeek's reference program for V4.1 on CPU and writes a trace of it.

  python deepseek_v41.py --reference DIR --model DIR --input case.json --out case.safetensors
  python deepseek_v41.py --reference DIR --model DIR --input recorded.safetensors --drafts \
      --out again.safetensors

The program is not part of this repository; deepseek_v41_reference.py says what its folder holds.
The case is a case file or a trace (whose request is run again). Decoding is greedy, or follows
--tokens. The attention of the vision tower runs in torch's "math" kernel (fp32 softmax, rounded once).
"""

import argparse
import copy
import os
import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import PreTrainedTokenizerFast

from case_file import Case, load_case
from deepseek_v41_reference import Reference, load_model, load_reference
from deepseek_v41_taps import ProgramTaps
from trace_hooks import Mapping, Recorder, metadata_of
from trace_writer import TraceError, TraceWriter

HERE = os.path.dirname(os.path.abspath(__file__))
IMAGE, LINE_END = 1, 2  # token types


@dataclass
class Plan:
    ids: list[int]
    prefill: int          # ids of the first call; the others follow one by one
    follow: list[int]     # ids to feed behind the prompt
    greedy: int           # chosen ids to feed behind those
    drafts: bool


def encode(reference: Reference, case: Case, thinking_mode: str) -> tuple[str, list[str]]:
    """The prompt and the files of its pictures."""
    value = case.value
    if "messages" in value and reference.encoding is not None:
        messages = copy.deepcopy(value["messages"])
        if value.get("tools"):
            messages[0]["tools"] = value["tools"]
        options = {key: value[key] for key in ("context", "reasoning_effort") if key in value}
        prompt, media = reference.encoding.encode_messages(
            messages, thinking_mode=value.get("thinking_mode", thinking_mode),
            return_multi_modal_data=True, **options)
        return prompt, [source if isinstance(source, str) else source["url"]
                        for source in media["images"]]
    if "prompt" in value:
        return value["prompt"], value.get("images", [])
    raise TraceError("the case has messages, but the reference folder has no encoding/encoding.py")


def load_tokenizer(folder: str) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_file=os.path.join(folder, "tokenizer.json"),
                                   clean_up_tokenization_spaces=False)


def add_pictures(recorder: Recorder, images: list[Any], canvases: list[torch.Tensor]) -> None:
    for k, (image, canvas) in enumerate(zip(images, canvases)):
        rows = int((image.types == LINE_END).sum())
        columns = int((image.types == IMAGE).sum()) // rows
        recorder.once(f"image{k}.pixels", canvas)
        recorder.once(f"image{k}.grid", torch.tensor([image.n_vit_h, image.n_vit_w, rows, columns]))
        recorder.once(f"image{k}.patches", image.patches.flatten(1))


def draft(net: torch.nn.Module, taps: ProgramTaps, token: torch.Tensor, hidden: torch.Tensor,
          start: int, last: int) -> None:
    """The draft stages behind a call. A prefill first feeds them its rows; its own draft takes the
    last position of the prompt for the current one."""
    taps.is_drafting = True
    if start == 0:
        net.forward_spec(token, hidden, 0)
    if last > 0:
        taps.is_recording_draft = True
        tokens, logits, confidence = net.forward_spec(token, hidden[:, -1:], last)
        taps.is_recording_draft = False
        for name, value in (("tokens", tokens), ("logits", logits), ("confidence", confidence)):
            taps.recorder.in_call(f"dspark.{name}", value[0])
    taps.is_drafting = False


def forward_calls(net: torch.nn.Module, taps: ProgramTaps, plan: Plan, types: list[int],
                  images: list[Any] | None) -> list[int]:
    """The ids chosen after each call."""
    pending = plan.ids[plan.prefill:] + plan.follow
    chunk, start, tokens = plan.ids[:plan.prefill], 0, []
    for call in range(1 + len(pending) + plan.greedy):
        pictures = [images] if call == 0 and images is not None else None
        kinds = torch.tensor([types]) if pictures is not None else None
        chosen, logits, hidden = net(torch.tensor([chunk]), start, pictures, kinds)
        taps.recorder.in_call("logits", logits)
        if hidden is not None:
            taps.recorder.in_call("taps", hidden[0])
        tokens.append(int(chosen))
        last = start + len(chunk) - 1
        token = torch.tensor([pending[call]]) if call < len(pending) else chosen
        if plan.drafts:
            draft(net, taps, token, hidden, start, last)
        chunk, start = [int(token)], last + 1
    return tokens


def decode_calls(case: Case, args: argparse.Namespace, prompt_steps: int) -> int:
    """Greedy calls: the option's, or as many as the recorded request had, or 4."""
    if args.tokens:
        return 0
    if args.decode_calls is not None:
        return args.decode_calls
    return len(case.value["calls"]) - 1 - prompt_steps if "calls" in case.value else 4


def trace(case: Case, args: argparse.Namespace) -> None:
    reference = load_reference(args.reference, args.kernels)
    tokenizer = load_tokenizer(args.model)
    net, arguments = load_model(reference, args.model, tokenizer, args.max_seq_len)
    prompt, files = encode(reference, case, args.thinking_mode)
    sources = [{"url": f if ":" in f.split("/")[0] else case.find(f)} for f in files]
    mapping = Mapping.load(os.path.join(HERE, "deepseek_v41.hooks.json"))
    with TraceWriter(args.out, args.taps) as writer, torch.inference_mode(), \
            sdpa_kernel(SDPBackend.MATH), reference.model.set_dtype(torch.bfloat16):
        recorder = Recorder(net, mapping, writer)
        taps = ProgramTaps(reference, net, arguments, recorder, args.index_keys)
        with recorder, taps.functions():
            taps.attach()
            ids, types, images = reference.image_processor.prepare_vl_inputs(
                prompt, sources, tokenizer, arguments)
            recorder.once("ids", torch.tensor(ids))
            recorder.once("types", torch.tensor(types))
            add_pictures(recorder, images or [], taps.canvases)
            prefill = args.prefill or case.value.get("prefill", len(ids))
            if images is not None and prefill != len(ids):
                raise TraceError("the program takes pictures in the first call only; leave out "
                                 "--prefill")
            drafts = args.drafts or bool(case.value.get("drafts"))
            plan = Plan(ids, prefill, args.tokens, decode_calls(case, args, len(ids) - prefill),
                        drafts)
            tokens = forward_calls(net, taps, plan, types, images)
        metadata = metadata_of(args.producer, os.path.join(args.model, "config.json"), case.value,
                               recorder.calls, tokens, "bf16")
        writer.commit(metadata | {"index_keys": args.index_keys})
        print(f"{args.out}: {len(writer.entries)} taps, {len(recorder.calls)} calls, "
              f"tokens {tokens}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", required=True, help="folder with inference/ and encoding/")
    parser.add_argument("--kernels", help="torch versions of the program's GPU kernels (default: "
                        "kernel_cpu.py beside model.py)")
    parser.add_argument("--model", required=True, help="checkpoint folder, in the released layout")
    parser.add_argument("--input", required=True, help="case file, or a trace to run again")
    parser.add_argument("--case", help="case of the file, by name or number")
    parser.add_argument("--image-root", help="folder of the pictures that the case names")
    parser.add_argument("--out", required=True, help="trace to write")
    parser.add_argument("--decode-calls", type=int, help="greedy calls (default: the case's, or 4)")
    parser.add_argument("--tokens", type=lambda text: [int(t) for t in text.split(",")], default=[],
                        help="ids to feed after the prompt instead of the likeliest: 5,17,9")
    parser.add_argument("--prefill", type=int, help="ids of the prompt in the first call; the "
                        "others follow one by one (default: the case's, or all)")
    parser.add_argument("--drafts", action="store_true", help="run the draft stages after each call")
    parser.add_argument("--index-keys", choices=["reference", "own"], default="reference")
    parser.add_argument("--thinking-mode", choices=["chat", "thinking"], default="chat",
                        help="for cases that do not say it")
    parser.add_argument("--max-seq-len", type=int, default=512, help="sizes the program's caches")
    parser.add_argument("--taps", default="*", help="globs of the taps to keep, separated by ','")
    parser.add_argument("--threads", type=int, default=1, help="the goldens were made with 1")
    parser.add_argument("--producer", default="DeepSeek's reference program on CPU, torch "
                        + torch.__version__.split("+")[0])
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    try:
        trace(load_case(args.input, args.case, args.image_root), args)
    except TraceError as error:
        print(f"deepseek_v41: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
