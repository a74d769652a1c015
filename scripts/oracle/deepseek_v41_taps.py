"""The taps of DeepSeek's reference program that lie in functions, not in modules.

Functions of the program are wrapped for the time of a `with` block; the wrappers call them and look.
Two choices of the program are settled from here, since it leaves them open: of equal entries a top-k
takes the smaller index, and `index_keys` "own" lets every index source that owns keys score against
them, where the program's decode takes what a later layer left in a shared slot ("reference").
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as functional

from deepseek_v41_reference import Reference
from trace_hooks import Recorder


class TopK(NamedTuple):
    values: torch.Tensor
    indices: torch.Tensor


def stable_topk(scores: torch.Tensor, k: int) -> TopK:
    values, indices = torch.sort(scores, dim=-1, descending=True, stable=True)
    return TopK(values[..., :k], indices[..., :k])


@contextmanager
def replaced(*places: tuple[Any, str, Any]) -> Iterator[None]:
    """(object, attribute, value) for the time of the block."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
    try:
        for owner, name, value in places:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(before):
            setattr(owner, name, value)


class ProgramTaps:
    """Where the program is: `layer` of the running block (None between blocks and in the draft
    stages), `start` of the call, whether a draft runs."""

    def __init__(self, reference: Reference, net: torch.nn.Module, arguments: Any,
                 recorder: Recorder, index_keys: str) -> None:
        self.reference, self.net, self.arguments = reference, net, arguments
        self.recorder, self.owns_index_keys = recorder, index_keys == "own"
        self.layer: int | None = None
        self.start = 0
        self.mixes = self.posts = 0
        self.is_drafting = self.is_recording_draft = False
        self.is_choosing_candidates = False
        self.index_width: int | None = None  # visible compressed positions, inside an indexer
        self.attention_output: torch.Tensor | None = None
        self.gate_scores: torch.Tensor | None = None
        self.canvases: list[torch.Tensor] = []

    def put(self, name: str, value: torch.Tensor, has_batch: bool = True) -> None:
        """A value of the running block, if there is one."""
        if self.layer is not None:
            self.recorder.in_call(f"layers.{self.layer}{name}", value[0] if has_batch else value)

    def attach(self) -> None:
        """Module hooks beyond the mapping file's; inside the recorder's `with` block."""
        recorder = self.recorder
        for l, block in enumerate(self.net.layers):
            recorder.before(f"layers.{l}", self._entering(l))
            recorder.after(f"layers.{l}", self._leaving)
            recorder.after(f"layers.{l}.ffn.gate", self._gate)
            attention = block.attn
            if attention.compressor is not None:
                recorder.after(f"layers.{l}.attn.compressor", self._latent)
            if attention.indexer is not None:
                recorder.after(f"layers.{l}.attn.indexer.weights_proj",
                               self._index_weights(attention.indexer))
        for i in range(len(self.net.mtp)):
            recorder.after(f"mtp.{i}", self._draft_stage(i))

    def _entering(self, l: int) -> Any:
        def see(module: torch.nn.Module, args: tuple) -> None:
            self.layer, self.start, self.mixes, self.posts = l, args[1], 0, 0
        return see

    def _leaving(self, module: torch.nn.Module, args: tuple, output: Any) -> None:
        self.layer = None

    def _gate(self, module: torch.nn.Module, args: tuple, output: tuple) -> None:
        weights, experts = output
        order = experts.argsort(dim=-1)
        self.put(".ffn.gate.scores", self.gate_scores, has_batch=False)
        self.put(".ffn.gate.topk", experts.gather(1, order), has_batch=False)
        self.put(".ffn.gate.weights", weights.gather(1, order), has_batch=False)

    def _latent(self, module: torch.nn.Module, args: tuple, output: Any) -> None:
        if output is not None:  # no group was completed
            self.put(".attn.compressor.latent", output)

    def _index_weights(self, indexer: Any) -> Any:
        factor = indexer.softmax_scale * indexer.n_heads ** -0.5

        def see(module: torch.nn.Module, args: tuple, output: torch.Tensor) -> None:
            self.put(".attn.indexer.weights", output * factor)
        return see

    def _draft_stage(self, i: int) -> Any:
        def see(module: torch.nn.Module, args: tuple, output: Any) -> None:
            if self.is_recording_draft:
                self.recorder.in_call(f"dspark.stage.{i}", output[0][0])
        return see

    @contextmanager
    def functions(self) -> Iterator[None]:
        program, vision = self.reference.model, self.reference.vision
        pad = self.reference.image_processor.ImageOps
        with replaced((program, "make_identity_pre_mix", self._embed(program)),
                      (program, "sparse_attn", self._sparse_attention(program)),
                      (program, "apply_rotary_emb", self._rotation(program)),
                      (program, "fp4_act_quant", self._fp4(program)),
                      (program, "select_candidate_blocks", self._candidates(program)),
                      (program.Block, "hc_mixes", self._mix(program.Block)),
                      (program.Block, "hc_post", self._post(program.Block)),
                      (program.Indexer, "forward", self._indexer(program.Indexer)),
                      (torch.Tensor, "topk", self._topk()),
                      (functional, "softplus", self._softplus()),
                      (vision, "get_vision_cos_sin", self._vision_tables(vision)),
                      (pad, "pad", self._pad(pad))):
            yield

    def _embed(self, program: Any) -> Any:
        call = program.make_identity_pre_mix

        def wrapper(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if not self.is_drafting:
                self.recorder.in_call("embed", x[0, :, 0])
            return call(x, *args, **kwargs)
        return wrapper

    def _sparse_attention(self, program: Any) -> Any:
        call = program.sparse_attn

        def wrapper(q: torch.Tensor, kv: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            # The window of a prefill lies in front; in decode it is a ring.
            first = 0 if self.start == 0 else self.start % self.arguments.window_size
            self.put(".attn.q", q)
            self.put(".attn.kv", kv[:, first:first + q.shape[1]])
            self.attention_output = call(q, kv, *args, **kwargs)
            return self.attention_output
        return wrapper

    def _rotation(self, program: Any) -> Any:
        call = program.apply_rotary_emb

        def wrapper(x: torch.Tensor, freqs_cis: torch.Tensor, inverse: bool = False) -> Any:
            out = call(x, freqs_cis, inverse)
            if inverse:  # in place, on a part of the attention's output
                self.put(".attn.o", self.attention_output)
            return out
        return wrapper

    def _fp4(self, program: Any) -> Any:
        call = program.fp4_act_quant

        def wrapper(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            out = call(x, *args, **kwargs)  # in place
            if kwargs.get("scale_dtype") == torch.float8_e4m3fn:
                self.put(".attn.compressor.kv", x)
            else:
                self.put(".attn.indexer.k" if x.dim() == 3 else ".attn.indexer.q", x)
            return out
        return wrapper

    def _candidates(self, program: Any) -> Any:
        call = program.select_candidate_blocks

        def wrapper(*args: Any, **kwargs: Any) -> torch.Tensor:
            self.is_choosing_candidates = True
            try:
                keep = call(*args, **kwargs)
            finally:
                self.is_choosing_candidates = False
            self.put(".attn.indexer.candidates", keep)
            return keep
        return wrapper

    def _topk(self) -> Any:
        def wrapper(scores: torch.Tensor, k: int, dim: int = -1, largest: bool = True,
                    sorted: bool = True) -> TopK:
            if dim not in (-1, scores.dim() - 1) or not largest:
                raise AssertionError("the program chooses along another dimension than the last")
            is_index = not self.is_choosing_candidates and scores.shape[-1] == self.index_width
            if is_index:
                self.put(".attn.indexer.scores", scores)
            return stable_topk(scores, k)
        return wrapper

    def _softplus(self) -> Any:
        call = functional.softplus

        def wrapper(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            out = call(x, *args, **kwargs)
            self.gate_scores = out.sqrt()
            return out
        return wrapper

    def _mix(self, block: Any) -> Any:
        call = block.hc_mixes

        def wrapper(module: Any, *args: Any, **kwargs: Any) -> tuple:
            out = call(module, *args, **kwargs)
            part = ("attn", "ffn")[min(self.mixes, 1)]
            for name, value in zip(("pre", "post", "comb"), out):
                self.put(f".{part}.mix.{name}", value)
            self.mixes += 1
            return out
        return wrapper

    def _post(self, block: Any) -> Any:
        call = block.hc_post

        def wrapper(module: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
            out = call(module, *args, **kwargs)
            self.put(".attn.stream" if self.posts == 0 else "", out)
            self.posts += 1
            return out
        return wrapper

    def _indexer(self, indexer: Any) -> Any:
        call = indexer.forward

        def wrapper(module: Any, x: torch.Tensor, qr: torch.Tensor, latent: Any, start_pos: int,
                    offset: int) -> torch.Tensor:
            if self.owns_index_keys and module.owns_k:
                self.reference.model.shared_attn.index_k = module.k_cache
            self.index_width = (start_pos + x.shape[1]) // module.compress_ratio
            try:
                out = call(module, x, qr, latent, start_pos, offset)
            finally:
                self.index_width = None
            self.put(".attn.indexer.topk", torch.where(out >= 0, out - offset, -1))
            return out
        return wrapper

    def _vision_tables(self, vision: Any) -> Any:
        call = vision.get_vision_cos_sin

        def wrapper(*args: Any) -> tuple[torch.Tensor, torch.Tensor]:
            cos, sin = call(*args)
            self.recorder.in_items("rope.cos", cos.squeeze(1))
            self.recorder.in_items("rope.sin", sin.squeeze(1))
            return cos, sin
        return wrapper

    def _pad(self, image_ops: Any) -> Any:
        call = image_ops.pad

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            out = call(*args, **kwargs)
            self.canvases.append(torch.from_numpy(np.array(out)))
            return out
        return wrapper
