"""Every family of backbones has the numbers of torchvision, timm or transformers with drawn weights, saved by them."""

import pytest
import safetensors.numpy

from framework import no_grad, tensor
from suites.engine.weights import load_pretrained
from suites.vision.backbones import (
    VGG,
    ConvNeXt,
    DenseNet,
    DINOv2,
    EfficientNet,
    GoogLeNet,
    InceptionV3,
    InceptionV4,
    ResNeXt,
    ShuffleNetV2,
    SqueezeNet,
    Swin,
    ViT,
)
from tests.suites.vision.peer_nets import classifier, close, drawn, expect_same, pictures

pytestmark = pytest.mark.peers

TORCHVISION = {  # name: (ours, height and width, more arguments of theirs)
    "efficientnet_b0": (lambda: EfficientNet(0, (32,)), (75, 64), {}),
    "efficientnet_b3": (lambda: EfficientNet(3, (32,)), (64, 64), {}),
    "densenet121": (lambda: DenseNet(121, (32,)), (75, 64), {}),
    "densenet161": (lambda: DenseNet(161, (32,)), (64, 64), {}),
    "googlenet": (lambda: GoogLeNet((32,)), (75, 64), {"init_weights": False, "aux_logits": False}),
    "inception_v3": (lambda: InceptionV3((32,)), (107, 96), {"init_weights": False}),
    "shufflenet_v2_x0_5": (lambda: ShuffleNetV2(0.5, (32,)), (75, 64), {}),
    "shufflenet_v2_x2_0": (lambda: ShuffleNetV2(2.0, (32,)), (64, 64), {}),
    "squeezenet1_0": (lambda: SqueezeNet("1.0", (16,)), (75, 64), {}),
    "squeezenet1_1": (lambda: SqueezeNet("1.1", (16,)), (75, 64), {}),
    "wide_resnet50_2": (lambda: ResNeXt(50, 1, 128, out_strides=(32,)), (75, 64), {}),
    "vgg11_bn": (lambda: VGG(11, out_strides=(32,), norm=True), (64, 64), {}),
    "vgg13": (lambda: VGG(13, out_strides=(32,)), (96, 64), {}),
    "convnext_tiny": (lambda: ConvNeXt("tiny"), (75, 64), {}),
    "swin_t": (lambda: Swin("tiny"), (64, 64), {}),
    "vit_b_16": (lambda: ViT("base", image_size=64), (64, 64), {"image_size": 64}),
}


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="the peer PyTorch is not installed")


@pytest.mark.parametrize("name", TORCHVISION)
def test_torchvisions_logits_and_gradients(torch, tmp_path, name):
    import torchvision

    make, size, more = TORCHVISION[name]
    theirs = drawn(torch, getattr(torchvision.models, name)(weights=None, num_classes=11, **more))
    torch.save(theirs.state_dict(), tmp_path / "w.pth")
    expect_same(torch, theirs, classifier(make, 11), f"{tmp_path}/w.pth@torchvision", pictures(2, *size), "torchvision")


TIMM = {
    "efficientnet_b1": (lambda: EfficientNet(1, (32,)), {}),
    "densenet169": (lambda: DenseNet(169, (32,)), {}),
    "convnext_tiny": (lambda: ConvNeXt("tiny"), {}),
    "inception_v4": (lambda: InceptionV4((32,)), {}),
    "swin_tiny_patch4_window7_224": (lambda: Swin("tiny"), {}),
    "vit_small_patch16_224": (lambda: ViT("small", image_size=64), {"img_size": 64}),
}


