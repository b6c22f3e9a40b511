"""What stands around a video classifier when it predicts: frames of a video, and a strip of them as a picture."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from framework.errors import ConfigError, DataError
from suites.engine.contract.capabilities import OverTime
from suites.engine.data.intake.naming import entries
from suites.video.drawing import labels_over_time, strip
from suites.video.reading import read_video
from suites.video.sampling import Segments
from suites.video.sequence_processor import SequenceProcessor
from suites.video.windows import labelled, spans, windows
from suites.vision.augmentation.pipeline import Transform
from suites.vision.files import is_image
from suites.vision.pictures.given import as_clip
from suites.vision.pictures.images import IMAGE_SUFFIXES, read_image
from suites.vision.processor import file_in_json
from suites.vision.recognition.processor import RecognitionProcessor
from suites.vision.recognition.sample import LabelledClip
from suites.vision.videos.camera import opened_moving
from suites.vision.videos.reading import VIDEO_SUFFIXES, has_pyav, opened_video
from suites.vision.videos.writing import check_film_name, encode_film, written_film


class VideoProcessor(RecognitionProcessor):
    """Videos to batches, scores to class names; an item is a clip, uint8 [T, H, W, 3].

    In JSON it is the base64 text of a video file.

    Args:
        transforms: those of evaluation.
        class_names: K names.
        segments: which frames of a video are looked at: the number of parts, of frames of each, their interval, and the
            number of clips whose probabilities are averaged.
    """

    suite: ClassVar[str] = "video"
    sample_class = LabelledClip
    endings: ClassVar[tuple[str, ...]] = VIDEO_SUFFIXES
    files_in_json: ClassVar[bool] = True

    def __init__(self, transforms: Sequence[Transform], class_names: Sequence[str], segments: tuple[int, ...]) -> None:
        super().__init__(transforms, class_names)
        self._segments = Segments(*segments)

    @classmethod
    def from_metadata(cls, metadata: dict[str, Any]) -> Any:
        """The processor that `metadata` describes: this one, or that of sequences, which tells its modalities."""
        if "modalities" in metadata:
            return SequenceProcessor.from_metadata(metadata)
        return super().from_metadata(metadata)

    def metadata(self) -> dict[str, Any]:
        """All arguments of the constructor."""
        return {**super().metadata(), "segments": list(astuple(self._segments))}

    def sample_of(self, item: np.ndarray, number: int) -> LabelledClip:
        """All frames of a video as its clips."""
        clips = self._segments.test_clips
        if len(item) % clips:
            raise DataError(f"input {number}: has {len(item)} frames, which is no multiple of the {clips} test clips")
        return replace(LabelledClip.of(item, name=f"input {number}"), views=clips)

    def takes(self, path: Path) -> bool:
        """A video file, or a folder that holds frames."""
        return super().takes(path) or bool(_images_in(path))

    def read(self, path: Path) -> np.ndarray:
        """The chosen frames of a video file, or of a folder of frames, uint8 RGB [T, H, W, 3]."""
        if not path.is_dir():
            return read_video(path, self._segments.frames)
        files = _images_in(path)
        if not files:
            raise DataError(f"{path}: the folder holds no frames ({' '.join(IMAGE_SUFFIXES)})")
        frames = [read_image(files[i]) for i in self._segments.frames(len(files))]
        if len({frame.shape for frame in frames}) > 1:
            raise DataError(f"{path}: its frames differ in size: {sorted({f.shape[:2] for f in frames})}")
        return np.stack(frames)

    def item(self, given: Any) -> np.ndarray:
        """A clip as a person has it in Python, all of its frames; see `as_clip`."""
        return as_clip(given)

    def from_json(self, value: Any) -> np.ndarray:
        """The chosen frames of the video whose file `value` is in base64."""
        return read_video(file_in_json(value, "a video"), self._segments.frames, name="of the request")

    def decoded_bytes(self, value: Any) -> int:
        """Bytes of the chosen frames, by the file's header."""
        with opened_video(file_in_json(value, "a video"), "of the request") as video:
            size = video.stream.codec_context
            return 3 * size.height * size.width * len(self._segments.frames(1))

    def example(self) -> str | None:
        """A black video; None without the package that writes it: folders of frames need none."""
        if not has_pyav():
            return None
        return base64.b64encode(encode_film(np.zeros((2, 64, 64, 3), np.uint8), rate=10)).decode()

    def film(self, path: Path, predict: Callable[[list[Any]], list[Any]], how: OverTime) -> dict[str, Any]:
        """The classes of each window of a video, and `spans` of windows with the same best class.

        With `video` it is read a second time, and written with classes and a bar of labels on its frames.
        """
        if how.window is None:
            raise ConfigError("infer: over time this model labels windows, so it needs --window too, such as 2s")
        if how.video is not None:
            check_film_name(how.video)
            if self.is_live(str(path)):
                raise ConfigError("infer: --video reads its source twice, which no camera allows; record a file first")
        found = []
        with opened_moving(path, how.seconds) as source:
            for part in windows(source, how.window, self._segments):
                (classes,) = predict([part.frames])
                found.append({"start": round(part.start, 3), "end": round(part.end, 3), "classes": classes})
        if how.video is not None:
            with opened_video(path, threads=0) as source, written_film(how.video, source.rate) as film:
                for frame in source.frames():
                    film.add(frame.seconds, labelled(frame.pixels, frame.seconds, found, how.window, self._class_names))
        return {"window": how.window, "spans": spans(found), "windows": found}

    def drawn_over_time(self, found: Any) -> np.ndarray | None:
        """The labels of the windows over time."""
        return labels_over_time(found["windows"], self._class_names)

    def shown(self, item: np.ndarray) -> np.ndarray:
        """A strip of up to 8 of the clip's frames."""
        return strip(item)


def _images_in(path: Path) -> list[Path]:
    """The image files in a folder, in the order of their numbers; empty if it is none."""
    return [file for file in entries(path) if is_image(file.name)] if path.is_dir() else []
