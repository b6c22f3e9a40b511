"""8-bit inference: a trained Program's products and convolutions with weights and inputs rounded to 8 bits."""

from framework.quantization.equalization import EQUALIZATIONS as EQUALIZATIONS
from framework.quantization.equalization import equalize as equalize
from framework.quantization.observers import METHODS as METHODS
from framework.quantization.quantize import quantize as quantize
from framework.quantization.quantize import quantize_trained as quantize_trained
from framework.quantization.quantize import ranges_of as ranges_of
from framework.quantization.ranges import Range as Range
from framework.quantization.ranges import Steps as Steps
from framework.quantization.ranges import weight_of as weight_of
from framework.quantization.reconstruction import AdaRound as AdaRound
from framework.quantization.sensitivity import LayerLoss as LayerLoss
from framework.quantization.sensitivity import sensitivity as sensitivity
from framework.quantization.simulation import simulated as simulated
from framework.quantization.simulation import trained as trained
from framework.quantization.speed import Speed as Speed
from framework.quantization.speed import measure_speed as measure_speed
from framework.quantization.speed import speedups as speedups
