"""Pruning of channels: which of a network's channels go together, which matter least, and the narrower network."""

from framework.pruning.channels import Channels as Channels
from framework.pruning.channels import Group as Group
from framework.pruning.channels import channels_of as channels_of
from framework.pruning.channels import last_layers as last_layers
from framework.pruning.scores import CRITERIA as CRITERIA
from framework.pruning.scores import scores as scores
from framework.pruning.widths import narrow as narrow
from framework.pruning.widths import narrowable as narrowable
from framework.pruning.widths import widths_by as widths_by
from framework.pruning.widths import widths_of as widths_of
