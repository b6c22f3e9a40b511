"""The segmentation networks a second time, from their papers, with PyTorch's functions on the weights of ours.

Letters: N batch, C channels, H W size, K classes, P pixels.
"""

import torch
from torch.nn import functional as F

from tests.suites.peer import Peer


class SegmentationPeer(Peer):
    """Logits of all outputs, [N, K, h, w], of a network whose images are [N, H, W, 3]."""

    def _plain(self, x, name, padding=0):
        return F.conv2d(x, self._weights[f"{name}.weight"], self._weights.get(f"{name}.bias"), padding=padding)

    def _has(self, name):
        return any(key.startswith(name) for key in self._weights)

    def _head(self, x, name):
        return self._plain(self._conv(x, f"{name}.0"), f"{name}.2")

    def _pooling(self, x, name, grids=(1, 2, 3, 6)):
        pooled = [self._conv(F.adaptive_avg_pool2d(x, g), f"{name}.branches.{i}") for i, g in enumerate(grids)]
        return self._conv(torch.cat([x, *(self._resize(p, x.shape[2:]) for p in pooled)], 1), f"{name}.merge")

    def unet(self, images):
        x, maps, stage = self._given(images), [], 0
        while self._has(f"backbone.stages.{stage}."):
            x = F.max_pool2d(x, 2, ceil_mode=True) if stage else x
            for i in range(2):
                x = self._conv(x, f"backbone.stages.{stage}.{i}")
            maps.append(x)
            stage += 1
        for step, beside in enumerate(reversed(maps[:-1])):
            x = torch.cat([beside, self._resize(x, beside.shape[2:])], 1)
            for i in range(2):
                x = self._conv(x, f"steps.{step}.{i}")
        return [self._plain(x, "classifier", padding=1)]

    def _residual(self, x, name, stride, dilation, early):
        """A bottleneck or a basic block; `early`: a bottleneck's first convolution has the stride."""
        if self._has(f"{name}.body.2."):
            y = self._conv(x, f"{name}.body.0", stride if early else 1)
            y = self._conv(y, f"{name}.body.1", 1 if early else stride, dilation)
            y = self._conv(y, f"{name}.body.2", act=None)
        else:
            y = self._conv(x, f"{name}.body.0", stride, dilation[0])
            y = self._conv(y, f"{name}.body.1", dilation=dilation[1], act=None)
        short = self._conv(x, f"{name}.short", stride, act=None) if self._has(f"{name}.short.") else x
        return F.relu(y + short)

    def _resnet(self, x, counts, early=False, between=None):
        """Outputs of the four stages at output stride 8; `between(name, x)` may change what goes on behind a block."""
        for i in range(3):
            if self._has(f"backbone.stem.{i}."):
                x = self._conv(x, f"backbone.stem.{i}", 2 if i == 0 else 1)
        x, found = F.max_pool2d(x, 3, 2, 1), []
        for stage, count in enumerate(counts):
            for block in range(count):
                name = f"backbone.stages.{stage}.{block}"
                own = {2: 2, 3: 4}.get(stage, 1)
                first = {2: 1, 3: 2}.get(stage, 1) if block == 0 else own  # as the stage before, before it dilates
                dilation = first if self._has(f"{name}.body.2.") else (first, first)
                x = self._residual(x, name, 2 if (stage, block) == (1, 0) else 1, dilation, early)
                x = between(name, x) if between else x
            found.append(x)
        return found

    def pspnet(self, images):
        *_, third, last = self._resnet(self._given(images), (2, 2, 2, 2))
        return [self._plain(self._pooling(last, "pyramid"), "classifier"), self._head(third, "aux")]

    def icnet(self, images):
        x, seen = self._given(images), []

        def between(name, x):
            if name != "backbone.stages.1.0":
                return x
            seen.append(x)
            return F.avg_pool2d(x, 2)

        coarse = self._resnet(F.avg_pool2d(x, 2), (3, 4, 6, 3), early=True, between=between)[-1]
        coarse = coarse + sum(self._resize(F.adaptive_avg_pool2d(coarse, g), coarse.shape[2:]) for g in (1, 2, 3, 4))
        low = self._resize(self._conv(coarse, "low"), seen[0].shape[2:])
        for i in range(4):
            x = self._conv(x, f"high.{i}", 2 if i < 3 else 1, act="relu" if i < 3 else None)
        joined = self._conv(low, "low_to_middle", dilation=2, act=None) + self._conv(seen[0], "middle", act=None)
        joined = self._resize(F.relu(joined), x.shape[2:])
        finest = F.relu(self._conv(joined, "middle_to_high", dilation=2, act=None) + x)
        finest = self._resize(finest, [2 * side for side in finest.shape[2:]])
        return [self._plain(y, f"heads.{i}") for i, y in enumerate((finest, joined, low))]

    def _hrnet(self, images):
        """All maps side by side, at stride 4."""
        x = self._conv(self._conv(self._given(images), "backbone.stem.0", 2), "backbone.stem.1", 2)
        for i in range(4):
            x = self._residual(x, f"backbone.first.{i}", 1, 1, False)
        maps = [x]
        for stage, modules in enumerate((1, 4, 3)):
            name = f"backbone.transitions.{stage}"
            new = self._conv(maps[-1], f"{name}.new", 2)
            maps = [self._conv(maps[0], f"{name}.same") if stage == 0 else maps[0], *maps[1:], new]
            for module in range(modules):
                maps = self._exchange(maps, f"backbone.stages.{stage}.{module}")
        return torch.cat([maps[0], *(self._resize(m, maps[0].shape[2:]) for m in maps[1:])], 1)

    def _exchange(self, maps, name):
        for b in range(len(maps)):
            for i in range(4):
                maps[b] = self._residual(maps[b], f"{name}.branches.{b}.{i}", 1, (1, 1), False)
        found, path = [], 0
        for i, own in enumerate(maps):
            total = 0
            for j, x in enumerate(maps):
                if i != j:
                    steps = max(i - j, 1)
                    for k in range(steps):
                        last = k == steps - 1
                        x = self._conv(x, f"{name}.paths.{path}.{k}", 2 if i > j else 1, act=None if last else "relu")
                    path += 1
                total = total + (self._resize(x, own.shape[2:]) if j > i else x)
            found.append(F.relu(total))
        return found

    def hrnet_fcn(self, images):
        return [self._head(self._hrnet(images), "head")]

    def hrnet_ocr(self, images):
        maps = self._hrnet(images)
        regions, pixels = self._head(maps, "regions"), self._conv(maps, "pixels")
        means = (torch.softmax(regions.flatten(2), 2) @ pixels.flatten(2).transpose(1, 2)).transpose(1, 2)[..., None]
        name = "attention"
        query, key = (
            self._conv(self._conv(x, f"{name}.{part}.0"), f"{name}.{part}.1").flatten(2)
            for x, part in ((pixels, "of_pixel"), (means, "of_region"))
        )
        value = self._conv(means, f"{name}.value").flatten(2)
        alike = torch.softmax(query.transpose(1, 2) @ key / query.shape[1] ** 0.5, 2)  # [N, P, K]
        seen = (alike @ value.transpose(1, 2)).transpose(1, 2).unflatten(2, pixels.shape[2:])
        seen = self._conv(torch.cat([self._conv(seen, f"{name}.up"), pixels], 1), "merge")
        return [self._plain(seen, "classifier"), regions]

    def _depthwise_separable(self, x, name, stride=1):
        return self._conv(self._conv(x, f"{name}.0", stride, act=None), f"{name}.1")

    def fast_scnn(self, images):
        shared = self._conv(self._given(images), "shared.0", 2)
        for i in (1, 2):
            shared = self._depthwise_separable(shared, f"shared.{i}", 2)
        x = shared
        for i in range(9):
            y = self._conv(self._conv(x, f"deep.{i}.body.0"), f"deep.{i}.body.1", 2 if i in (0, 3) else 1)
            y = self._conv(y, f"deep.{i}.body.2", act=None)
            x = x + y if i % 3 else y
        x = self._resize(self._pooling(x, "pyramid"), shared.shape[2:])
        x = self._conv(self._conv(x, "low.0", dilation=4), "low.1", act=None)
        x = F.relu(x + self._conv(shared, "high", act=None))
        x = self._depthwise_separable(self._depthwise_separable(x, "head.0"), "head.1")
        return [self._plain(x, "head.3"), self._head(shared, "aux")]

    def _gather_expand(self, x, name):
        halves = self._has(f"{name}.short.")
        y = self._conv(self._conv(x, f"{name}.body.0"), f"{name}.body.1", 2 if halves else 1, act=None)
        y = self._conv(y, f"{name}.body.2", act=None)
        if not halves:
            return F.relu(x + y)
        short = self._conv(self._conv(x, f"{name}.short.0", 2, act=None), f"{name}.short.1", act=None)
        return F.relu(short + self._conv(y, f"{name}.body.3", act=None))

    def bisenet_v2(self, images):
        detail = images = self._given(images)
        for i in range(8):
            detail = self._conv(detail, f"detail.{i}", 2 if i in (0, 2, 5) else 1)
        x = self._conv(images, "stem.first", 2)
        left = self._conv(self._conv(x, "stem.left.0"), "stem.left.1", 2)
        x = self._conv(torch.cat([left, F.max_pool2d(x, 3, 2, 1)], 1), "stem.merge")
        maps = [x]
        for stage, count in enumerate((2, 2, 4)):
            for i in range(count):
                x = self._gather_expand(x, f"stages.{stage}.{i}")
            maps.append(x)
        w = self._weights
        norms = (w[f"context.norm.{n}"] for n in ("running_mean", "running_var", "scale", "bias"))
        x = x + self._conv(F.batch_norm(x.mean((2, 3), keepdim=True), *norms), "context.point")
        x = self._plain(x, "context.conv", padding=1)
        kept, meant = (
            self._plain(self._conv(y, f"aggregation.{n}.0", act=None), f"aggregation.{n}.1")
            for y, n in ((detail, "detail_keep"), (x, "meaning_keep"))
        )
        down = F.avg_pool2d(self._conv(detail, "aggregation.detail_down.0", 2, act=None), 3, 2, 1)
        up = self._resize(self._conv(x, "aggregation.meaning_up", act=None), detail.shape[2:])
        fine = kept * torch.sigmoid(up) + self._resize(down * torch.sigmoid(meant), detail.shape[2:])
        logits = self._head(self._conv(fine, "aggregation.merge", act=None), "head")
        return [logits, *(self._head(m, f"boosters.{i}") for i, m in enumerate(maps))]

    def deeplab_xception(self, images):
        self.eps = 1e-3
        x = self._conv(self._conv(self._given(images), "backbone.stem.0", 2), "backbone.stem.1")
        fine = x
        for block in range(13):  # Xception-41: 3 of the entry, 8 of the middle, 2 of the exit
            name, last, y = f"backbone.blocks.{block}", block == 12, x
            for i in range(3):
                y = y if last else F.relu(y)
                act, dilation = "relu" if last else None, 2 if last else 1
                stride = 2 if block < 3 and i == 2 else 1
                y = self._conv(y, f"{name}.body.{i}.0", stride, dilation, act)
                y = self._conv(y, f"{name}.body.{i}.1", act=act)
                fine = y if (block, i) <= (1, 1) else fine  # before the second block halves
            if self._has(f"{name}.short."):
                x = self._conv(x, f"{name}.short", 2 if block < 3 else 1, act=None)
            x = y if last else x + y
        self.eps = 1e-5
        x = self._resize(self._pyramid(x), fine.shape[2:])
        x = torch.cat([x, self._conv(fine, "low")], 1)
        return [self._plain(self._separable(self._separable(x, "decoder.0"), "decoder.1"), "decoder.2")]
