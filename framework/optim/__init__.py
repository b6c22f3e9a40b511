"""Optimizers, gradient clipping and learning-rate schedules."""

from framework.optim.adaptive import LAMB, Adagrad, RMSProp
from framework.optim.clip import clip_by_global_norm, clip_by_norm, clip_by_value
from framework.optim.optimizer import Optimizer
from framework.optim.optimizers import SGD, Adam, AdamW, Momentum
from framework.optim.scaler import LossScaler
from framework.optim.schedules import Constant, Cosine, InverseSqrt, MultiStep, Piecewise, Polynomial, Schedule

__all__ = [
    "LAMB",
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "Constant",
    "Cosine",
    "InverseSqrt",
    "LossScaler",
    "Momentum",
    "MultiStep",
    "Optimizer",
    "Piecewise",
    "Polynomial",
    "RMSProp",
    "Schedule",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
]
