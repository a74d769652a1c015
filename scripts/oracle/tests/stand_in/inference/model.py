"""Stand-in of the language model. `PARAMETERS` names the parameters: (name, shape, dtype)."""

import functools
from contextlib import contextmanager
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

from .engram import EngramHash
from .vision import Aligner, Toy, Vision, toy

PARAMETERS = []
BF16 = torch.bfloat16


def ModelArgs(**fields):
    return SimpleNamespace(**fields)


class SharedAttentionRuntime:
    index_k = None


shared_attn = SharedAttentionRuntime()


@contextmanager
def set_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@functools.lru_cache
def precompute_freqs_cis(size):
    return torch.ones(size)


def make_identity_pre_mix(x, hc):
    return x, torch.eye(hc)[0]


def apply_rotary_emb(x, freqs_cis, inverse=False):
    x.mul_(2.0 if inverse else 1.0)
    return x


def fp4_act_quant(x, block=32, scale_dtype=None):
    x.copy_(x.round())
    return x


def sparse_attn(q, kv, sink, indices, scale):
    return q + kv[:, : q.shape[1], None]


def select_candidate_blocks(scores, blocks):
    scores.float().topk(min(blocks, scores.shape[-1]), dim=-1)
    return torch.isfinite(scores)


class Compressor(Toy):
    def __init__(self, width, ratio):
        super().__init__(width)
        self.ratio = ratio

    def forward(self, x, start_pos):
        groups = (start_pos + x.shape[1]) // self.ratio - start_pos // self.ratio
        return toy(x[:, :groups], self.width) if groups else None


class Indexer(nn.Module):
    def __init__(self, args, ratio, owns_k, is_candidate_source):
        super().__init__()
        self.n_heads, self.head_dim = args.index_n_heads, args.index_head_dim
        self.softmax_scale, self.compress_ratio = self.head_dim ** -0.5, ratio
        self.owns_k, self.k_cache, self.is_source = owns_k, torch.zeros(1), is_candidate_source
        self.top, self.blocks = args.index_topk, args.candidate_topk_blocks
        self.weights_proj = Toy(self.n_heads)

    def forward(self, x, qr, latent, start_pos, offset):
        rows, width = x.shape[1], (start_pos + x.shape[1]) // self.compress_ratio
        if latent is not None and self.owns_k:
            fp4_act_quant(toy(latent, self.head_dim))
        fp4_act_quant(toy(qr, self.n_heads * self.head_dim).view(1, rows, self.n_heads, -1))
        self.weights_proj(x)
        visible = torch.arange(start_pos + 1, start_pos + rows + 1)[:, None] // self.compress_ratio
        scores = torch.zeros(1, rows, width).masked_fill(torch.arange(width) >= visible, -torch.inf)
        if self.is_source:
            select_candidate_blocks(scores, self.blocks)
        count = min(self.top, width)
        best = scores.topk(count, dim=-1)
        return torch.where(torch.isfinite(best.values), best.indices + offset, -1)


class Attention(nn.Module):
    def __init__(self, args, layer):
        super().__init__()
        self.args, self.ratio = args, args.compress_ratios[layer]
        self.q_norm = Toy(args.q_lora_rank)
        owns = layer in args.kv_source_layers
        self.compressor = Compressor(args.head_dim, self.ratio) if owns else None
        self.indexer = None
        if layer in args.index_source_layers:
            self.indexer = Indexer(args, self.ratio, owns, layer == args.candidate_source_layer)

    def forward(self, x, start_pos):
        a, rows = self.args, x.shape[1]
        qr = self.q_norm(x)
        latent = self.compressor(x, start_pos) if self.compressor is not None else None
        if self.indexer is not None and (start_pos + rows) // self.ratio > 0:
            self.indexer(x, qr, latent, start_pos, a.window_size)
        if latent is not None:
            fp4_act_quant(latent, scale_dtype=torch.float8_e4m3fn)
        q = toy(qr, a.n_heads * a.head_dim).view(1, rows, a.n_heads, a.head_dim)
        kv = toy(x, a.head_dim)
        if start_pos > 0:  # a ring with the row at its place
            ring = torch.zeros(1, a.window_size, a.head_dim, dtype=BF16)
            ring[:, start_pos % a.window_size] = kv[:, 0]
            o = sparse_attn(q, ring, None, None, 1.0)
        else:
            o = sparse_attn(q, kv, None, None, 1.0)
        apply_rotary_emb(o[..., -a.rope_head_dim:], None, True)
        return toy(o.flatten(2), a.dim)


