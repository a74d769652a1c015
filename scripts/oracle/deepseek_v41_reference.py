"""Loads DeepSeek's reference program for V4.1 from a folder, and a checkpoint into it.

The program is not part of this repository. The folder has `inference/` (model.py, engram.py,
vision.py, image_processor.py) and `encoding/encoding.py`, as the model repository has them; the files
of inference/ may also lie in the folder itself, and may import one another by package (`from .engram
import ...`) or by name. The released kernel.py needs a GPU: on CPU a kernel_cpu.py with the same
functions in torch stands beside model.py or is named with --kernels.
"""

import importlib
import importlib.util
import os
import re
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from safetensors import safe_open

from case_file import read_json
from trace_writer import TraceError

PACKAGE = "deepseek_v41_reference_program"
PLACEHOLDER = "<｜deepseek_image｜>"
NEEDED = ("model", "engram", "vision", "image_processor")
TILE = 32  # of FP8 weights

# Names of the program's arguments in text_config of config.json, where they differ; one name stands
# for itself.
TEXT = """
    vocab_size dim=hidden_size moe_inter_dim=moe_intermediate_size n_layers=num_hidden_layers
    n_mtp_layers=num_nextn_predict_layers n_heads=num_attention_heads n_routed_experts n_shared_experts
    n_activated_experts=num_experts_per_tok score_func=scoring_func norm_topk_prob
    route_scale=routed_scaling_factor swiglu_limit q_lora_rank head_dim rope_head_dim=qk_rope_head_dim
    norm_eps=rms_norm_eps o_groups o_lora_rank window_size=sliding_window compress_ratios
    kv_source_layers=kv_source_layer_ids index_source_layers=index_source_layer_ids
    compress_rope_theta rope_theta index_n_heads index_head_dim index_topk
    candidate_source_layer=candidate_source_layer_id candidate_topk_blocks candidate_block_size hc_mult
    hc_sinkhorn_iters hc_eps engram_layer_ids engram_num_embeddings engram_max_ngram_size
    engram_vocab_size engram_n_heads engram_head_dim engram_pad_id=engram_pad_token_id
    engram_compressed_vocab_size dspark_block_size dspark_noise_token_id dspark_target_layer_ids
    dspark_markov_rank dspark_n_routed_experts dspark_n_activated_experts=dspark_num_experts_per_tok
"""
ROPE = "original_seq_len=original_max_position_embeddings rope_factor=factor beta_fast beta_slow"
VISION = """
    vision_n_layers=num_hidden_layers vision_dim=hidden_size vision_n_heads=num_attention_heads
    vision_inter_dim=intermediate_size vision_patch_size=patch_size vision_rope_theta=rope_theta
    vision_downsample_ratio=downsample_ratio vision_max_n_token=max_image_tokens
    vision_min_pixels=min_pixels vision_max_wh_ratio=max_wh_ratio
"""


@dataclass
class Reference:
    model: ModuleType
    engram: ModuleType
    vision: ModuleType
    image_processor: ModuleType
    encoding: ModuleType | None


