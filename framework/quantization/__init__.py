"""8-bit inference: a trained Program's products and convolutions with weights and inputs rounded to 8 bits."""

from framework.quantization.observers import METHODS as METHODS
from framework.quantization.quantize import quantize as quantize
from framework.quantization.sensitivity import LayerLoss as LayerLoss
from framework.quantization.sensitivity import sensitivity as sensitivity
