"""Stand-in of the vision tower."""

import torch
from torch import nn


def toy(x, width):
    """Some function of x with another width."""
    return (x.float().mean(-1, keepdim=True) + torch.arange(width) * 0.01).to(torch.bfloat16)


class Toy(nn.Module):
    """A module whose output has a width of its own; parameters are set by name elsewhere."""

    def __init__(self, width):
        super().__init__()
        self.width = width

    def forward(self, x):
        return toy(x, self.width)


def get_vision_cos_sin(rows, columns, half):
    angle = torch.arange(rows * columns, dtype=torch.float32)[:, None, None] * torch.ones(half)
    return angle.cos(), angle.sin()


class VisionBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attn, self.mlp = Toy(width), Toy(width)

    def forward(self, x):
        x = x + self.attn(x)
        return x + self.mlp(x)


class Vision(nn.Module):
    def __init__(self, args):
        super().__init__()
        width = args.vision_dim
        self.half = width // args.vision_n_heads // 2
        self.patch_embed = Toy(width)
        self.blocks = nn.ModuleList(VisionBlock(width) for _ in range(args.vision_n_layers))
        self.norm = Toy(width)

    def forward(self, patches, rows, columns):
        get_vision_cos_sin(rows, columns, self.half)
        x = self.patch_embed(patches)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class Aligner(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.ratio, self.dim = args.vision_downsample_ratio, args.dim
        self.w1, self.w2 = Toy(args.dim), Toy(args.dim)

    def forward(self, x, rows, columns):
        cells = -(-rows // self.ratio) * -(-columns // self.ratio)
        return self.w2(self.w1(toy(x[:cells], x.shape[1] * self.ratio ** 2)))
