"""Backbones have the shapes, widths and parameter counts of their papers."""

import itertools
from functools import partial

import numpy as np
import pytest

from framework import nn, no_grad, program, tensor
from framework.errors import AttributeValueError, NotSupportedError
from suites.classification import ImageClassifier
from suites.vision.backbones import (
    VGG,
    Backbone,
    ConvNeXt,
    DarkNet53,
    DenseNet,
    DINOv2,
    EfficientNet,
    EfficientNetLite,
    GoogLeNet,
    HRNet,
    InceptionV3,
    InceptionV4,
    MobileNetV1,
    MobileNetV2,
    MobileNetV3,
    ResNet,
    ResNeXt,
    ShuffleNetV2,
    SqueezeNet,
    Swin,
    TinyDarkNet,
    UNetEncoder,
    ViT,
    Xception,
)
from suites.vision.backbones.base import drawn_image
from suites.vision.backbones.walk import places, walk

IMAGE = np.random.default_rng(0).standard_normal((1, 64, 96, 3)).astype(np.float32)


def count(model):
    return sum(p.size for p in model.parameters())


@pytest.mark.parametrize(
    "model",
    [
        lambda: MobileNetV1(scale=0.25),
        lambda: MobileNetV1(scale=0.5, out_strides=(4, 16)),
        lambda: MobileNetV2(scale=0.25),
        lambda: MobileNetV2(scale=0.35, out_strides=(2, 4, 16), output_stride=16),
        lambda: DarkNet53(width=4),
        lambda: DarkNet53(width=4, blocks=(1, 1, 1), out_strides=(2, 8)),
        lambda: MobileNetV3("small", scale=0.25, out_strides=(4, 8, 16, 32)),
        lambda: MobileNetV3("large", scale=0.25, out_strides=(2, 16)),
        lambda: EfficientNetLite(0),
        lambda: EfficientNetLite(0, out_strides=(2, 4)),
        lambda: ResNeXt(50, groups=4, group_width=8, width=8, squeeze=16, variant="d"),
        lambda: HRNet(4),
        lambda: HRNet(4, out_strides=(4, 16)),
        lambda: UNetEncoder((4, 8, 8)),
        lambda: Xception(41, (2, 4, 8, 16, 32), 32),
        lambda: Xception(41, (2, 4, 8), 8),
        lambda: MobileNetV3("large", 0.25, out_strides=(8, 16), output_stride=16, segmenting=True),
        lambda: EfficientNet(0, (2, 4, 8, 16, 32)),
        lambda: DenseNet(121, (2, 4, 8, 16, 32), growth=4),
        lambda: DenseNet(121, (4, 8), growth=4),
        lambda: GoogLeNet((2, 4, 8, 16, 32)),
        lambda: ShuffleNetV2(0.5, (2, 4, 8, 16, 32)),
        lambda: ConvNeXt(width=8),
        lambda: ConvNeXt(width=8, out_strides=(4, 16)),
        lambda: Swin(width=12),
        lambda: Swin(width=12, out_strides=(8,)),
        lambda: ViT("tiny", blocks=1),
        lambda: ViT("tiny", blocks=1, out_strides=(4, 8, 16, 32), pyramid_width=8),
        lambda: DINOv2("small", blocks=1, out_strides=(8, 32), pyramid_width=8),
    ],
)
def test_maps_have_the_strides_and_channels_it_says(model):
    model = model().eval()
    maps = model(tensor(IMAGE))
    assert [m.shape for m in maps] == [
        (1, 64 // s, 96 // s, c) for s, c in zip(model.strides, model.channels, strict=True)
    ]
    assert all(np.isfinite(m.numpy()).all() for m in maps)


def test_mobilenet_v1_has_its_papers_parameters():
    # 4.2 million with the classifier's 1,024 x 1,000 weights and 1,000 biases (Howard et al. 2017, table 8);
    # exactly 3,206,976 convolution and batch-norm parameters without it.
    assert count(MobileNetV1()) == 3_206_976
    assert MobileNetV1().channels == (256, 512, 1024)


def test_mobilenet_v2_has_its_papers_parameters():
    # 3.4 million with the last 1x1 convolution (320 x 1,280, batch norm) and the classifier's 1,280 x 1,000 + 1,000
    # (Sandler et al. 2018, table 4; torchvision: 3,504,872).
    assert count(MobileNetV2()) == 3_504_872 - (320 * 1280 + 2 * 1280) - 1_281_000
    assert MobileNetV2().channels == (32, 96, 320)


def test_mobilenet_v2_dilates_instead_of_halving_below_its_output_stride():
    dilations = {}
    for stride in (8, 16, 32):
        net = MobileNetV2(0.25, out_strides=(4, stride), output_stride=stride).eval()
        assert [m.shape[1:3] for m in net(tensor(IMAGE[:, :33, :65]))] == [
            (9, 17),
            (-(-33 // stride), -(-65 // stride)),
        ]
        depthwise = [block.body[-2].conv for block in net.blocks]
        dilations[stride] = [conv.dilation[0] for conv in depthwise]
    assert dilations[32] == [1] * 17
    assert dilations[16] == [1] * 13 + [2] * 4
    assert dilations[8] == [1] * 6 + [2] * 7 + [4] * 4


@pytest.mark.parametrize(
    ("make", "top", "wanted"),
    [  # torchvision's and timm's counts, with the classifier of 1,000 classes
        (lambda: ResNeXt(50), False, 25_028_904),  # resnext50_32x4d
        (lambda: ResNeXt(101, group_width=8), False, 88_791_336),  # resnext101_32x8d
        (lambda: ResNeXt(50, squeeze=16), False, 27_559_896),  # seresnext50_32x4d
        (lambda: ResNeXt(101, squeeze=16), False, 48_955_416),  # seresnext101_32x4d
        (lambda: MobileNetV2(), True, 3_504_872),
        (lambda: MobileNetV3("large"), True, 5_483_032),
        (lambda: MobileNetV3("small"), True, 2_542_856),
        (lambda: EfficientNetLite(0), True, 4_652_008),  # tf_efficientnet_lite0 and on
        (lambda: EfficientNetLite(1), True, 5_416_680),
        (lambda: EfficientNetLite(2), True, 6_092_072),
        (lambda: EfficientNetLite(3), True, 8_197_096),
        (lambda: EfficientNetLite(4), True, 13_006_568),
        (lambda: ResNeXt(50, 1, 128), False, 68_883_240),  # wide_resnet50_2
        (lambda: EfficientNet(0), True, 5_288_548),
        (lambda: EfficientNet(4), True, 19_341_616),
        (lambda: DenseNet(121), False, 7_978_856),
        (lambda: DenseNet(161), False, 28_681_000),
        (lambda: DenseNet(201), False, 20_013_928),
        (lambda: GoogLeNet(), False, 6_624_904),
        (lambda: ShuffleNetV2(1.0), True, 2_278_604),
        (lambda: ShuffleNetV2(2.0), True, 7_393_996),
        (lambda: SqueezeNet("1.0"), True, 1_248_424),
        (lambda: SqueezeNet("1.1"), True, 1_235_496),
        (lambda: VGG(11), True, 132_863_336),
        (lambda: VGG(19, norm=True), True, 143_678_248),
        (lambda: ViT("base"), True, 86_567_656),
        (lambda: ViT("large"), True, 304_326_632),
        (lambda: Swin("tiny"), False, 28_288_354),
        (lambda: Swin("base"), False, 87_768_224),
        (lambda: ConvNeXt("tiny"), True, 28_589_128),
        (lambda: ConvNeXt("base"), True, 88_591_464),
    ],
)
def test_classifiers_have_as_many_parameters_as_published(make, top, wanted):
    with nn.init.undrawn():
        assert count(ImageClassifier(make(), 1000, top=top)) == wanted


@pytest.mark.parametrize(("width", "wanted"), [(18, 21_299_004), (32, 41_232_680), (48, 77_469_864)])
def test_hrnet_has_its_papers_parameters_without_the_classifiers_own(width, wanted):
    """Behind the maps a classifier has bottlenecks of 32, 64, 128, 256, three convolutions between, and its end."""
    with nn.init.undrawn():
        net = HRNet(width)
    ends = (32, 64, 128, 256)
    behind = 1024 * 2048 + 3 * 2048 + 2048 * 1000 + 1000
    for channels, end in zip(net.channels, ends, strict=True):
        behind += channels * end + 9 * end**2 + 4 * end**2 + 4 * channels * end + 2 * (2 * end + 8 * end)
    behind += sum(9 * 16 * a * b + 12 * b for a, b in itertools.pairwise(ends))
    assert count(net) + behind == wanted


SMALL = {
    "ResNet": lambda **more: ResNet(18, width=8, **more),
    "ResNeXt": lambda **more: ResNeXt(50, groups=2, group_width=8, width=8, **more),
    "MobileNetV1": lambda **more: MobileNetV1(0.25, **more),
    "MobileNetV2": lambda **more: MobileNetV2(0.25, **more),
    "MobileNetV3": lambda **more: MobileNetV3("large", 0.25, **more),
    "EfficientNetLite": lambda **more: EfficientNetLite(0, **more),
    "DarkNet53": lambda **more: DarkNet53(width=4, **more),
    "TinyDarkNet": lambda **more: TinyDarkNet(**more),
    "HRNet": lambda **more: HRNet(4, **more),
    "UNetEncoder": lambda **more: UNetEncoder((4, 4, 8, 8, 8, 8), **more),
    "Xception": lambda **more: Xception(41, (4, 32), 32, **more),
    "EfficientNet": lambda **more: EfficientNet(0, **more),
    "DenseNet": lambda **more: DenseNet(121, growth=4, **more),
    "GoogLeNet": lambda **more: GoogLeNet(**more),
    "InceptionV3": lambda **more: InceptionV3(**more),
}
WITHOUT_BATCH_NORM = {
    "ConvNeXt": lambda **more: ConvNeXt(width=8, **more),
    "Swin": lambda **more: Swin(width=12, **more),
    "ViT": lambda **more: ViT("tiny", blocks=4, **more),
    "DINOv2": lambda **more: DINOv2("small", 4, (4, 8), blocks=4, **more),
}


@pytest.mark.parametrize("name", WITHOUT_BATCH_NORM)
def test_freezing_goes_on_from_what_makes_tokens_to_the_whole_network(name):
    with nn.init.undrawn():
        nets = [WITHOUT_BATCH_NORM[name](freeze_at=k) for k in range(6)]
    trained = [sum(p.size for p in net.parameters() if p.requires_grad) for net in nets]
    assert trained == sorted(trained, reverse=True) and trained[0] == count(nets[0]) and trained[-1] == 0
    assert len(set(trained)) == 6


@pytest.mark.parametrize("make", [partial(ShuffleNetV2, 0.5), SqueezeNet], ids=["ShuffleNetV2", "SqueezeNet"])
def test_a_stage_without_weights_freezes_nothing_more(make):
    trained = [sum(p.size for p in make(freeze_at=k).parameters() if p.requires_grad) for k in range(6)]
    assert trained == sorted(trained, reverse=True) and trained[-1] == 0 < trained[3]


@pytest.mark.parametrize("name", SMALL)
def test_freezing_stops_at_its_stride_and_leaves_nothing_out(name):
    """What is frozen up to stride 2^k grows with k, ends with the whole network, and does not move in training."""
    with nn.init.undrawn():
        nets = [SMALL[name](freeze_at=k) for k in range(6)]
    trained = [sum(p.size for p in net.parameters() if p.requires_grad) for net in nets]
    assert trained == sorted(trained, reverse=True) and trained[0] == count(nets[0]) and trained[-1] == 0
    assert len(set(trained)) == 6
    norms = [[layer for _, layer in net.named_layers() if isinstance(layer, nn.BatchNorm)] for net in nets]
    frozen = [sum(norm.frozen for norm in all_) for all_ in norms]
    assert frozen[0] == 0 < frozen[1] < frozen[2] < frozen[5] == len(norms[5])
    with pytest.raises(AttributeValueError, match=f"{name}: freeze_at is 6; it must be one of"):
        SMALL[name](freeze_at=6)


@pytest.mark.parametrize("name", SMALL)
def test_frozen_norms_stay_as_they_are_and_other_weights_are_trained(name):
    with nn.init.undrawn():
        net = SMALL[name](frozen_norm=True)
    norms = [layer for _, layer in net.named_layers() if isinstance(layer, nn.BatchNorm)]
    assert norms and all(norm.frozen and not norm.scale.requires_grad for norm in norms)
    assert any(p.requires_grad for p in net.parameters())


def test_a_frozen_part_is_that_of_its_stride():
    net = MobileNetV2(0.25, freeze_at=2)
    assert not any(p.requires_grad for block in [net.stem, *list(net.blocks)[:3]] for p in block.parameters())
    assert all(p.requires_grad for block in list(net.blocks)[3:] for p in block.parameters())


@pytest.mark.parametrize(
    "make",
    [
        partial(MobileNetV2, 0.25, out_strides=(4, 32)),
        partial(ResNet, 18, width=8, out_strides=(4, 8), output_stride=8),
        partial(EfficientNetLite, 0, out_strides=(8, 16)),
    ],
    ids=lambda make: make.func.__name__,
)
def test_a_walk_that_calls_each_block_gives_the_maps_of_the_backbone(make):
    net, visited = make().eval(), []

    def visit(place, block, x):
        visited.append(place)
        return block(x)

    with no_grad():
        maps, walked = net(drawn_image()), walk(net, drawn_image(), visit)
    assert visited == places(net)
    for a, b in zip(maps, walked, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_a_walk_needs_blocks():
    with pytest.raises(NotSupportedError, match="DarkNet53: is not made of blocks that a model could go between"):
        walk(DarkNet53(), drawn_image(), lambda place, block, x: block(x))


def test_a_backbone_that_does_not_say_its_parts_cannot_be_frozen_in_part():
    class Plain(Backbone):
        def __init__(self, freeze_at):
            super().__init__()
            self.finish(freeze_at)

    Plain(0)
    with pytest.raises(NotSupportedError, match="Plain: does not say what its parts are, so freeze_at must be 0"):
        Plain(1)


def test_efficientnet_lite_pads_as_tensorflow_does_at_any_size():
    """Windows of stride 2 end with the image: an odd and an even side differ by where they begin."""
    net = EfficientNetLite(0, out_strides=(2,)).eval()
    kernel = net.stem.conv.weight.numpy()[:, ::-1, ::-1]  # turned, as the network works on the turned image
    for height, width in ((32, 33), (33, 32)):
        image = np.random.default_rng(1).standard_normal((1, height, width, 3)).astype(np.float32)
        pads = [(0, 0), *((1 - (side + 1) % 2, 1) for side in (height, width)), (0, 0)]
        padded = np.pad(image, pads)
        with no_grad():
            found = net.stem.conv(tensor(image[:, ::-1, ::-1].copy())).numpy()[:, ::-1, ::-1]
        for y, x in ((0, 0), (7, 3), (15, 15)):
            wanted = np.einsum("rsc,krsc->k", padded[0, 2 * y : 2 * y + 3, 2 * x : 2 * x + 3], kernel)
            np.testing.assert_allclose(found[0, y, x], wanted, atol=1e-5)


def test_widths_are_rounded_as_the_authors_do():
    assert MobileNetV2(0.35).stem.conv.out_channels == 16  # 11.2: 8 would be 10 % less
    assert MobileNetV2(1.4).channels == (48, 136, 448)


def test_darknet53_has_its_papers_parameters():
    # 41.6 million with the classifier's 1,024 x 1,000 weights and 1,000 biases (darknet53.weights).
    assert count(DarkNet53()) == 40_584_928
    assert DarkNet53().channels == (256, 512, 1024)


def test_a_network_ends_at_its_last_stride():
    assert count(MobileNetV1(out_strides=(8,))) < count(MobileNetV1(out_strides=(8, 16)))
    assert len(DarkNet53(width=4, out_strides=(4, 8)).stages) == 3


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (
            lambda: MobileNetV1(out_strides=(8, 12)),
            r"MobileNetV1: out_strides is \[8, 12\]; .* out of \[2, 4, 8, 16, 32\]",
        ),
        (lambda: MobileNetV1(out_strides=(16, 8)), "must be ascending"),
        (lambda: DarkNet53(out_strides=()), "must be ascending"),
        (lambda: MobileNetV1(scale=0), "scale is 0; it must be positive"),
        (lambda: MobileNetV2(scale=0), "MobileNetV2: scale is 0; it must be positive"),
        (lambda: MobileNetV2(output_stride=16), r"out_strides is \[8, 16, 32\]; .* out of \[2, 4, 8, 16\]"),
        (lambda: DarkNet53(width=1), "width is 1"),
        (lambda: MobileNetV3("small", out_strides=(2, 4)), r"out of \[4, 8, 16, 32\]"),
        (lambda: ResNeXt(18), "ResNeXt: depth is 18; it must be one of"),
        (lambda: ResNeXt(50, group_width=0), "group_width 0"),
        (lambda: ResNeXt(50, width=24, groups=1, group_width=4), "width \\* group_width a multiple of 64"),
        (lambda: HRNet(18, out_strides=(2,)), r"HRNet: out_strides is \[2\]"),
        (lambda: DenseNet(120), "DenseNet: depth is 120, growth None; depth must be one of"),
        (lambda: ShuffleNetV2(0.7), "ShuffleNetV2: scale is 0.7; it must be one of"),
        (lambda: SqueezeNet("1.2"), "SqueezeNet: version is '1.2'; it must be one of"),
        (lambda: ConvNeXt("huge"), "ConvNeXt: size is 'huge', width None"),
        (lambda: Swin(width=16), "Swin: width is 16; it must be a multiple of its 3 heads"),
        (lambda: ViT("huge"), "ViT: size is 'huge', patch 16, image_size 224"),
        (lambda: ViT(out_strides=(8, 64)), r"ViT: out_strides is \[8, 64\]; .* out of \[4, 8, 16, 32\]"),
    ],
)
def test_wrong_arguments_are_refused(make, match):
    with pytest.raises(AttributeValueError, match=match):
        make()


def test_inception_v3_has_maps_of_35_17_and_8_cells():
    with nn.init.undrawn():
        net = InceptionV3().eval()
    with no_grad():
        maps = net(tensor(np.zeros((1, 299, 299, 3), np.float32)))
    assert [m.shape for m in maps] == [(1, 35, 35, 288), (1, 17, 17, 768), (1, 8, 8, 2048)]


def test_inception_v4_has_the_published_size_and_maps_of_73_to_8_cells():
    with nn.init.undrawn():
        net = InceptionV4((4, 8, 16, 32)).eval()
    with no_grad():
        maps = net(tensor(np.zeros((1, 299, 299, 3), np.float32)))
    assert [m.shape[1:] for m in maps] == [(73, 73, 160), (35, 35, 384), (17, 17, 1024), (8, 8, 1536)]
    assert sum(p.size for p in net.parameters()) + 1536 * 1000 + 1000 == 42_679_816  # timm's inception_v4


@pytest.mark.parametrize("make", [lambda: Swin(width=12), lambda: ViT("tiny", blocks=2, out_strides=(4, 16))])
def test_a_program_serves_other_sizes_than_the_one_it_was_traced_with(make):
    net = make().eval()
    traced = program(lambda x: net(x))
    for size in ((64, 64), (96, 160), (32, 64)):
        image = tensor(np.random.default_rng(1).standard_normal((2, *size, 3)).astype(np.float32))
        with no_grad():
            for found, wanted in zip(traced(image), net(image), strict=True):
                np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=0, atol=1e-4)
