"""TensorFlow Lite in: `load` and `open_model` read .tflite files of float32, float16 and 8-bit integers."""

from framework.tflite.model import Model as Model
from framework.tflite.model import Session as Session
from framework.tflite.model import load as load
from framework.tflite.model import open_model as open_model
from framework.tflite.model import program_of as program_of
