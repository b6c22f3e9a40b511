"""Find anchors for a data set by k-means: `paddock anchors detection/yolov3_demo`, or `--voc ROOT --size 320`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from suites.detection.sample import GroundTruth


def main(words: list[str] | None = None, prog: str | None = None) -> int:
    """Print the anchors and how well they fit; return the exit status. `words` are the command line."""
    from suites.engine.command_line import Parser, add_import_option, add_override_option, natural, run

    parser = Parser(prog=prog, description="k-means anchors (distance 1 - IoU) for a detection data set.")
    parser.add_argument("config", type=Path, nargs="?", help="a config; its data.train.dataset is read")
    parser.add_argument("--voc", type=Path, help="in place of a config: a Pascal VOC folder or zip")
    parser.add_argument("--split", help="with --voc: a list in ImageSets/Main; by default every annotation")
    parser.add_argument("--coco", type=Path, help="in place of a config: a COCO JSON file")
    parser.add_argument(
        "--size",
        type=int,
        help="side in pixels that images are resized to; by default what data.eval.transforms say, else their own",
    )
    parser.add_argument("--keep-ratio", action="store_true", help="images are fitted into the side, not stretched")
    parser.add_argument("-k", type=int, default=9, help="how many anchors (9)")
    parser.add_argument("--seed", type=natural, default=0)
    add_override_option(parser)
    add_import_option(parser)
    a = parser.parse_args(words)
    if sum(source is not None for source in (a.config, a.voc, a.coco)) != 1:
        parser.error("give one of: a config, --voc ROOT, --coco FILE")

    def start() -> int:
        from suites.detection.anchors import box_sizes, fit, kmeans_anchors

        size, keep_ratio = (a.size, a.keep_ratio) if a.size or a.config is None else size_in(a)
        how = "fitted into" if keep_ratio else "resized to"
        print("images keep their size" if size is None else f"images are {how} {size} pixels")
        sides = box_sizes(read_truth(a), size, keep_ratio)
        anchors = kmeans_anchors(sides, a.k, a.seed)
        quality = fit(sides, anchors)
        print(f"anchors: {[[round(float(side), 1) for side in anchor] for anchor in anchors]}")
        print(f"{len(sides)} boxes; mean best IoU {quality.mean_iou:.4f}; recall at IoU 0.5 {quality.recall:.4f}")
        return 0

    return run(start, a.imports)


def size_in(a: Any) -> tuple[int | tuple[int, int] | None, bool]:
    """The size that the evaluation's transforms of a config bring images to, and whether they keep the ratio.

    Raises:
        ConfigError: Images are scaled by their short side, so that there is no one size.
    """
    from framework.errors import ConfigError
    from suites.engine.config.building import read_config

    for number, transform in reversed(list(enumerate(read_config(a.config, a.overrides)["data.eval.transforms"]))):
        if transform["type"] == "ResizeKeepRatio":
            raise ConfigError(
                f"data.eval.transforms[{number}]: images are scaled by their short side; give --size, and perhaps "
                "--keep-ratio"
            )
        if transform["type"] in ("Resize", "Letterbox"):
            size = transform["size"]
            return size if isinstance(size, int) else (size[0], size[1]), transform["type"] == "Letterbox"
    return None, a.keep_ratio


def read_truth(a: Any) -> GroundTruth:
    """The boxes of the data set the command line names."""
    if a.coco is not None:
        from suites.detection.datasets import read_coco_ground_truth

        return read_coco_ground_truth(a.coco)
    if a.voc is not None:
        from suites.detection.datasets import VocDetection

        return VocDetection(a.voc, a.split).ground_truth()
    from suites.engine.config.building import read_config

    truth: GroundTruth = read_config(a.config, a.overrides).build("data.train.dataset").ground_truth()
    return truth