class Gate(nn.Module):
    def __init__(self, experts, top):
        super().__init__()
        self.experts, self.top = experts, top

    def forward(self, x):
        logits = x.float().mean(-1, keepdim=True) + torch.arange(self.experts).float().sin()
        scores = F.softplus(logits).sqrt()
        ids = scores.topk(self.top, dim=-1)[1]
        return scores.gather(1, ids), ids


class MoE(nn.Module):
    def __init__(self, args, experts, top):
        super().__init__()
        self.gate = Gate(experts, top)

    def forward(self, x):
        self.gate(x.flatten(0, 1))
        return x * 0.5


class Engram(nn.Module):
    def forward(self, x, ids):
        return x + ids.float().mean((2, 3))[:, :, None, None].to(BF16) * 0.001


class Block(nn.Module):
    def __init__(self, args, layer, experts, top):
        super().__init__()
        self.hc = args.hc_mult
        self.engram = Engram() if layer in args.engram_layer_ids else None
        self.attn_norm, self.ffn_norm = Toy(args.dim), Toy(args.dim)
        self.attn, self.ffn = Attention(args, layer), MoE(args, experts, top)

    def hc_mixes(self, x):
        shape = x.shape[:2]
        return torch.ones(*shape, self.hc), torch.ones(*shape, self.hc), \
            torch.ones(*shape, self.hc, self.hc)

    def hc_post(self, x, stream):
        return stream + x[:, :, None]

    def forward(self, x, start_pos, ids=None):
        if self.engram is not None:
            x = self.engram(x, ids)
        self.hc_mixes(x)
        x = self.hc_post(self.attn(self.attn_norm(x.mean(2)), start_pos), x)
        self.hc_mixes(x)
        return self.hc_post(self.ffn(self.ffn_norm(x.mean(2))), x)


class DraftBlock(Block):
    def forward(self, x, start_pos):
        return super().forward(x, start_pos), None


def add_parameters(root):
    """Hangs every parameter of the checkpoint under its name; the toys do not use them."""
    for name, shape, dtype in PARAMETERS:
        *path, last = name.split(".")
        node = root
        for part in path:
            if part not in node._modules or node._modules[part] is None:
                node._modules[part] = nn.Module()
            node = node._modules[part]
        node.register_parameter(last, nn.Parameter(torch.empty(shape, dtype=dtype), False))


class Transformer(nn.Module):
    def __init__(self, args, tokenizer):
        super().__init__()
        self.args = args
        self.engram_hash = EngramHash(args)
        self.layers = nn.ModuleList(
            Block(args, l, args.n_routed_experts, args.n_activated_experts)
            for l in range(args.n_layers))
        self.mtp = nn.ModuleList(
            DraftBlock(args, args.n_layers + i, args.dspark_n_routed_experts,
                       args.dspark_n_activated_experts) for i in range(args.n_mtp_layers))
        self.norm = Toy(args.dim)
        self.vision, self.aligner = Vision(args), Aligner(args)
        add_parameters(self)

    def forward(self, ids, start_pos, images=None, types=None):
        h = toy(ids[..., None], self.args.dim)
        for image in images[0] if images else []:
            seen = self.vision(image.patches.flatten(1), image.n_vit_h, image.n_vit_w)
            rows = self.aligner(seen, image.n_vit_h, image.n_vit_w)
            places = image.start + torch.nonzero(image.types == 1).flatten()
            h[0, places] = rows
        hashes = self.engram_hash(ids)
        x, _ = make_identity_pre_mix(h[:, :, None].repeat(1, 1, self.args.hc_mult, 1),
                                     self.args.hc_mult)
        taps = []
        for l, block in enumerate(self.layers):
            if l in self.args.dspark_target_layer_ids:
                taps.append(x.mean(2))
            x = block(x, start_pos, hashes)
        y = self.norm(x.mean(2))
        logits = toy(y[:, -1], self.args.vocab_size).float()
        return logits.argmax(-1), logits, torch.cat(taps, -1)

    def forward_spec(self, token, hidden, start_pos):
        block = self.args.dspark_block_size
        h = toy(hidden[:, -1:].expand(-1, block, -1), self.args.dim)
        x, _ = make_identity_pre_mix(h[:, :, None].repeat(1, 1, self.args.hc_mult, 1),
                                     self.args.hc_mult)
        for stage in self.mtp:
            x, _ = stage(x, 0)
        logits = toy(x.mean(2), self.args.vocab_size).float()
        return logits.new_zeros(1, block + 1).long(), logits, logits.mean(-1)
