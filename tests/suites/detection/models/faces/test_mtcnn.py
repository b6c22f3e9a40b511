"""MTCNN: its three stages are those of a plain loop over one picture; export; what it refuses.

With facenet-pytorch's files its boxes and points on 40 photographs are those of that package (docs/howto/detection.md).
"""

import numpy as np
import pytest

from framework import nn, no_grad, tensor
from framework.errors import AttributeValueError, NotSupportedError, ShapeError
from suites.detection.models.faces import MTCNN
from suites.detection.models.faces.cascade import output_net, proposal_net, refine_net
from suites.engine.weights import rename
from tests.suites.detection.models.faces.test_areas import by_area
from tests.suites.detection.models.helpers import assert_exports, assert_exports_to_onnx, images_of, targets_of

SIDE = 64
LEAST = (0.5, 0.3, 0.3)


def drawn(**arguments):
    model = MTCNN(SIDE, thresholds=LEAST, **arguments)
    nn.init.initialize(model, 4)
    for net in (model.proposal, model.refine, model.output):
        net.outs[1].weight.set(net.outs[1].weight * 0.05)  # boxes that stay near their places
    return model.eval()


def kept(boxes, scores, limit, over):
    """Numbers of the boxes that no better one covers, best first."""
    order, found = list(np.argsort(-scores, kind="stable")), []
    plus = 1 if over == "smaller" else 0
    area = (boxes[:, 2] - boxes[:, 0] + plus) * (boxes[:, 3] - boxes[:, 1] + plus)
    while order:
        best, *order = order
        found.append(best)
        low, high = np.maximum(boxes[best, :2], boxes[order, :2]), np.minimum(boxes[best, 2:4], boxes[order, 2:4])
        inner = np.clip(high - low + plus, 0, None).prod(axis=1)
        of = np.minimum(area[best], area[order]) if over == "smaller" else area[best] + area[order] - inner
        order = [k for k, share in zip(order, inner / of, strict=True) if share <= limit]
    return np.array(found, int)


def square(boxes):
    sides = boxes[:, 2:] - boxes[:, :2]
    side = sides.max(axis=1, keepdims=True)
    low = boxes[:, :2] + sides * 0.5 - side * 0.5
    return np.concatenate([low, low + side], axis=1)


def looked_at(net, image, boxes, side):
    corners = np.trunc(boxes).astype(int)
    low, high = np.maximum(corners[:, :2], 1) - 1, np.minimum(corners[:, 2:], SIDE)
    there = (high > low).all(axis=1)
    places = zip(low[there], high[there], strict=True)
    cuts = [by_area(image[y1:y2, x1:x2], (side, side)) for (x1, y1), (x2, y2) in places]
    return there, [out.numpy() for out in net(tensor(np.array(cuts, np.float32)))]


def plainly(model, image):
    """Boxes [D, 4], scores [D] and points [D, 5, 2], as facenet-pytorch's `detect_face` goes through its stages."""
    boxes, scores, codes, scale = [], [], [], 12 / 20
    while SIDE * scale >= 12:
        side = int(SIDE * scale + 1)
        copy = by_area(image, (side, side))[None].astype("f4")
        faces, code = (out.numpy()[0] for out in model.proposal(tensor(copy)))
        rows, columns = np.nonzero(faces > LEAST[0])
        corners = np.stack([2 * columns + 1, 2 * rows + 1, 2 * columns + 12, 2 * rows + 12], axis=1)
        cells, score = np.floor(corners.astype("f4") / np.float32(scale)), faces[rows, columns]
        best = kept(cells, score, 0.5, "both")
        boxes.append(cells[best]), scores.append(score[best]), codes.append(code[rows, columns][best])
        scale *= 0.709
    boxes, scores, codes = (np.concatenate(each) for each in (boxes, scores, codes))
    best = kept(boxes, scores, 0.7, "both")
    boxes, codes = boxes[best], codes[best]
    boxes = square(boxes + codes * np.tile(boxes[:, 2:] - boxes[:, :2], 2))
    there, (faces, codes) = looked_at(model.refine, image, boxes, 24)
    boxes, codes, faces = boxes[there][faces > LEAST[1]], codes[faces > LEAST[1]], faces[faces > LEAST[1]]
    best = kept(boxes, faces, 0.7, "both")
    boxes, codes = boxes[best], codes[best]
    boxes = square(boxes + codes * np.tile(boxes[:, 2:] - boxes[:, :2] + 1, 2))
    there, (faces, codes, points) = looked_at(model.output, image, boxes, 48)
    sure = faces > LEAST[2]
    boxes, codes, faces, points = boxes[there][sure], codes[sure], faces[sure], points[sure]
    sides = boxes[:, 2:] - boxes[:, :2] + 1
    marks = points.reshape(-1, 2, 5).transpose(0, 2, 1) * sides[:, None] + boxes[:, None, :2] - 1
    boxes = boxes + codes * np.tile(sides, 2)
    best = kept(boxes, faces, 0.7, "smaller")
    return np.clip(boxes[best], 0, SIDE), faces[best], marks[best]


