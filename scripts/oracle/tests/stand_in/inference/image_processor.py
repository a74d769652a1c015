"""Stand-in of the preprocessing: one size for all pictures, spans as in the program."""

from types import SimpleNamespace

import torch
from encoding import IMAGE_PLACEHOLDER
from PIL import Image, ImageOps

ROWS, COLUMNS = 6, 9  # patches


def prepare_vl_inputs(prompt, sources, tokenizer, args):
    texts = prompt.split(IMAGE_PLACEHOLDER)
    ids = list(tokenizer.encode(texts[0], add_special_tokens=False))
    types, images = [-1] * len(ids), []
    size, ratio = args.vision_patch_size, args.vision_downsample_ratio
    for source, text in zip(sources, texts[1:]):
        picture = Image.open(source["url"]).convert("RGB")
        ImageOps.pad(picture, (COLUMNS * size, ROWS * size))
        line = [1] * (COLUMNS // ratio) + [2]
        span = torch.tensor([0] + line * (ROWS // ratio) + [3])
        patches = torch.zeros(ROWS * COLUMNS, 3, size, size, dtype=torch.bfloat16)
        images.append(SimpleNamespace(types=span, n_vit_h=ROWS, n_vit_w=COLUMNS, patches=patches,
                                      start=len(ids)))
        more = tokenizer.encode(text, add_special_tokens=False)
        ids += [args.image_token_id] * len(span) + list(more)
        types += span.tolist() + [-1] * len(more)
    return ids, types, images or None
