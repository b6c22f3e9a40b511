"""Small sets of drawn pictures for the tests of generation, and configs of networks that learn them in seconds."""

import cv2
import numpy as np

from suites.engine.train.hooks import Hook

SIDE = 16


def picture(path, seed, colour=(200, 40, 40), size=(SIDE, SIDE)):
    """A square of one colour at a random place on grey."""
    rng = np.random.default_rng(seed)
    pixels = np.full((*size, 3), 90, np.uint8)
    top, left = rng.integers(0, min(size) // 2, 2)
    pixels[top : top + min(size) // 2, left : left + min(size) // 2] = colour[::-1]
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), pixels)


def one_kind(root, count=12, classes=()):
    """Pictures in a folder, or in a folder for each class."""
    for at in range(count):
        folder = root / classes[at % len(classes)] if classes else root
        picture(folder / f"{at:02}.png", at, (200, 40, 40) if not at % 2 else (40, 40, 200))


def two_kinds(root, a=8, b=6):
    """CycleGAN's four folders: red squares and blue ones, the second kind fewer."""
    for part in ("train", "test"):
        for at in range(a):
            picture(root / f"{part}A" / f"{at}.png", at)
        for at in range(b):
            picture(root / f"{part}B" / f"{at}.png", 100 + at, (40, 40, 200))


def pairs(root, count=8):
    """The same square in red and in blue."""
    for at in range(count):
        picture(root / "A" / f"{at}.png", at)
        picture(root / "B" / f"{at}.jpg", at, (40, 40, 200))


def config(model, dataset, root, more=""):
    """The text of a small config; FID is on drawn weights, so that nothing has to be fetched."""
    evaluated = dataset.replace("trainA", "testA").replace("trainB", "testB")
    return f"""suite: generation
model: {model}
data:
  root: {root}
  train: {{dataset: {dataset}, transforms: [{{type: RandomFlip}}, {{type: Resize, size: {SIDE}}}], batch_size: 4}}
  eval: {{dataset: {evaluated}, transforms: [{{type: Resize, size: {SIDE}}}], batch_size: 4}}
features: {{backbone: {{type: MobileNetV2, scale: 0.25, out_strides: [8], pretrained: null}}, size: 32}}
optimizer: {{type: Adam, beta1: 0.5}}
schedule: {{type: Constant, base_lr: 0.001}}
runtime: {{steps: 6, workers: 0, log_every: 2, checkpoint: {{every: 2}}, evaluation: {{every: 0, pictures: 2}}}}
{more}"""


ONE = '{type: PictureFolder, root: "${data.root}"}'
CLASSES = '{type: PictureFolder, root: "${data.root}", classes: true}'
TWO = '{type: TwoFolders, root: "${data.root}", a: trainA, b: trainB}'
PAIRS = '{type: PairedFolders, root: "${data.root}"}'
MODELS = {
    "DCGAN": ("{type: DCGAN, size: 16, noise: 8, channels: 8}", ONE, one_kind),
    "WGANGP": ("{type: WGANGP, size: 16, noise: 8, channels: 8, critic_steps: 3}", ONE, one_kind),
    "by class": (
        "{type: WGANGP, size: 16, noise: 8, channels: 8, critic_steps: 2, classes: 2}",
        CLASSES,
        lambda root: one_kind(root, classes=("blue", "red")),
    ),
    "CycleGAN": (
        "{type: CycleGAN, size: 16, channels: 4, blocks: 1, critic_channels: 4, halvings: 1, buffer: 6}",
        TWO,
        two_kinds,
    ),
    "Pix2Pix": (
        "{type: Pix2Pix, size: 16, channels: 4, halvings: 3, critic_channels: 4, critic_halvings: 1}",
        PAIRS,
        pairs,
    ),
    "DDPM": (
        "{type: DDPM, size: 16, channels: 8, factors: [1, 2], blocks: 1, times: 50, steps: 5, classes: 2, "
        "guidance: 1.0}",
        CLASSES,
        lambda root: one_kind(root, classes=("blue", "red")),
    ),
    "StarGAN": (
        "{type: StarGAN, size: 16, channels: 4, blocks: 1, critic_channels: 4, halvings: 2, classes: 2, "
        "critic_steps: 2}",
        CLASSES,
        lambda root: one_kind(root, classes=("blue", "red")),
    ),
}


def written(folder, name, more=""):
    """The config of one of `MODELS` with its data, in a folder."""
    model, dataset, draw = MODELS[name]
    draw(folder / "data")
    path = folder / "small.yml"
    path.write_text(config(model, dataset, folder / "data", more), encoding="utf-8")
    return path


class Stop(Hook):
    """Ends a run as a power cut does."""

    def __init__(self, step):
        self._step = step

    def after_step(self, loop):
        if loop.step == self._step:
            raise RuntimeError("power cut")
