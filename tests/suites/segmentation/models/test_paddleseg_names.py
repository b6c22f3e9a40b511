"""PaddleSeg 2's segmenters become ours: their forms are written out here from its code, tensor by tensor, with numbers
drawn for each name the first time that it is asked for. No published file was available.

Its heads' convolutions have a bias before the norm, stages that dilate do so from their first block on, nothing lies
between a separable convolution's two, and maps are joined in other orders.
"""

import numpy as np
import pytest
from safetensors.numpy import save_file

from framework import no_grad, ops, tensor
from framework.errors import CheckpointError
from suites.engine.weights import load_pretrained
from suites.engine.weights.matching import rename
from suites.segmentation.models.deeplab_v3plus import DeepLabV3Plus
from suites.segmentation.models.hrnet import FCN, OCRNet
from suites.segmentation.models.pspnet import PSPNet
from suites.segmentation.models.unet import UNet
from suites.vision.backbones import HRNet, ResNet, UNetEncoder

WIDTH, K = 8, 3


class Theirs:
    """Tensors by their names, made when a form first asks for them: images and maps are [N, H, W, C] here."""

    def __init__(self):
        self.arrays = {}
        self._rng = np.random.default_rng(0)

    def _of(self, name, *shape, low=-0.5, high=0.5):
        return self.arrays.setdefault(name, self._rng.uniform(low, high, shape).astype(np.float32))

    def plain(self, x, name, k, size, stride=1, dilation=1, groups=1, bias=True):
        c = x.shape[3] // groups
        weight = self._of(f"{name}.weight", k, c, size, size) * np.float32((c * size * size) ** -0.5)
        self.arrays[f"{name}.weight"] = weight
        bias = tensor(self._of(f"{name}.bias", k)) if bias else None
        pad = dilation * (size // 2)
        kernel = tensor(weight.transpose(0, 2, 3, 1).copy())
        return ops.conv2d(x, kernel, bias, stride=stride, padding=pad, dilation=dilation, groups=groups)

    def unit(self, x, name, k, size, stride=1, dilation=1, groups=1, bias=True, act=True):
        y = self.plain(x, f"{name}._conv", k, size, stride, dilation, groups, bias)
        at = f"{name}._batch_norm"
        scale, shift = self._of(f"{at}.weight", k, low=0.5, high=1.5), self._of(f"{at}.bias", k)
        mean, variance = self._of(f"{at}._mean", k), self._of(f"{at}._variance", k, low=0.5, high=1.5)
        y = (y - tensor(mean)) * tensor(scale / np.sqrt(variance + np.float32(1e-5))) + tensor(shift)
        return ops.relu(y) if act else y

    def separable(self, x, name, k, dilation=1):
        x = self.unit(x, f"{name}.depthwise_conv", x.shape[3], 3, 1, dilation, x.shape[3], act=False)
        return self.unit(x, f"{name}.piontwise_conv", k, 1)

    def resnet50_vd(self, x):
        """The maps of the four stages at output stride 8."""
        for i, k in enumerate((WIDTH // 2, WIDTH // 2, WIDTH)):
            x = self.unit(x, f"backbone.conv1_{i + 1}", k, 3, 2 if i == 0 else 1, bias=False)
        x, maps = ops.max_pool2d(x, (3,), (2,), (1,)), []
        for stage, count in enumerate((3, 4, 6, 3)):
            dilation, inner = (1, 1, 2, 4)[stage], WIDTH << stage
            for i in range(count):
                name, stride = f"backbone.bb_{stage}_{i}", 2 if (stage, i) == (1, 0) else 1
                y = self.unit(x, f"{name}.conv0", inner, 1, bias=False)
                y = self.unit(y, f"{name}.conv1", inner, 3, stride, dilation, bias=False)
                y = self.unit(y, f"{name}.conv2", 4 * inner, 1, bias=False, act=False)
                if i == 0:
                    x = ops.avg_pool2d(x, (2,), (2,)) if stride == 2 else x
                    x = self.unit(x, f"{name}.short", 4 * inner, 1, bias=False, act=False)
                x = ops.relu(x + y)
            maps.append(x)
        return maps

    def deeplab(self, images):
        low, *_, x = self.resnet50_vd(images)
        branches = [self.unit(x, "head.aspp.aspp_blocks.0", 16, 1)]
        branches += [self.separable(x, f"head.aspp.aspp_blocks.{i + 1}", 16, r) for i, r in enumerate((12, 24, 36))]
        pooled = self.unit(ops.mean(x, axes=(1, 2), keepdims=True), "head.aspp.global_avg_pool.1", 16, 1, bias=False)
        branches.append(ops.broadcast_like(pooled, branches[0]))
        x = self.unit(ops.concat(branches, axis=3), "head.aspp.conv_bn_relu", 16, 1)
        low = self.unit(low, "head.decoder.conv_bn_relu1", 6, 1)
        x = ops.concat([ops.resize_bilinear(x, low), low], axis=3)
        for i in (2, 3):
            x = self.separable(x, f"head.decoder.conv_bn_relu{i}", 16)
        return [self.plain(x, "head.decoder.conv", K, 1)]

    def pspnet(self, images):
        *_, third, x = self.resnet50_vd(images)
        parts = []
        for i, grid in enumerate((1, 2, 3, 6)):  # maps of 6 pixels a side
            cells = ops.avg_pool2d(x, (6 // grid,), (6 // grid,))
            cells = self.unit(cells, f"head.psp_module.stages.{i}.1", x.shape[3] // 4, 1)
            parts.append(ops.resize_bilinear(cells, x))
        x = self.unit(ops.concat([x, *parts[::-1]], axis=3), "head.psp_module.conv_bn_relu2", 16, 3)
        second = self.unit(third, "head.auxlayer.conv_bn_relu", 12, 3)
        return [self.plain(x, "head.conv", K, 1), self.plain(second, "head.auxlayer.conv", K, 1)]

    def unet(self, images):
        x, maps = images, []
        for level, k in enumerate((4, 8, 8)):
            x = ops.max_pool2d(x, (2,), (2,)) if level else x
            for i in range(2):
                name = f"encode.down_sample_list.{level - 1}.{i + 1}" if level else f"encode.double_conv.{i}"
                x = self.unit(x, name, k, 3)
            maps.append(x)
        for step, (k, beside) in enumerate(zip((8, 4), maps[-2::-1], strict=True)):
            x = ops.concat([ops.resize_bilinear(x, beside), beside], axis=3)
            for i in range(2):
                x = self.unit(x, f"decode.up_sample_list.{step}.double_conv.{i}", k, 3)
        logits = self.plain(x, "cls", K, 3)
        self.arrays |= {f"conv.{leaf}": self.arrays[f"cls.{leaf}"] for leaf in ("weight", "bias")}
        return [logits]

    def _basic(self, x, name):
        y = self.unit(x, f"{name}.conv1", x.shape[3], 3, bias=False)
        return ops.relu(x + self.unit(y, f"{name}.conv2", x.shape[3], 3, bias=False, act=False))

    def _hrnet(self, x):
        for i in (1, 2):
            x = self.unit(x, f"backbone.conv_layer1_{i}", 64, 3, 2, bias=False)
        for i in range(4):
            name, before = f"backbone.la1.bb_layer2_{i + 1}", x
            for part, k, size in (("conv1", 64, 1), ("conv2", 64, 3), ("conv3", 256, 1)):
                x = self.unit(x, f"{name}.{part}", k, size, bias=False, act=part != "conv3")
            x = ops.relu(x + (before if i else self.unit(before, f"{name}.conv_down", 256, 1, bias=False, act=False)))
        maps = [x]
        for stage, modules in enumerate((1, 4, 3), start=2):
            place = f"backbone.tr{stage - 1}.transition_tr{stage - 1}_layer_"
            new = self.unit(maps[-1], f"{place}{stage}", 4 << (stage - 1), 3, 2, bias=False)
            if stage == 2:
                maps = [self.unit(maps[0], f"{place}1", 4, 3, bias=False)]
            maps.append(new)
            for module in range(1, modules + 1):
                maps = self._exchanged(maps, f"backbone.st{stage}.stage_st{stage}_{module}", f"st{stage}_{module}")
        return ops.concat([maps[0], *(ops.resize_bilinear(m, maps[0]) for m in maps[1:])], axis=3)

    def _exchanged(self, maps, place, called):
        for b in range(len(maps)):
            for i in range(4):
                maps[b] = self._basic(maps[b], f"{place}.branches_func.bb_{called}_branch_layer_{b + 1}_{i + 1}")
        found = []
        for i, own in enumerate(maps):
            total = own
            for j, y in enumerate(maps):
                name = f"{place}.fuse_func.residual_{called}_layer_{i + 1}_{j + 1}"
                if j > i:
                    y = self.unit(y, name, own.shape[3], 1, bias=False, act=False)
                    total = total + ops.resize_bilinear(y, own)
                elif j < i:
                    for k in range(i - j):
                        last = k == i - j - 1
                        out = own.shape[3] if last else y.shape[3]
                        y = self.unit(y, f"{name}_{k + 1}", out, 3, 2, bias=False, act=not last)
                    total = total + y
            found.append(ops.relu(total))
        return found

    def fcn(self, images):
        x = self._hrnet(images)
        return [self.plain(self.unit(x, "head.conv_1", x.shape[3], 1), "head.cls", K, 1)]

    def ocrnet(self, images):
        x = self._hrnet(images)
        regions = self.plain(self.unit(x, "head.aux_head.0", x.shape[3], 1), "head.aux_head.1", K, 1)
        pixels = self.unit(x, "head.conv3x3_ocr", 16, 3)
        n, h, w, _ = pixels.shape
        shares = ops.softmax(ops.reshape(regions, shape=(n, h * w, K)), axis=1)
        means = ops.matmul(shares, ops.reshape(pixels, shape=(n, h * w, 16)), transpose_a=True)
        means = ops.reshape(means, shape=(n, K, 1, 16))
        at = "head.spatial_ocr.attention_block"
        query, key = pixels, means
        for i in range(2):
            query, key = self.unit(query, f"{at}.f_pixel.{i}", 8, 1), self.unit(key, f"{at}.f_object.{i}", 8, 1)
        value = ops.reshape(self.unit(means, f"{at}.f_down", 8, 1), shape=(n, K, 8))
        query, key = ops.reshape(query, shape=(n, h * w, 8)), ops.reshape(key, shape=(n, K, 8))
        alike = ops.softmax(ops.matmul(query, key, transpose_b=True) * 8**-0.5, axis=-1)
        seen = self.unit(ops.reshape(ops.matmul(alike, value), shape=(n, h, w, 8)), f"{at}.f_up", 16, 1)
        seen = self.unit(ops.concat([seen, pixels], axis=3), "head.spatial_ocr.conv1x1.0", 16, 1)
        return [self.plain(seen, "head.cls_head", K, 1), regions]


def resnet(*strides, **more):
    return ResNet(50, "d", width=WIDTH, out_strides=strides, output_stride=8, early_dilation=True, **more)


OURS = {
    "deeplab": lambda: DeepLabV3Plus(resnet(4, 8), K, (12, 24, 36), 16, 6, inner_act="none"),
    "pspnet": lambda: PSPNet(resnet(8), K, channels=16, aux_channels=12),
    "unet": lambda: UNet(UNetEncoder((4, 8, 8)), K, (8, 4)),
    "fcn": lambda: FCN(HRNet(4, upsampling="bilinear"), K),
    "ocrnet": lambda: OCRNet(HRNet(4, upsampling="bilinear"), K, 16, 8),
}


@pytest.fixture(scope="module")
def published():
    """For each network their arrays, the images, and the logits of their form."""
    images = np.random.default_rng(1).standard_normal((2, 48, 48, 3)).astype(np.float32)
    found = {}
    with no_grad():
        for name in OURS:
            theirs = Theirs()
            logits = [y.numpy() for y in getattr(theirs, name)(tensor(images))]
            found[name] = theirs.arrays, images, logits
    return found


@pytest.mark.parametrize("name", OURS)
def test_logits_of_their_form_with_their_names(name, published, tmp_path):
    arrays, images, logits = published[name]
    save_file(arrays, tmp_path / "w.safetensors")
    model = OURS[name]().eval()
    report = load_pretrained(model, tmp_path / "w.safetensors")
    assert set(report.loaded) == set(model.state_dict())
    assert set(report.unused) <= {"conv.weight", "conv.bias"}  # the classifier's second name
    with no_grad():
        found = model.outputs(tensor(images))
    for ours, wanted in zip(found, logits, strict=True):
        assert np.ptp(wanted) > 0.01
        np.testing.assert_allclose(ours.numpy(), wanted, rtol=0, atol=1e-4 * np.abs(wanted).max())
    again = rename(model, model.names_in("paddleseg").sources)
    assert {n: a.shape for n, a in again.items()} == {n: a.shape for n, a in arrays.items() if n not in report.unused}


def test_the_same_shapes_of_another_network_are_refused(published, tmp_path):
    save_file(published["pspnet"][0], tmp_path / "w.safetensors")
    late = ResNet(50, "d", width=WIDTH, out_strides=(8,), output_stride=8)
    with pytest.raises(CheckpointError, match="not the weights of this PSPNet"):
        load_pretrained(PSPNet(late, K, channels=16, aux_channels=12), tmp_path / "w.safetensors")
    save_file(published["fcn"][0], tmp_path / "f.safetensors")
    with pytest.raises(CheckpointError, match="not the weights of this FCN"):
        load_pretrained(FCN(HRNet(4), K), tmp_path / "f.safetensors")
    assert resnet(8).schemes == ("paddleseg",)  # torchvision's begin to dilate a block later


def test_a_network_without_the_second_head_leaves_theirs(published, tmp_path):
    save_file(published["pspnet"][0], tmp_path / "w.safetensors")
    report = load_pretrained(PSPNet(resnet(8), K, channels=16, aux_weight=0), tmp_path / "w.safetensors")
    assert report.unused and all(name.startswith("head.auxlayer.") for name in report.unused)


def test_other_classes_start_new(published, tmp_path):
    save_file(published["unet"][0], tmp_path / "w.safetensors")
    report = load_pretrained(UNet(UNetEncoder((4, 8, 8)), 7, (8, 4)), tmp_path / "w.safetensors")
    assert "classifier.weight" in " ".join([*report.new, *report.resized])
