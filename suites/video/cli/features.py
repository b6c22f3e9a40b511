"""Extract features of videos, which sequence models learn from: `paddock features mobilenetv2_imagenet DIR --output f`.

Every clip is read, a few of its frames go through an image network of the zoo, and what that says of each is appended
to the output folder; with `--sound` also the log-mel spectra of what is heard around each. A clip that cannot be read
is passed over and named. What was stopped goes on where it stopped.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def main(words: list[str] | None = None, prog: str | None = None) -> int:
    """Write the features; return 1 where a clip could not be read. `words` are the command line."""
    from suites.engine.command_line import Parser, add_import_option, run

    parser = Parser(prog=prog, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "name", help="weights of an image classifier (`paddock zoo list`), or the folder of a run, such as a TSN's"
    )
    parser.add_argument("clips", type=Path, help="a folder (or zip) of videos, or of folders of frames")
    parser.add_argument("--output", type=Path, required=True, help="the folder to write")
    parser.add_argument(
        "--lists",
        nargs="+",
        metavar="FILE",
        help="only the clips of these lists under `clips`, a path first on each line",
    )
    parser.add_argument(
        "--frames", type=int, default=16, help="frames of a clip, evenly spread; of a shorter one all (16)"
    )
    parser.add_argument(
        "--sound",
        nargs="?",
        const="summary",
        choices=["summary", "patches"],
        help="also write log-mel spectra of the 0.96 s around each frame as `audio`: mean and deviation of 64 bands "
        "(128 numbers, the default), or all 96 x 64",
    )
    parser.add_argument("--batch", type=int, default=32, help="frames that go through the network at a time (32)")
    add_import_option(parser)
    a = parser.parse_args(words)
    if a.frames < 1 or a.batch < 1:
        parser.error("--frames and --batch must be 1 or more")
    return run(lambda: extract(a), a.imports)


def extract(a: argparse.Namespace) -> int:
    """Go through the clips."""
    from framework.errors import DataError
    from suites.video.features.clips import Clips
    from suites.video.features.extractor import FrameFeatures
    from suites.video.features.sound import COLUMNS
    from suites.video.features.store import FeatureWriter

    clips = Clips(a.clips, a.lists)
    network = FrameFeatures(a.name, a.batch)
    origin = {"network": a.name, "frames": a.frames} | ({"sound": a.sound} if a.sound else {})
    columns = {"rgb": network.columns} | ({"audio": COLUMNS[a.sound]} if a.sound else {})
    broken, silent = [], 0
    with FeatureWriter(a.output, columns, origin) as writer:
        done = set(writer.names)
        for name in _shown(clips.names):
            if name in done:
                continue
            try:
                features = {"rgb": network(clips.frames(name, a.frames))}
                if a.sound:
                    features["audio"], has_sound = clips.sound(name, a.frames, a.sound)
                    silent += not has_sound
            except DataError as error:
                broken.append(str(error))
                continue
            writer.add(name, features)
        written = len(writer.names)
    for message in broken:
        print(f"left out: {message}", file=sys.stderr)
    if silent:
        print(f"{silent} clips have no sound; they are taken as silence", file=sys.stderr)
    print(f"{a.output}: {written} clips, {network.columns} numbers a frame; {len(broken)} could not be read")
    return 1 if broken else 0


def _shown(names: list[str]) -> Iterator[str]:
    from rich.progress import track

    yield from track(names, description="clips", transient=True)
