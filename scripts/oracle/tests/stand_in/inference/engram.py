"""Stand-in: hash ids of tokens."""

from torch import nn


class EngramHash(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.layers = len(args.engram_layer_ids)
        self.columns = (args.engram_max_ngram_size - 1) * args.engram_n_heads

    def forward(self, ids):
        return ids[:, :, None, None].expand(-1, -1, self.layers, self.columns).clone()