@pytest.mark.parametrize("name", TIMM)
def test_timms_logits_and_gradients(torch, tmp_path, name):
    import timm

    make, more = TIMM[name]
    theirs = drawn(torch, timm.create_model(name, num_classes=11, **more))
    state = {n: t.contiguous().numpy() for n, t in theirs.state_dict().items()}
    safetensors.numpy.save_file(state, tmp_path / "w.safetensors")
    side = {"swin": 224, "ince": 107}.get(name[:4], 64)
    source = f"{tmp_path}/w.safetensors@{name}"
    scheme = "torchvision" if "densenet" in name else "timm"
    expect_same(torch, theirs, classifier(make, 11), source, pictures(1, side, side), scheme)


SMALL = {"num_labels": 11, "hidden_dropout_prob": 0.0}
TRANSFORMERS = {
    "ViT": (
        {
            "hidden_size": 192,
            "num_hidden_layers": 3,
            "num_attention_heads": 3,
            "intermediate_size": 768,
            "image_size": 64,
        },
        lambda: ViT("tiny", image_size=64, blocks=3, norm_eps=1e-12),
        (64, 64),
    ),
    "Dinov2": (
        {"hidden_size": 384, "num_hidden_layers": 3, "num_attention_heads": 6, "image_size": 70, "patch_size": 14},
        lambda: DINOv2("small", image_size=70, blocks=3),
        (70, 70),
    ),
    "Dinov2WithRegisters": (
        {"hidden_size": 384, "num_hidden_layers": 3, "num_attention_heads": 6, "image_size": 70, "patch_size": 14},
        lambda: DINOv2("small", 4, image_size=70, blocks=3),
        (70, 70),
    ),
    "Swin": (
        {"embed_dim": 48, "depths": [2, 2, 6, 2], "num_heads": [3, 6, 12, 24], "drop_path_rate": 0.0},
        lambda: Swin("tiny", width=48),
        (224, 224),
    ),
    "ConvNext": (
        {"hidden_sizes": [32, 64, 128, 256], "depths": [3, 3, 9, 3]},
        lambda: ConvNeXt("tiny", width=32),
        (75, 64),
    ),
}


@pytest.mark.parametrize("kind", TRANSFORMERS)
def test_transformers_logits(torch, tmp_path, kind):
    import transformers

    more, make, size = TRANSFORMERS[kind]
    config = getattr(transformers, f"{kind}Config")(**more, num_labels=11)
    theirs = drawn(torch, getattr(transformers, f"{kind}ForImageClassification")(config))
    theirs.save_pretrained(tmp_path)
    ours, images = classifier(make, 11), pictures(2, *size)
    report = load_pretrained(ours, tmp_path / "model.safetensors")
    assert set(report.loaded) == set(ours.state_dict())
    with no_grad(), torch.no_grad():
        wanted = theirs(torch.from_numpy(images).permute(0, 3, 1, 2)).logits.numpy()
        close(ours(tensor(images)).numpy(), wanted, 1e-4)
        if kind == "Dinov2":  # positions of 5 x 5 patches for 7 x 9; with registers it smooths
            images = pictures(1, 98, 126)
            tokens = theirs.base_model(torch.from_numpy(images).permute(0, 3, 1, 2)).last_hidden_state
            found = ours.backbone(tensor(images))[0].numpy()
            close(found, tokens[:, -63:].reshape(found.shape).numpy(), 1e-4)


def test_a_padded_and_shifted_map_of_swin_is_torchvisions(torch, tmp_path):
    """Sides that are no whole windows, and of which one is not shifted."""
    import torchvision

    theirs = drawn(torch, torchvision.models.swin_t(weights=None, num_classes=5))
    torch.save(theirs.state_dict(), tmp_path / "w.pth")
    ours = classifier(lambda: Swin("tiny"), 5)
    for size in ((75, 130), (28, 96), (130, 60)):
        expect_same(torch, theirs, ours, f"{tmp_path}/w.pth@torchvision", pictures(1, *size), "torchvision")
        ours = classifier(lambda: Swin("tiny"), 5)


