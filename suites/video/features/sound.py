"""The sound of clips as log-mel spectra, with the parameters of VGGish (Hershey et al. 2017, arXiv:1609.09430).

16 kHz mono, windows of 25 ms every 10 ms, the magnitudes of a Fourier transform of 512 points in 64 mel bands from 125
to 7,500 Hz, log(x + 0.01), patches of 96 windows. A clip without sound is one of silence.

Letters: S samples, F windows, B bands.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np

from framework.errors import DataError
from framework.limits import check
from suites.video.reading import Choice
from suites.video.timeline import Timeline
from suites.vision.videos.reading import OpenVideo, VideoSource, opened_video, pyav, told

RATE = 16_000  # samples a second
WINDOW, HOP, POINTS = 400, 160, 512  # samples: 25 ms, 10 ms, and what the transform takes
BANDS, LOWEST, HIGHEST = 64, 125.0, 7500.0
PATCH = 96  # windows
_FLOOR = 0.01  # added before the logarithm
_TOGETHER = 1 << 14  # windows that are transformed at a time
Kind = Literal["summary", "patches"]
COLUMNS: dict[Kind, int] = {"summary": 2 * BANDS, "patches": PATCH * BANDS}


def log_mel(samples: np.ndarray) -> np.ndarray:
    """Log-mel spectra float32 [F, B] of samples float32 [S], F = 1 + (S - 400) // 160; 0 windows of fewer than 400."""
    count = 1 + (len(samples) - WINDOW) // HOP if len(samples) >= WINDOW else 0
    hann = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)).astype(np.float32)  # periodic
    found = np.empty((count, BANDS), np.float32)
    for start in range(0, count, _TOGETHER):
        end = min(start + _TOGETHER, count)
        part = np.lib.stride_tricks.sliding_window_view(samples[start * HOP : (end - 1) * HOP + WINDOW], WINDOW)[::HOP]
        magnitudes = np.abs(np.fft.rfft(part * hann, POINTS, axis=1)).astype(np.float32)
        found[start:end] = np.log(magnitudes @ mel_weights() + np.float32(_FLOOR))
    return found


@cache
def mel_weights() -> np.ndarray:
    """What each band takes of each frequency, float32 [257, B]: triangles over mel, 1127 ln(1 + f / 700)."""
    mel = 1127.0 * np.log1p(np.arange(POINTS // 2 + 1) * RATE / POINTS / 700.0)
    low, high = (float(1127.0 * np.log1p(hertz / 700.0)) for hertz in (LOWEST, HIGHEST))
    edges = np.linspace(low, high, BANDS + 2)
    lower, centre, upper = edges[:-2], edges[1:-1], edges[2:]
    rising = (mel[:, None] - lower) / (centre - lower)
    falling = (upper - mel[:, None]) / (upper - centre)
    weights = np.maximum(0.0, np.minimum(rising, falling))
    weights[0] = 0.0  # a constant is no sound
    return weights.astype(np.float32)


def rows_at(spectra: np.ndarray, seconds: np.ndarray, kind: Kind) -> np.ndarray:
    """What is heard around some times, float32 [T, columns]: of the 96 windows around each of `seconds` [T].

    "summary" is the mean and the standard deviation of each band, 128 numbers; "patches" are the spectra, 6,144. Before
    the begin and behind the end there is silence.
    """
    silence = np.full((PATCH, BANDS), np.log(_FLOOR), np.float32)
    padded = np.concatenate([silence, spectra, silence])
    centre = (np.asarray(seconds) * RATE - WINDOW / 2) / HOP  # the window whose middle is there
    first = np.clip(np.rint(centre).astype(np.int64) - PATCH // 2 + PATCH, 0, len(padded) - PATCH)
    patches = padded[first[:, None] + np.arange(PATCH)]
    if kind == "patches":
        return patches.reshape(len(patches), -1)
    return np.concatenate([patches.mean(axis=1), patches.std(axis=1)], axis=1)


def sound_of(video: OpenVideo) -> np.ndarray | None:
    """The sound of a video from its first frame on, float32 [S] at 16 kHz, mono; None where there is none.

    The file is read from its begin.
    """
    streams = [stream for stream in video.container.streams.audio if stream.codec_context is not None]
    if not streams:
        return None
    resampler = pyav().AudioResampler(format="flt", layout="mono", rate=RATE)
    parts: list[np.ndarray] = []
    first, length = None, 0
    with told(video.name):
        video.container.seek(0)
        for frame in video.container.decode(streams[0]):
            first = frame.time if first is None else first
            parts += [part.to_ndarray()[0] for part in resampler.resample(frame)]
            length += len(parts[-1]) if parts else 0
            check("clip_bytes", 4 * length, f"video {video.name}: its sound has too many bytes", DataError)
        parts += [part.to_ndarray()[0] for part in resampler.resample(None)]
    if not parts:
        return None
    begin = float((video.stream.start_time or 0) * (video.stream.time_base or 0))
    late = round(((first or 0.0) - begin) * RATE)
    samples = np.concatenate(parts)
    return samples[-late:] if late < 0 else np.concatenate([np.zeros(late, np.float32), samples])


def heard(source: VideoSource, choose: Choice, kind: Kind, name: str) -> tuple[np.ndarray, bool]:
    """What is heard around the chosen frames of a video file, float32 [T, columns], and whether it has sound.

    Args:
        source: the file, or its content.
        choose: takes the number of frames and returns the indices of those wanted, as for `read_video`.
        kind: see `rows_at`.
        name: of the file, for messages.
    """
    with opened_video(source, name) as video:
        timeline = Timeline.of(video)
        wanted = timeline.shown_at(choose(len(timeline)))
        unit = float(video.stream.time_base or 1)
        seconds = (timeline.stamps[wanted] - timeline.stamps[0]) * unit
        samples = sound_of(video)
    spectra = log_mel(np.zeros(0, np.float32) if samples is None else samples)
    return rows_at(spectra, seconds, kind), samples is not None
