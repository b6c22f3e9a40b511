"""The networks that write texts in PyTorch, for writing_vs_torch.py: parameters named as ours, padded rows."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F


class Norm(nn.Module):
    """A layer norm with our names."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x, y: [..., D]."""
        return F.layer_norm(x, self.scale.shape, self.scale, self.bias)


class RootNorm(nn.Module):
    """An RMS norm with our name."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x, y: [..., D]."""
        return F.rms_norm(x, self.scale.shape, self.scale, 1e-5)


class Attention(nn.Module):
    """Attention of a sequence to itself, by PyTorch's fused function."""

    def __init__(self, width: int, heads: int, dropout: float, biases: bool = True) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width, biases), nn.Linear(width, width, biases)
        self.heads, self.dropout = heads, dropout

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None, causal: bool) -> torch.Tensor:
        """x, y: [B, L, D]; mask: bool [B, 1, 1, L] or [B, 1, L, L], true where a key is seen."""
        q, k, v = (by_head(each, self.heads) for each in self.qkv(x).chunk(3, -1))
        return self.out(seen(q, k, v, mask, causal, self.dropout if self.training else 0.0))


class Cross(nn.Module):
    """Attention of a target to its source."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.heads, self.dropout = heads, dropout

    def forward(self, x: torch.Tensor, memory: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """x, y: [B, T, D]; memory: [B, S, D]; mask: bool [B, 1, 1, S]."""
        q, k, v = (by_head(f(each), self.heads) for f, each in ((self.q, x), (self.k, memory), (self.v, memory)))
        return self.out(seen(q, k, v, mask, False, self.dropout if self.training else 0.0))


def by_head(x: torch.Tensor, heads: int) -> torch.Tensor:
    """[B, L, D] -> [B, heads, L, D / heads]."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def seen(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, causal: bool, dropout: float
) -> torch.Tensor:
    """What heads see, [B, L, D]."""
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal and mask is None)
    return y.transpose(1, 2).flatten(-2)


class Encoder(nn.Module):
    """A layer of the encoder, norms first."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.attention = Attention(width, heads, dropout)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.norm1, self.norm2, self.dropout = Norm(width), Norm(width), nn.Dropout(dropout)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """x, y: [B, S, D]."""
        x = x + self.dropout(self.attention(self.norm1(x), mask, False))
        return x + self.dropout(self.down(F.relu(self.up(self.norm2(x)))))


class Decoder(nn.Module):
    """A layer of the decoder, norms first."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.attention, self.cross = Attention(width, heads, dropout), Cross(width, heads, dropout)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.norm1, self.norm2, self.norm3 = Norm(width), Norm(width), Norm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor, memory: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """x, y: [B, T, D]; padding stands behind a target's words, so causal attention hides it from these."""
        x = x + self.dropout(self.attention(self.norm1(x), None, True))
        x = x + self.dropout(self.cross(self.norm2(x), memory, mask))
        return x + self.dropout(self.down(F.relu(self.up(self.norm3(x)))))