def load_file(name: str, path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not os.path.exists(path):
        raise TraceError(f"{path}: expected a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def load_reference(folder: str, kernels: str | None = None) -> Reference:
    nested = os.path.join(folder, "inference")
    inference = nested if os.path.isdir(nested) else folder
    for name in NEEDED:
        if not os.path.exists(os.path.join(inference, name + ".py")):
            raise TraceError(f"{inference}: {name}.py is missing; --reference names a folder with "
                             "DeepSeek's inference/ and encoding/")
    encoder = os.path.join(folder, "encoding", "encoding.py")
    encoding = load_file("encoding", encoder) if os.path.exists(encoder) else None
    # The program imports the placeholder's text from its encoder, and nothing else.
    stand_in = encoding or sys.modules.setdefault("encoding", ModuleType("encoding"))
    if not hasattr(stand_in, "IMAGE_PLACEHOLDER"):
        stand_in.IMAGE_PLACEHOLDER = PLACEHOLDER
    with open(os.path.join(inference, "model.py"), encoding="utf-8") as file:
        is_package = re.search(r"^\s*from \.", file.read(), re.MULTILINE) is not None
    cpu = kernels or os.path.join(inference, "kernel_cpu.py")
    if is_package:
        package = ModuleType(PACKAGE)
        package.__path__ = [inference]
        sys.modules[PACKAGE] = package
        if kernels:
            load_file(f"{PACKAGE}.kernel_cpu", kernels)
    else:
        if os.path.exists(cpu):
            load_file("kernel", cpu)
        sys.path.insert(0, inference)
    prefix = PACKAGE + "." if is_package else ""
    modules = {name: importlib.import_module(prefix + name) for name in NEEDED}
    return Reference(**modules, encoding=encoding)


def renamed(names: str, values: dict) -> dict[str, Any]:
    out = {}
    for entry in names.split():
        ours, _, theirs = entry.partition("=")
        if (theirs or ours) not in values:
            raise TraceError(f"config.json: '{theirs or ours}' is missing")
        out[ours] = values[theirs or ours]
    return out


def arguments_of(reference: Reference, config: dict, max_seq_len: int) -> Any:
    """The program's argument object, from config.json; batch 1, temperature 0."""
    text, quantised = config["text_config"], config["quantization_config"]
    values = renamed(TEXT, text) | renamed(ROPE, text["rope_scaling"])
    values |= renamed(VISION, config["vision_config"])
    values |= {"image_token_id": config["image_token_id"], "dtype": quantised["quant_method"],
               "expert_dtype": quantised["expert_dtype"], "max_batch_size": 1,
               "max_seq_len": max_seq_len, "temperature": 0}
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    absent = values["n_layers"] + values["n_mtp_layers"] - len(values["compress_ratios"])
    values["compress_ratios"] += (0,) * max(absent, 0)  # layers without a ratio have none
    return reference.model.ModelArgs(**values)


class Checkpoint:
    """Tensors by name, read one at a time."""

    def __init__(self, folder: str) -> None:
        index = os.path.join(folder, "model.safetensors.index.json")
        if os.path.exists(index):
            self.files = dict(read_json(index)["weight_map"])
        else:
            single = "model.safetensors"
            with safe_open(os.path.join(folder, single), "pt") as file:
                self.files = {name: single for name in file.keys()}
        self.open = {name: safe_open(os.path.join(folder, name), "pt")
                     for name in sorted(set(self.files.values()))}

    def get(self, name: str) -> torch.Tensor:
        return self.open[self.files[name]].get_tensor(name)


def dequantised(weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """FP8 tiles times their scales, in fp32, rounded to bf16 once."""
    rows = scale.float().repeat_interleave(TILE, 0)[:weight.shape[0]]
    return (weight.float() * rows.repeat_interleave(TILE, 1)[:, :weight.shape[1]]).bfloat16()


def fill_parameter(name: str, parameter: torch.Tensor, stored: torch.Tensor) -> None:
    """Types are kept, but packed FP4 is stored as bytes and bf16 is widened where the program has
    fp32."""
    if stored.shape != parameter.shape:
        raise TraceError(f"tensor '{name}' has shape {list(stored.shape)}, expected "
                         f"{list(parameter.shape)}; another config.json?")
    is_packed = str(parameter.dtype) == "torch.float4_e2m1fn_x2" and stored.dtype == torch.int8
    if parameter.dtype == stored.dtype or is_packed:
        target, source = parameter.reshape(-1), stored.reshape(-1)
        target.view(torch.uint8).copy_(source.view(torch.uint8))
    elif (parameter.dtype, stored.dtype) == (torch.float32, torch.bfloat16):
        parameter.copy_(stored.float())
    else:
        raise TraceError(f"tensor '{name}' is {stored.dtype}, the program wants {parameter.dtype}")


def fill_parameters(net: torch.nn.Module, checkpoint: Checkpoint) -> None:
    """What the release's converter does on one rank."""
    parameters = dict(net.named_parameters())
    scales = {name for name in checkpoint.files if name.endswith("attn.wo_a.scale")}
    unknown = sorted(checkpoint.files.keys() - parameters.keys() - scales)
    absent = sorted(parameters.keys() - checkpoint.files.keys())
    if unknown or absent:
        raise TraceError(f"checkpoint and program differ: the program lacks {unknown[:3]}, the "
                         f"checkpoint lacks {absent[:3]}")
    with torch.no_grad():
        for name, parameter in parameters.items():
            stored = checkpoint.get(name)
            scale = name.removesuffix("weight") + "scale"
            if scale in scales:
                stored = dequantised(stored, checkpoint.get(scale))
            fill_parameter(name, parameter, stored)


def load_model(reference: Reference, folder: str, tokenizer: Any,
               max_seq_len: int) -> tuple[torch.nn.Module, Any]:
    config = read_json(os.path.join(folder, "config.json"))
    arguments = arguments_of(reference, config, max_seq_len)
    model = reference.model
    if hasattr(model.precompute_freqs_cis, "cache_clear"):
        model.precompute_freqs_cis.cache_clear()
    model.shared_attn = model.SharedAttentionRuntime()  # it keeps the keys of the last model
    with model.set_dtype(torch.bfloat16):
        net = model.Transformer(arguments, tokenizer)
    fill_parameters(net, Checkpoint(folder))
    return net.eval(), arguments
