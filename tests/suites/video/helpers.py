"""Tiny video sets: folders of frames and videos of light that falls in from the left, the right or below."""

import zipfile
from fractions import Fraction

import av
import cv2
import numpy as np

HUNDREDTH = Fraction(1, 100)
WAYS = ("left", "right", "down")


def video(way, count=8, seed=0, size=(32, 48)):
    """uint8 [count, H, W, 3]: a wedge of light from one side, in a random colour, that flickers; a little noise."""
    rng = np.random.default_rng(seed)
    height, width = size
    x, y = np.linspace(0, 1, width)[None, :, None], np.linspace(0, 1, height)[:, None, None]
    wedge = {"left": 1 - x, "right": x, "down": y}[way] * np.ones((height, width, 1))
    colour = rng.uniform(120, 255, 3)
    frames = [wedge * colour * rng.uniform(0.7, 1) + rng.normal(0, 5, (height, width, 3)) for _ in range(count)]
    return np.clip(frames, 0, 255).astype(np.uint8)


def write_frame_folders(root, per_class=6):
    """`root/<way>/<number>/<frame>.png`; every third video is in val.txt, the others in train.txt."""
    lists = {"train": [], "val": []}
    for label, way in enumerate(WAYS):
        for i in range(per_class):
            for at, frame in enumerate(video(way, seed=10 * label + i)):
                (root / way / f"{i:02}").mkdir(parents=True, exist_ok=True)
                cv2.imwrite(str(root / way / f"{i:02}" / f"{at:02}.png"), cv2.cvtColor(frame, cv2.COLOR_RGB2BGR))
            lists["val" if i % 3 == 2 else "train"].append(f"{way}/{i:02} 8 {label}\n")
    for name, lines in lists.items():
        (root / f"{name}.txt").write_text("".join(lines))
    (root / "classes.txt").write_text("\n".join(WAYS))
    return root


def write_video(path, frames, codec="libx264", rate=10, stamps=None, rotation=None, key_every=4, sound=None):
    """Encodes frames uint8 [T, H, W, 3].

    `stamps` are when they are shown, in hundredths of a second; `rotation` the degrees by which players turn them;
    `sound` float32 samples at 16 kHz. Without frames only the sound is written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as out:
        video = None
        if len(frames):
            video = out.add_stream(codec, rate=rate)
            video.height, video.width = frames.shape[1:3]
            video.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
            video.codec_context.gop_size = key_every
            if codec == "libx264":
                video.options = {"crf": "18", "bf": "2"}
            if codec == "libx265":
                video.options = {"crf": "18", "x265-params": "log-level=none"}
            if stamps is not None:
                video.codec_context.time_base = HUNDREDTH
            if rotation is not None:
                video.set_display_rotation(rotation)
        if sound is not None:
            voice = out.add_stream("aac", rate=16_000, layout="mono")
        for at, frame in enumerate(frames):
            picture = av.VideoFrame.from_ndarray(frame, format="rgb24")
            if stamps is not None:
                picture.pts, picture.time_base = stamps[at], HUNDREDTH
            out.mux(video.encode(picture))
        if video is not None:
            out.mux(video.encode(None))
        if sound is not None:
            block = av.AudioFrame.from_ndarray(np.asarray(sound, np.float32)[None], format="fltp", layout="mono")
            block.sample_rate = 16_000
            out.mux(voice.encode(block))
            out.mux(voice.encode(None))
    return path


def packets_of(path):
    """(place in the file, bytes) of each packet of a video, in the order of decoding."""
    with av.open(str(path)) as video:
        return [(packet.pos, packet.size) for packet in video.demux(video=0) if packet.size]


def grey(levels, size=(48, 64)):
    """uint8 [T, H, W, 3]: even frames of these levels, by which they are known again."""
    return np.stack([np.full((*size, 3), level, np.uint8) for level in levels])


def levels_of(frames):
    """The levels of frames that `grey` made; coding moves them by a level or two."""
    return np.asarray(frames, np.float64).mean(axis=(1, 2, 3))


def write_video_files(root):
    """`root/<way>.mp4` of 8 frames, and all.txt."""
    for way in WAYS:
        write_video(root / f"{way}.mp4", video(way))
    (root / "all.txt").write_text("".join(f"{way}.mp4 {label}\n" for label, way in enumerate(WAYS)))
    return root


def zip_folder(folder, archive):
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            out.write(path, path.relative_to(folder).as_posix())
    return archive
