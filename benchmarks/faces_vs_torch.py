#!/usr/bin/env python3
"""Claim: networks that find faces are 1.5 times as fast as in PyTorch's best mode, a picture at a time.

    python benchmarks/faces_vs_torch.py [CASE ...] --peer-python PYTHON [--modes eager channels_last compile]

Each round runs tools/bench.py and, in the peer's interpreter, the same layers: MediaPipe's BlazeFace for faces near by
(Bazarevsky et al. 2019) at 128 x 128 and RetinaFace on a quarter of MobileNetV1 (Deng et al. 2020) at 640 x 640, from
pixels to scores and codes, RetinaFace without its points, in float32. Ours folds batch norms, as an export does; the
peer runs its code as it is published. What both say with the published weights is compared in the tests. Memory is the
process's largest resident size.

What a picture costs at least: 31 M multiply-adds of BlazeFace and 0.97 G of RetinaFace over the machine's peak.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from common import Claim
from competitors import compare_networks

CLAIMS = [Claim("blazeface_front_infer_b1_128", 1.5, 2.0), Claim("retinaface_infer_b1_640", 1.5, 2.0)]


def peer_step(case: str, mode: str) -> tuple[Callable[[], Any], int]:
    """What PyTorch says of one picture, and 1."""
    import face_networks as networks
    import torch

    torch.manual_seed(0)
    blaze = case.startswith("blazeface")
    model: Any = networks.BlazeFace() if blaze else networks.RetinaFace()
    side = 128 if blaze else 640
    layout = torch.channels_last if mode == "channels_last" else torch.contiguous_format
    model = model.to(memory_format=layout).eval()
    picture = torch.randn(1, 3, side, side).to(memory_format=layout)
    call = torch.compile(model) if mode == "compile" else model

    def step() -> Any:
        with torch.no_grad():
            return call(picture)

    return step, 1


def main(words: list[str] | None = None) -> list[dict]:
    """Measure, print the table and return the results by case."""
    return compare_networks(__file__, __doc__, CLAIMS, peer_step, lambda case: "images/s", words)


if __name__ == "__main__":
    main()
