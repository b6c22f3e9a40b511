"""Detectors of faces with the points of each face, as others published them."""

from suites.detection.models.faces.blazeface import BlazeFace
from suites.detection.models.faces.face_ssd import FaceSSD
from suites.detection.models.faces.mtcnn import MTCNN
from suites.detection.models.faces.retinaface import ContextPyramid, RetinaFace

__all__ = ["MTCNN", "BlazeFace", "ContextPyramid", "FaceSSD", "RetinaFace"]
