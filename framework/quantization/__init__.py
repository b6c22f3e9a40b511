"""8-bit inference: a trained Program's matrix products with weights and inputs rounded to 8 bits."""

from framework.quantization.observers import METHODS as METHODS
from framework.quantization.quantize import quantize as quantize