def test_old_names_of_published_files(torch, tmp_path):
    """torchvision's own loading knows them too: densenet's "norm.1", the ViT's "mlp.linear_1"."""
    import re

    import torchvision

    for name, make, rule in (
        ("densenet121", lambda: DenseNet(121, (32,)), (r"(denselayer\d+\.(?:norm|conv))(\d)", r"\1.\2")),
        ("vit_b_16", lambda: ViT("base"), (r"mlp\.(0|3)\.", lambda m: f"mlp.linear_{1 + int(m[1]) // 3}.")),
    ):
        theirs = drawn(torch, getattr(torchvision.models, name)(weights=None, num_classes=3))
        state = {re.sub(*rule, n): t for n, t in theirs.state_dict().items()}
        torch.save(state, tmp_path / f"{name}.pth")
        ours = classifier(make, 3)
        load_pretrained(ours, f"{tmp_path}/{name}.pth@torchvision")
        images = pictures(1, 224, 224) if name == "vit_b_16" else pictures(1, 64, 64)
        with no_grad(), torch.no_grad():
            wanted = theirs(torch.from_numpy(images).permute(0, 3, 1, 2)).numpy()
            close(ours(tensor(images)).numpy(), wanted, 1e-4)


@pytest.mark.parametrize("registers", [0, 4])
def test_dinov2_gives_timms_tokens(torch, tmp_path, registers):
    import timm

    name = "vit_small_patch14_reg4_dinov2" if registers else "vit_small_patch14_dinov2"
    theirs = drawn(torch, timm.create_model(name, num_classes=0, img_size=70))
    safetensors.numpy.save_file({n: t.numpy() for n, t in theirs.state_dict().items()}, tmp_path / "w.safetensors")
    ours = DINOv2("small", registers, image_size=70, class_position=not registers).eval()
    report = load_pretrained(ours, tmp_path / "w.safetensors")
    assert set(report.loaded) == set(ours.state_dict())
    images = pictures(1, 70, 70)
    with no_grad(), torch.no_grad():
        tokens = theirs.forward_features(torch.from_numpy(images).permute(0, 3, 1, 2)).numpy()
        (found,) = ours(tensor(images))
        close(found.numpy(), tokens[:, 1 + registers :].reshape(1, 5, 5, 384), 1e-4)


SMALL = {"hidden_size": 384, "num_attention_heads": 6, "num_hidden_layers": 1}
WHOLE = {
    "ViT": {"hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768, "num_hidden_layers": 1},
    "Dinov2": {**SMALL, "image_size": 70},
    "Dinov2WithRegisters": {**SMALL, "image_size": 70, "patch_size": 14},
    "ConvNext": {},
    "Swin": {},
}


@pytest.mark.parametrize("kind", WHOLE)
def test_a_config_json_of_transformers_describes_its_own_network(torch, tmp_path, kind):
    import json

    import transformers

    from suites.classification import ImageClassifier
    from suites.vision.published import backbone_of

    config = getattr(transformers, f"{kind}Config")(**WHOLE[kind], num_labels=11)
    theirs = drawn(torch, getattr(transformers, f"{kind}ForImageClassification")(config))
    theirs.save_pretrained(tmp_path)
    described = backbone_of(json.loads((tmp_path / "config.json").read_text()), "config.json")
    made = {"ViT": ViT, "DINOv2": DINOv2, "ConvNeXt": ConvNeXt, "Swin": Swin}[described.pop("type")]
    described["out_strides"] = tuple(described["out_strides"])
    ours = ImageClassifier(made(**described), num_classes=11, top=True).eval()
    report = load_pretrained(ours, tmp_path / "model.safetensors")
    assert set(report.loaded) == set(ours.state_dict())
    side = WHOLE[kind].get("image_size", 224)
    images = pictures(1, side, side)
    with no_grad(), torch.no_grad():
        wanted = theirs(torch.from_numpy(images).permute(0, 3, 1, 2)).logits.numpy()
        close(ours(tensor(images)).numpy(), wanted, 1e-4)
