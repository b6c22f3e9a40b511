"""Layers: the parts models are made of, with their parameters, buffers and initializers."""

from framework.nn import init
from framework.nn.activation import NAMES as ACTIVATIONS
from framework.nn.activation import Activation, PReLU, activation
from framework.nn.attention import CrossAttention, KeyRows, MultiHeadAttention
from framework.nn.container import LayerDict, LayerList, Sequential
from framework.nn.conv import Conv2d, ConvBNAct
from framework.nn.conv3d import AvgPool3d, Conv3d, Conv3dBNAct, MaxPool3d
from framework.nn.crf import CRF
from framework.nn.decoder import TransformerDecoderLayer
from framework.nn.layer import Layer, buffer, parameter
from framework.nn.linear import Embedding, Linear
from framework.nn.norm import BatchNorm, GroupNorm, LayerNorm, RMSNorm, unit
from framework.nn.places import attend_by_place
from framework.nn.pool import (
    AdaptiveAvgPool2d,
    AdaptiveMaxPool2d,
    AvgPool2d,
    Dropout,
    GlobalAvgPool2d,
    MaxPool2d,
    PixelShuffle,
    PixelUnshuffle,
    Upsample,
)
from framework.nn.recurrent import GRU, LSTM
from framework.nn.relative import RelativePositions
from framework.nn.transformer import TransformerEncoderLayer

__all__ = [
    "ACTIVATIONS",
    "CRF",
    "GRU",
    "LSTM",
    "Activation",
    "AdaptiveAvgPool2d",
    "AdaptiveMaxPool2d",
    "AvgPool2d",
    "AvgPool3d",
    "BatchNorm",
    "Conv2d",
    "Conv3d",
    "Conv3dBNAct",
    "ConvBNAct",
    "CrossAttention",
    "Dropout",
    "Embedding",
    "GlobalAvgPool2d",
    "GroupNorm",
    "KeyRows",
    "Layer",
    "LayerDict",
    "LayerList",
    "LayerNorm",
    "Linear",
    "MaxPool2d",
    "MaxPool3d",
    "MultiHeadAttention",
    "PReLU",
    "PixelShuffle",
    "PixelUnshuffle",
    "RMSNorm",
    "RelativePositions",
    "Sequential",
    "TransformerDecoderLayer",
    "TransformerEncoderLayer",
    "Upsample",
    "activation",
    "attend_by_place",
    "buffer",
    "init",
    "parameter",
    "unit",
]