class Embedded(nn.Module):
    """Word vectors times sqrt(D) with sines and cosines of places."""

    def __init__(self, words: int, width: int, length: int, dropout: float) -> None:
        super().__init__()
        self.words, self.dropout = nn.Embedding(words, width), nn.Dropout(dropout)
        angles = torch.arange(length)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(1e4) / width))
        self.register_buffer("places", torch.cat([angles.sin(), angles.cos()], 1), persistent=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """ids: [B, L]; result: [B, L, D]."""
        return self.dropout(self.words(ids) * math.sqrt(self.words.embedding_dim) + self.places[: ids.shape[1]])


class Transformer(nn.Module):
    """configs/nlp/transformer_multi30k_ende.yml's: one table of words for both sides and the output."""

    def __init__(self, words: int, width: int, heads: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.target = Embedded(words, width, 256, dropout)
        nn.init.normal_(self.target.words.weight, std=width**-0.5)
        self.encoder = nn.ModuleList(Encoder(width, heads, hidden, dropout) for _ in range(layers))
        self.decoder = nn.ModuleList(Decoder(width, heads, hidden, dropout) for _ in range(layers))
        self.encoder_norm, self.decoder_norm = Norm(width), Norm(width)

    def forward(self, source: torch.Tensor, lengths: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """What the last layer gives, [B, T, D].  source: [B, S]; lengths: [B], of the sources; target: [B, T]."""
        mask = (torch.arange(source.shape[1]) < lengths[:, None])[:, None, None]
        x = self.target(source)
        for layer in self.encoder:
            x = layer(x, mask)
        memory, y = self.encoder_norm(x), self.target(target)
        for layer in self.decoder:
            y = layer(y, memory, mask)
        return self.decoder_norm(y)

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """[N, V] of rows [N, D]."""
        return x @ self.target.words.weight.T


class Language(nn.Module):
    """A layer of a Llama form."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = RootNorm(width), RootNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, False), nn.Linear(width, width, False)
        self.gate, self.up = nn.Linear(width, hidden, False), nn.Linear(width, hidden, False)
        self.down, self.dropout, self.heads = nn.Linear(hidden, width, False), nn.Dropout(dropout), heads

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """x, y: [B, L, D]; cos, sin: [L, head size]."""
        q, k, v = (by_head(each, self.heads) for each in self.qkv(self.norm1(x)).chunk(3, -1))
        p = self.dropout.p if self.training else 0.0
        x = x + self.dropout(self.out(seen(turned(q, cos, sin), turned(k, cos, sin), v, None, True, p)))
        h = self.norm2(x)
        return x + self.dropout(self.down(F.silu(self.gate(h)) * self.up(h)))


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary positions.  x: [B, heads, L, head size]."""
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class LanguageModel(nn.Module):
    """configs/nlp/gpt_tinyshakespeare.yml's."""

    def __init__(self, words: int, width: int, heads: int, hidden: int, layers: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        nn.init.normal_(self.words.weight, std=0.02)
        self.layers = nn.ModuleList(Language(width, heads, hidden, dropout) for _ in range(layers))
        self.norm, self.dropout = RootNorm(width), nn.Dropout(dropout)
        size = width // heads
        angles = torch.arange(256)[:, None] * 1e4 ** (-torch.arange(0, size, 2) / size)
        self.register_buffer("cos", torch.cat([angles.cos()] * 2, 1), persistent=False)
        self.register_buffer("sin", torch.cat([angles.sin()] * 2, 1), persistent=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits [B, L, V].  ids: [B, L]."""
        x = self.dropout(self.words(ids))
        for layer in self.layers:
            x = layer(x, self.cos[: ids.shape[1]], self.sin[: ids.shape[1]])
        return self.norm(x) @ self.words.weight.T


class RecurrentLanguageModel(nn.Module):
    """configs/nlp/lstm_tinyshakespeare.yml's, without dropout of weights, for which nn.LSTM has no fused kernel."""

    def __init__(self, words: int, width: int, hidden: int, layers: int, dropout: float, between: float) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        nn.init.normal_(self.words.weight, std=width**-0.5)
        self.cells = nn.LSTM(width, hidden, layers, batch_first=True, dropout=between)
        for name, each in self.cells.named_parameters():
            if name.startswith("bias_hh"):  # a second bias, which ours does not have
                nn.init.zeros_(each).requires_grad_(False)
        self.narrow, self.dropout = nn.Linear(hidden, width), dropout

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits [B, L, V].  ids: [B, L]."""
        x, _ = self.cells(self._locked(self.words(ids)))
        return self.narrow(self._locked(x)) @ self.words.weight.T

    def _locked(self, x: torch.Tensor) -> torch.Tensor:
        """The same units of all words of a text are 0 (Gal and Ghahramani 2016)."""
        if not self.training or not self.dropout:
            return x
        return x * F.dropout(torch.ones_like(x[:, :1]), self.dropout)


def take(model: nn.Module, weights: dict[str, torch.Tensor]) -> None:
    """Give a model the weights of ours, by our names."""
    own = dict(model.named_parameters())
    for name, value in weights.items():
        if not name.startswith("cells."):
            own[name].data.copy_(value)
            continue
        _, _, layer, part = name.split(".")
        goes = {"weight_x": "weight_ih", "weight_h": "weight_hh", "bias": "bias_ih"}[part]
        own[f"cells.{goes}_l{layer}"].data.copy_(value.reshape(own[f"cells.{goes}_l{layer}"].shape))
