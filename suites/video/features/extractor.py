"""What an image network says of single frames: the numbers that its linear layer sees.

Letters: T frames, H W height and width, C features.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from framework import no_grad, program
from framework.errors import ConfigError
from framework.graph.passes import INFERENCE_PASSES
from suites.engine.config.building import build_task, read_config
from suites.engine.predict.inference import open_run
from suites.engine.weights import load_wanted
from suites.engine.weights.records import get_record


class FrameFeatures:
    """Frames to features, by a network with its own preprocessing.

    Args:
        source: published weights, such as mobilenetv2_imagenet, or the folder of a run: of an image classifier, or of a
            video classifier that runs on frames, such as TSN.
        together: frames that go through the network at a time.

    Attributes:
        columns: C.

    Raises:
        ConfigError: the network has no features of frames.
        CheckpointError: the weights are not fetched yet.
    """

    def __init__(self, source: str, together: int = 32) -> None:
        task: Any = open_run(Path(source)) if Path(source).is_dir() else _published(source)
        features = getattr(task.model, "features", None)
        if features is None:
            raise ConfigError(
                f"{source}: {type(task.model).__name__} has no features of frames; name an image classifier or a TSN"
            )
        self._processor = task.processor()
        (self._input,) = task.eval_inputs  # "images", or "clips" of a video classifier
        self._together = together
        task.model.eval()
        self._run = program(lambda pixels: features(pixels), pass_names=INFERENCE_PASSES)
        self.columns = int(self(np.zeros((1, 64, 64, 3), np.uint8)).shape[1])

    def __call__(self, frames: np.ndarray) -> np.ndarray:
        """Features float32 [T, C] of frames uint8 [T, H, W, 3] RGB."""
        found = []
        for start in range(0, len(frames), self._together):
            part = frames[start : start + self._together]
            batch = self._processor.prepare([part] if self._input == "clips" else list(part))
            with no_grad():
                found.append(self._run(batch[self._input]).numpy().copy())
        return np.concatenate(found)


def _published(name: str) -> Any:
    """The task of a record's config, with the record's weights."""
    record = get_record(name)
    if record.config is None:
        raise ConfigError(f"{name}: no config of ours has this network; see `paddock zoo list`")
    task: Any = build_task(read_config(Path(record.config)))
    load_wanted(task.model)
    task.name_classes([str(k) for k in range(task.model.num_classes)])
    return task
