"""The field's figures for boxes and masks: COCO's, Pascal VOC's, WIDER FACE's."""

from suites.detection.metrics.base import Evaluator
from suites.detection.metrics.coco import CocoEvaluator, coco_results, read_coco_results
from suites.detection.metrics.voc import VocEvaluator
from suites.detection.metrics.wider import WiderEvaluator

__all__ = ["CocoEvaluator", "Evaluator", "VocEvaluator", "WiderEvaluator", "coco_results", "read_coco_results"]
