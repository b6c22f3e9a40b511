#!/usr/bin/env python3
"""Claim: 16 frames of a clip are decoded and resized at least at 0.9 times the speed of PyAV, decord and torchcodec.

    python benchmarks/decoding_vs_peers.py [--peer-python /tmp/peer/bin/python] [CASE ...]

Each gives 16 evenly spread frames, uint8 RGB, short side 128. `short` are the 300 clips of 2 seconds of `fight`, H.264
at 224 lines; `long` are 10 of 10 seconds, which the script encodes from them, a key frame every 250 frames. PyAV alone
decodes up to the last wanted frame and reformats the wanted ones; decord resizes as it decodes; torchcodec's frames
are resized by torch's antialiased filter. One thread each, as in a worker. The figure is clips a second of processor
time, in turns, so that other jobs on the machine do little to it.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from common import OURS, ROOT, Claim, Competitor, has_modules, real_data, run_claims

sys.path.insert(0, str(ROOT))

FRAMES, SHORT = 16, 128
CLAIMS = [Claim("short", 0.9, 1.2), Claim("long", 0.9, 1.2)]
PEERS = {"pyav": ("av",), "decord": ("decord",), "torchcodec": ("torch", "torchcodec")}
SPREAD = (np.arange(FRAMES) + 0.5) / FRAMES


def make_clips(case: str, folder: Path) -> list[Path]:
    """The clips of a case, in a folder that keeps them for the next competitor."""
    with zipfile.ZipFile(real_data("video/fight/fight.zip")) as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".mp4"))
        if not (folder / "fight").is_dir():
            for name in names:
                path = folder / "fight" / Path(name).name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(name))
    short = [folder / "fight" / Path(name).name for name in names]
    return short if case == "short" else [_long(short[i::10], folder / f"long{i}.mp4") for i in range(10)]


def _long(parts: list[Path], path: Path) -> Path:
    """250 frames of 340 x 256 pixels at 25 a second, out of several clips."""
    if path.is_file():
        return path
    import av

    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt, stream.codec_context.gop_size = 340, 256, "yuv420p", 250
        done = 0
        for part in parts:
            with av.open(str(part)) as source:
                for frame in source.decode(video=0):
                    if done < 250:
                        pixels = frame.to_ndarray(format="rgb24", width=340, height=256)
                        out.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
                        done += 1
        out.mux(stream.encode(None))
    return path


def ours(path: Path) -> np.ndarray:
    """As `VideoFiles(short_side=128)` reads."""
    from suites.video.reading import read_video

    return read_video(path, lambda total: (SPREAD * total).astype(np.int64), short_side=SHORT)


def by_pyav(path: Path) -> np.ndarray:
    """Everything up to the last wanted frame is decoded; the header says how many there are."""
    import av
    from av.video.reformatter import Interpolation, VideoReformatter

    scaler, found = VideoReformatter(), []
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        wanted = (SPREAD * stream.frames).astype(int).tolist()
        for at, frame in enumerate(container.decode(stream)):
            if at in wanted:
                scale = SHORT / min(frame.width, frame.height)
                size = {"width": round(frame.width * scale), "height": round(frame.height * scale)}
                small = scaler.reformat(frame, **size, format="rgb24", interpolation=Interpolation.AREA, threads=1)
                found.append(small.to_ndarray())
            if at == wanted[-1]:
                break
    return np.stack(found)


def by_decord(path: Path) -> np.ndarray:
    """decord's reader, which is asked for frames of the wanted size."""
    import decord

    height, width = _size(path)
    scale = SHORT / min(height, width)
    reader = decord.VideoReader(str(path), width=round(width * scale), height=round(height * scale), num_threads=1)
    return reader.get_batch((SPREAD * len(reader)).astype(np.int64)).asnumpy()


def by_torchcodec(path: Path) -> np.ndarray:
    """torchcodec's decoder with its index of the file, then torch's resizing."""
    import torch
    from torchcodec.decoders import VideoDecoder

    torch.set_num_threads(1)
    decoder = VideoDecoder(str(path), num_ffmpeg_threads=1)
    wanted = (SPREAD * decoder.metadata.num_frames).astype(int).tolist()
    frames = decoder.get_frames_at(wanted).data
    scale = SHORT / min(frames.shape[-2:])
    size = [round(side * scale) for side in frames.shape[-2:]]
    small = torch.nn.functional.interpolate(frames, size=size, mode="bilinear", antialias=True)
    return small.permute(0, 2, 3, 1).numpy()


def _size(path: Path) -> tuple[int, int]:
    if path not in _SIZES:
        import decord

        _SIZES[path] = decord.VideoReader(str(path), num_threads=1)[0].shape[:2]
    return _SIZES[path]


_SIZES: dict[Path, tuple[int, int]] = {}  # asked for before the clock starts
READERS: dict[str, Callable[[Path], np.ndarray]] = {
    OURS: ours,
    "pyav": by_pyav,
    "decord": by_decord,
    "torchcodec": by_torchcodec,
}


def run(a: argparse.Namespace) -> None:
    """Measure one side on the clips of a case, over and over for so many seconds."""
    read, clips = READERS[a.side], make_clips(a.cases[0], Path(tempfile.gettempdir()) / "paddock_decoding")
    for clip in clips[:10] if a.cases[0] == "short" else clips:
        frames = read(clip)
        if len(frames) != FRAMES or min(frames.shape[1:3]) != SHORT:
            raise RuntimeError(f"{a.side} gives {frames.shape}")
    if a.side == "decord":
        list(map(_size, clips))
    times: list[float] = []
    stop = time.perf_counter() + a.seconds
    while time.perf_counter() < stop:
        for clip in clips[len(times) % 7 :: 7] if len(clips) > 10 else clips:
            start = time.process_time()
            read(clip)
            times.append(time.process_time() - start)
    median = statistics.median(times)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    found = {"rate": round(1 / median, 2), "unit": "clips/s", "step_ms": round(1e3 * median, 3), "steps": len(times)}
    print(json.dumps({**found, "peak_rss_mb": memory}))


def competitors(case: str, a: argparse.Namespace) -> list[Competitor]:
    """Ours, and each peer that is installed: in this interpreter or the peers'."""
    found = []
    for name in READERS:
        python = sys.executable if name == OURS else a.peer_python
        if name == OURS or has_modules(python, *PEERS[name]):
            words = [python, __file__, "--side", name, "--seconds", str(a.seconds), case]
            found.append(Competitor(name, words))
        else:
            print(f"{name} is left out: {python} has no {' or no '.join(PEERS[name])}", file=sys.stderr)
    return found


def main(words: list[str] | None = None) -> list[dict]:
    """Measure, print the table and return the results by case."""
    return run_claims("decoding", __doc__, CLAIMS, competitors, run, words)


if __name__ == "__main__":
    main()
