"""Requests to Qwen3-VL: messages, pictures and videos to the inputs of the transformers model."""

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from transformers import AutoProcessor

from case_file import Case
from trace_writer import TraceError

# What stands for a video in the text of the release, and of transformers from 5.10 on: the release
# replaces the start and end tokens too when it expands the video.
WRAPPED = "<|vision_start|><|video_pad|><|vision_end|>"
BARE = "<|video_pad|>"


@dataclass
class Video:
    frames: np.ndarray           # [frames, height, width, 3], 8 bits
    fps: float                   # of the file
    total: int                   # frames of the file
    indices: list[int] | None    # numbers of `frames` in the file; None: the processor samples


@dataclass
class Request:
    prompt: str                  # before placeholders are expanded
    inputs: Any                  # what the processor returns
    videos: list[Video] = field(default_factory=list)


def open_picture(path: str) -> Image.Image:
    """As the library's file loader does it: orientation applied, alpha dropped."""
    try:
        return ImageOps.exif_transpose(Image.open(path)).convert("RGB")
    except OSError as error:
        raise TraceError(f"{path}: cannot be read as a picture: {error}") from error


def picture_name(part: dict) -> str:
    """File of a picture part: {"image": FILE}, {"image_url": {"url": FILE}}, {"image_url": FILE}."""
    value = part.get("image", part.get("image_url", part.get("url")))
    value = value.get("url") if isinstance(value, dict) else value
    if not isinstance(value, str):
        raise TraceError(f"a picture part names no file: {sorted(part)}")
    return value


def open_video(case: Case, part: dict) -> Video:
    """A folder of frames, in the order of their names."""
    folder = case.find(part["video"])
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    frames = [np.asarray(open_picture(os.path.join(folder, name))) for name in names]
    if not frames or "fps" not in part or "total" not in part:
        raise TraceError(f"video '{part['video']}': expected a folder of frames, and 'fps' and "
                         "'total' (frames) of the file in the case")
    return Video(np.stack(frames), float(part["fps"]), int(part["total"]), part.get("indices"))


def read_messages(case: Case) -> tuple[list[dict], list[Image.Image], list[Video]]:
    """Messages for the chat template, and pictures and videos in the order of the prompt."""
    messages, pictures, videos = [], [], []
    for message in case.value["messages"]:
        content = message["content"]
        parts = []
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if part["type"] == "text":
                parts.append({"type": "text", "text": part["text"]})
            elif part["type"] in ("image", "image_url"):
                parts.append({"type": "image"})
                pictures.append(open_picture(case.find(picture_name(part))))
            elif part["type"] == "video":
                parts.append({"type": "video"})
                videos.append(open_video(case, part))
            else:
                raise TraceError(f"a message part has the type '{part['type']}'; expected text, "
                                 "image, image_url or video")
        messages.append({**message, "content": parts})
    return messages, pictures, videos


def video_arguments(videos: list[Video]) -> dict[str, Any]:
    if not videos:
        return {}
    is_sampled = videos[0].indices is not None
    if any((video.indices is not None) != is_sampled for video in videos):
        raise TraceError("some videos of the case have 'indices' (sampled frames), some have not; "
                         "the processor takes one kind at a time")
    metadata = []
    for video in videos:
        known = {"total_num_frames": video.total, "fps": video.fps,
                 "duration": video.total / video.fps,
                 "height": video.frames.shape[1], "width": video.frames.shape[2]}
        metadata.append(known | ({"frames_indices": list(video.indices)} if is_sampled else {}))
    return {"videos": [video.frames for video in videos], "video_metadata": metadata,
            "do_sample_frames": not is_sampled, "return_metadata": True}


def load_processor(folder: str, kind: str) -> Any:
    """`kind`: "fast" (torchvision, the reference) or "pil"."""
    processor = AutoProcessor.from_pretrained(folder)
    if kind == "pil":
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import (
            Qwen2VLImageProcessorPil)
        processor.image_processor = Qwen2VLImageProcessorPil.from_pretrained(folder)
    return processor


def prepare(processor: Any, case: Case) -> Request:
    if "messages" in case.value:
        messages, pictures, videos = read_messages(case)
        prompt = processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    else:
        prompt, videos = case.value["prompt"], []
        pictures = [open_picture(case.find(name)) for name in case.value.get("images", [])]
    if case.value.get("video_form", "release") == "release":
        prompt = prompt.replace(WRAPPED, BARE)
    arguments = video_arguments(videos) | ({"images": pictures} if pictures else {})
    inputs = processor(text=[prompt], return_tensors="pt", **arguments)
    for video, used in zip(videos, inputs.get("video_metadata", [])):
        if video.indices is None:
            video.indices = sampled(used.frames_indices)
            video.frames = video.frames[video.indices]
    return Request(prompt, inputs, videos)


def sampled(indices: Any) -> list[int]:
    """The frames that the processor took. It repeats the last one in place for an even count."""
    indices = [int(i) for i in indices]
    is_padded = len(indices) > 1 and len(indices) % 2 == 0 and indices[-1] == indices[-2]
    return indices[:-1] if is_padded else indices


def pixels_of(patches: torch.Tensor, grid: list[int], processor: Any) -> torch.Tensor:
    """The resized pictures [frames, height, width, 3] that normalised patches were made of, as 8-bit
    samples: normalisation keeps the 256 values apart, so it can be undone."""
    size, pair = processor.patch_size, processor.temporal_patch_size
    merge = processor.merge_size
    slices, rows, columns = grid
    mean = torch.tensor(processor.image_mean)[:, None, None]
    std = torch.tensor(processor.image_std)[:, None, None]
    # Rows of patches: slice, block row, block column, row and column in the block; columns of
    # patches: channel, frame of the pair, row, column.
    x = patches.float().reshape(slices, rows // merge, columns // merge, merge, merge,
                                3, pair, size, size)
    x = x.permute(0, 6, 5, 1, 3, 7, 2, 4, 8).reshape(slices * pair, 3, rows * size, columns * size)
    samples = ((x * std + mean) * 255).round().clamp(0, 255).to(torch.uint8)
    return samples.permute(0, 2, 3, 1)