def test_its_stages_are_those_of_a_plain_loop():
    model, images = drawn(), images_of(2, (SIDE, SIDE))
    with no_grad():
        found = model.detect(tensor(images))
        for n, image in enumerate(images):
            boxes, scores, points = plainly(model, image)
            count = int(found.counts.numpy()[n])
            assert count == len(boxes) >= 2
            np.testing.assert_allclose(found.scores.numpy()[n, :count], scores, atol=1e-5)
            np.testing.assert_allclose(found.boxes.numpy()[n, :count], boxes, atol=1e-3)
            np.testing.assert_allclose(found.landmarks.numpy()[n, :count], points, atol=1e-3)
            assert (found.scores.numpy()[n, count:] == 0).all()


@pytest.mark.parametrize(("proposals", "candidates"), [(70, 40), (8, 3)])
def test_it_exports_however_its_pieces_fall(tmp_path, proposals, candidates):
    model = drawn(proposals=proposals, candidates=candidates)
    assert_exports(model, tmp_path, [(SIDE, SIDE)])
    assert_exports_to_onnx(model, tmp_path, (SIDE, SIDE))


def test_a_picture_without_a_face_has_none():
    model = MTCNN(SIDE, thresholds=(1.0, 1.0, 1.0))
    nn.init.initialize(model, 0)
    with no_grad():
        assert model.detect(tensor(images_of(1, (SIDE, SIDE)))).counts.numpy().tolist() == [0]


def test_it_has_the_names_and_shapes_of_facenet_pytorchs_files():
    nets = {"pnet": (proposal_net(), "conv4_2.weight", [4, 32, 1, 1]), "rnet": (refine_net(), "dense5_1.bias", [2])}
    nets["onet"] = output_net(), "dense6_3.weight", [10, 256]
    sizes = {}
    for name, (net, tensor_name, shape) in nets.items():
        nn.init.initialize(net, 0)
        theirs = rename(net, net.names_in("facenet").sources)
        assert list(theirs[tensor_name].shape) == shape and "prelu1.weight" in theirs
        sizes[name] = sum(array.size for array in theirs.values())
    assert sizes == {"pnet": 6632, "rnet": 100178, "onet": 389040}


def test_what_it_cannot_do_is_an_error():
    with pytest.raises(AttributeValueError, match="size is 16, min_face 20"):
        MTCNN(16)
    with pytest.raises(AttributeValueError, match="candidates 9; needed"):
        MTCNN(proposals=8, candidates=9)
    with pytest.raises(ShapeError, match="images are 96x64; its size is 64, square"):
        drawn().detect(tensor(images_of(1, (64, 96))))
    with pytest.raises(NotSupportedError, match="to train, take RetinaFace"):
        drawn().losses(tensor(images_of(1, (SIDE, SIDE))), targets_of(1, 1, size=(SIDE, SIDE)))


@pytest.mark.peers
@pytest.mark.parametrize(("make", "side"), [(proposal_net, 30), (refine_net, 24), (output_net, 48)])
def test_its_networks_are_the_formulas_in_pytorch(make, side):
    torch = pytest.importorskip("torch", reason="the peer PyTorch is not installed")
    f = torch.nn.functional
    net = make()
    nn.init.initialize(net, 0)
    state = {name: torch.from_numpy(a) for name, a in rename(net, net.names_in("facenet").sources).items()}
    image = np.random.default_rng(0).uniform(-1, 1, (2, side, side, 3)).astype(np.float32)
    x = torch.from_numpy(image).permute(0, 3, 1, 2)
    windows = {proposal_net: (2, 0, 0), refine_net: (3, 3, 0), output_net: (3, 3, 2, 0)}[make]
    for k, window in enumerate(windows, start=1):
        x = f.conv2d(x, state[f"conv{k}.weight"], state[f"conv{k}.bias"])
        x = f.prelu(x, state[f"prelu{k}.weight"])
        x = f.max_pool2d(x, window, 2, ceil_mode=True) if window else x
    at = len(windows) + 1
    if make is proposal_net:
        outs = [f.conv2d(x, state[f"conv4_{k}.weight"], state[f"conv4_{k}.bias"]).permute(0, 2, 3, 1) for k in (1, 2)]
    else:
        x = x.permute(0, 3, 2, 1).reshape(2, -1)
        x = f.prelu(f.linear(x, state[f"dense{at}.weight"], state[f"dense{at}.bias"]), state[f"prelu{at}.weight"])
        names = [f"dense{at + 1}_{k}" for k in range(1, 3 + (make is output_net))]
        outs = [f.linear(x, state[f"{name}.weight"], state[f"{name}.bias"]) for name in names]
    wanted = [outs[0].softmax(-1)[..., 1], *outs[1:]]
    with no_grad():
        for ours, theirs in zip(net(tensor(image)), wanted, strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=1e-5)
