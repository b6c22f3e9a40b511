"""Tiny video sets: folders of frames and MP4 files of light that falls in from the left, the right or below."""

import zipfile

import cv2
import numpy as np

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


def write_video(path, frames):
    """Writes frames as MP4, encoded as MPEG-4 part 2, which every OpenCV has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), 10, frames.shape[2:0:-1])
    assert writer.isOpened()
    for frame in frames:
        writer.write(cv2.cvtColor(frame, cv2.COLOR_RGB2BGR))
    writer.release()
    return path


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
