"""Pictures are prepared in C++ with Python's bits, for every pipeline of the shipped configs, and led back as there."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

import framework
from framework import ops
from framework.graph.files import save_program
from framework.pictures import decode_heatmaps
from suites.anomaly.processor import AnomalyProcessor
from suites.classification.processor import ClassificationProcessor
from suites.detection.processor import DetectionProcessor, found_on_originals
from suites.keypoints.processor import ObjectIn, PoseProcessor
from suites.keypoints.sample import back
from suites.retrieval.processor import RetrievalProcessor
from suites.segmentation.processor import SegmentationProcessor
from suites.video.processor import VideoProcessor
from tests.native import (
    C,
    NativeError,
    NativePredictor,
    Picture,
    Prepared,
    PreparedObjects,
    byref,
    c_void_p,
    checked,
    ctypes,
)
from tests.shipped import load_shipped

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
PROCESSORS = {
    "anomaly": AnomalyProcessor, "classification": ClassificationProcessor, "detection": DetectionProcessor,
    "keypoints": PoseProcessor, "retrieval": RetrievalProcessor, "segmentation": SegmentationProcessor,
    "video": VideoProcessor,
}  # fmt: skip
MORE = {
    "detection": {"min_score": 0.0},
    "keypoints": {
        "class_names": ["person"],
        "pose": {"names": ["a", "b"]},
        "reader": {"stride": 4.0, "sigma": 2.0},
    },
    "segmentation": {"palette": [[0, 0, 0]]},
    "video": {"segments": [3, 2, 1, 1]},
}


def pipelines():
    """(suite, transforms) of evaluation, each once, with the first config that has it."""
    found = {}
    for path in sorted(CONFIGS.rglob("*.yml")):
        suite = path.relative_to(CONFIGS).parts[0]
        if "_base_" in path.parts or suite not in PROCESSORS:
            continue
        transforms = load_shipped(path).get("data.eval.transforms")
        if transforms and not any(t["type"] == "SampleRows" for t in transforms):
            text = json.dumps([{k: v for k, v in t.items() if k != "id"} for t in transforms])
            found.setdefault((suite, text), path.stem)
    return [pytest.param(suite, json.loads(text), id=f"{suite}-{name}") for (suite, text), name in found.items()]


def exported(folder, suite, processor, inputs=("images",)):
    """A model with inputs of these names whose metadata are the processor's."""
    shapes = {"images": (1, 8, 8, 3), "clips": (1, 2, 8, 8, 3), "sizes": (1, 2), "other": (1, 2)}
    tensors = []
    for name in inputs:
        dtype = np.int64 if name == "sizes" else np.float32
        tensors.append(framework.tensor(np.zeros(shapes[name], dtype)))
        tensors[-1].name = name
    program = framework.program(lambda *given: [ops.reshape(x, shape=(-1,)) for x in given]).program_for(*tensors)
    save_program(program.program, folder, extra={"suite": suite, "processor": processor})
    return NativePredictor(folder)


def picture(height, width, seed=0):
    rng = np.random.default_rng(seed)
    smooth = cv2.resize(rng.integers(0, 256, (5, 7, 3), np.uint8), (width, height))
    return cv2.addWeighted(smooth, 0.7, rng.integers(0, 256, (height, width, 3), np.uint8), 0.3, 0)


REFUSED = {"JpegCompression": "prepares pictures by JpegCompression"}


@pytest.mark.parametrize(("suite", "transforms"), pipelines())
def test_every_pipeline_of_the_shipped_configs_gives_pythons_bits_or_is_refused(suite, transforms, tmp_path):
    pads = any(t["type"] == "ResizeKeepRatio" for t in transforms) and suite == "detection"
    metadata = {"transforms": transforms, "class_names": ["a", "b"], **MORE.get(suite, {})}
    metadata |= {"padded_to": 32} if pads else {}
    video = suite == "video"
    model = exported(tmp_path, suite, metadata, ("clips",) if video else ("images", "sizes") if pads else ("images",))
    reason = next((words for key, words in REFUSED.items() if key in json.dumps(transforms)), None)
    if reason:
        with pytest.raises(NativeError, match=reason):
            Prepared(model, [picture(60, 50)])
        return
    python = PROCESSORS[suite].from_metadata(metadata)
    for height, width in ((360, 640), (427, 301), (1200, 900)):
        frames = [picture(height, width, seed) for seed in range(6 if video else 1)]
        expected = python.prepare([np.stack(frames)] if video else frames)
        found = Prepared(model, frames)
        images = expected["clips" if video else "images"]
        assert found.input(0).shape == images.shape and found.input(0).dtype == images.dtype
        assert found.input(0).tobytes() == images.tobytes()
        if pads:
            assert found.input(1).tolist() == expected["sizes"].tolist()


STEPS = {
    "linear": [{"type": "Resize", "size": [37, 91]}],
    "area": [{"type": "Resize", "size": [64, 48], "interp": "area"}],
    "cubic": [{"type": "Resize", "size": [61, 83], "interp": "cubic"}],
    "nearest": [{"type": "Resize", "size": 51, "interp": "nearest"}],
    "ratio": [{"type": "ResizeKeepRatio", "short": 40, "max_long": 90}, {"type": "PadToMultiple", "multiple": 24}],
    "framed": [{"type": "Letterbox", "size": [48, 80], "fill": [0.1, 0.55, 1], "centred": False, "interp": "area"}],
}
NORMAL = {"type": "Normalize", "bgr": True}


@pytest.mark.parametrize("name", STEPS)
def test_pictures_of_all_sizes_have_pythons_bits(name, tmp_path):
    metadata = {"transforms": [*STEPS[name], NORMAL], "class_names": ["a"], "min_score": 0.0}
    model, python = exported(tmp_path, "detection", metadata), DetectionProcessor.from_metadata(metadata)
    rng = np.random.default_rng(0)
    sizes = [(1, 1), (128, 96), (64, 48), (192, 144), (128, 48), (64, 96), (37, 182), (74, 182), (1, 300), (300, 1)]
    for height, width in sizes + rng.integers(1, 260, (120, 2)).tolist():
        pixels = rng.integers(0, 256, (height, width, 3), np.uint8)
        expected, found = python.prepare([pixels]), Prepared(model, [pixels])
        assert found.input(0).tobytes() == expected["images"].tobytes(), (height, width)


def test_borders_after_normalisation_crops_and_pictures_of_bytes(tmp_path):
    for number, transforms in enumerate((
        [NORMAL, {"type": "PadToMultiple", "multiple": 32, "fill": [0.1, -2.5, 3.3]}],
        [{"type": "PadToMultiple", "multiple": 7}],
    )):  # fmt: skip
        metadata = {"transforms": transforms, "class_names": ["a"], "min_score": 0.0}
        model = exported(tmp_path / str(number), "detection", metadata)
        expected = DetectionProcessor.from_metadata(metadata).prepare([picture(45, 50)])["images"]
        found = Prepared(model, [picture(45, 50)]).input(0)
        assert found.dtype == expected.dtype and found.tobytes() == expected.tobytes()


def test_rows_may_lie_apart_and_pictures_of_one_size_share_a_batch(tmp_path):
    metadata = {"transforms": [NORMAL], "class_names": ["a"], "min_score": 0.0, "padded_to": 32}
    model, python = (
        exported(tmp_path, "detection", metadata, ("images", "sizes")),
        DetectionProcessor.from_metadata(metadata),
    )
    pixels = [picture(90, 120)[:, 10:50], picture(90, 40)]
    expected, found = python.prepare([np.ascontiguousarray(p) for p in pixels]), Prepared(model, pixels)
    assert found.input(0).tobytes() == expected["images"].tobytes() and found.input(0).shape == (2, 96, 64, 3)
    assert found.input(1).tolist() == expected["sizes"].tolist() == [[90, 40], [90, 40]]
    with pytest.raises(NativeError, match="picture 1 is 33x64 after its transforms, the first one 90x40"):
        Prepared(model, [pixels[0], picture(33, 64)])  # Python shows each alone


@pytest.mark.parametrize("name", ["linear", "ratio", "framed"])
def test_boxes_points_and_masks_go_back_as_in_python(name, tmp_path):
    metadata = {"transforms": [*STEPS[name], NORMAL], "class_names": ["a"], "min_score": 0.0}
    model, python = exported(tmp_path, "detection", metadata), DetectionProcessor.from_metadata(metadata)
    rng = np.random.default_rng(0)
    for height, width in ((50, 60), (33, 201), (120, 47)):
        pixels = [picture(height, width)]
        batch, prepared = python.prepare(pixels), Prepared(model, pixels)
        corners = np.sort(rng.uniform(-20, 110, (9, 2, 2)), axis=1).astype(np.float32).reshape(1, 9, 4)
        outputs = {"boxes": corners, "scores": np.ones((1, 9), np.float32), "classes": np.zeros((1, 9), np.int64)}
        outputs |= {"counts": np.array([9]), "masks": rng.random((1, 9, 14, 14), np.float32)}
        outputs["landmarks"] = rng.uniform(-20, 110, (1, 9, 5, 2)).astype(np.float32)
        (expected,) = found_on_originals(outputs, batch)
        boxes = prepared.boxes(0, corners[0])
        assert boxes.tobytes() == expected.boxes.array.astype(np.float32).tobytes()
        points = prepared.points(0, outputs["landmarks"][0].reshape(-1, 2)).reshape(9, 5, 2)
        assert points.tobytes() == np.ascontiguousarray(expected.keypoints[..., :2]).tobytes()
        masks = prepared.masks(0, outputs["masks"][0], boxes)
        assert np.array_equal(masks, expected.masks.bitmaps())
        assert masks.any() and not masks.all()


@pytest.mark.parametrize("name", ["linear", "ratio", "framed"])
def test_labels_go_back_to_the_pictures_own_pixels_as_in_python(name, tmp_path):
    metadata = {"transforms": [*STEPS[name], NORMAL], "class_names": ["a"], "palette": [[0, 0, 0]]}
    model, python = exported(tmp_path, "segmentation", metadata), SegmentationProcessor.from_metadata(metadata)
    for height, width in ((50, 60), (33, 201), (120, 47)):
        pixels = [picture(height, width)]
        batch, prepared = python.prepare(pixels), Prepared(model, pixels)
        labels = np.random.default_rng(0).integers(0, 9, batch["images"].shape[:3]).astype(np.uint8)
        (expected,) = python.results({"labels": labels}, batch)
        assert np.array_equal(prepared.labels(0, labels[0]), expected)


def people(crop, **more):
    """(model's metadata, Python's processor) of keypoints."""
    metadata = {"transforms": [{"type": "ObjectCrop", **crop}, NORMAL], **MORE["keypoints"], **more}
    return metadata, PoseProcessor.from_metadata(metadata)


@pytest.mark.parametrize("crop", [{"size": [64, 48]}, {"size": 33, "padding": 1.0}, {"size": [20, 200], "padding": 2}])
def test_objects_are_cropped_as_in_python_and_their_points_go_back(crop, tmp_path):
    metadata, python = people(crop)
    model, rng = exported(tmp_path, "keypoints", metadata), np.random.default_rng(0)
    for height, width in ((50, 60), (240, 131), (3, 400), (700, 900)):
        pixels = picture(height, width)
        boxes = np.sort(rng.uniform(-0.3, 1.3, (7, 2, 2)), axis=1).reshape(7, 4) * [width, height, width, height]
        boxes = np.vstack([boxes, [[5, 5, 5, 5], [0, 0, width, height], [1e6, 1e6, 2e6, 3e6]]]).astype(np.float32)
        batch = python.prepare([ObjectIn(pixels, tuple(box)) for box in boxes.tolist()])
        prepared = PreparedObjects(model, pixels, boxes)
        assert prepared.input(0).shape == batch["images"].shape and batch["images"].std() > 0
        assert prepared.input(0).tobytes() == batch["images"].tobytes()
        points = rng.uniform(-20, 220, (len(boxes), 5, 2)).astype(np.float32)
        for number, matrix in enumerate(batch["matrices"]):
            expected = back(points[number].astype(np.float64), matrix)
            assert prepared.points(number, points[number]).tobytes() == expected.astype(np.float32).tobytes()
    whole = Prepared(model, [pixels])
    assert whole.input(0).tobytes() == python.prepare([pixels])["images"].tobytes()


def test_heatmaps_become_the_points_that_python_finds(tmp_path):
    metadata, python = people({"size": [64, 48]}, pose={"names": ["a", "b", "c"]}, reader={"stride": 4, "sigma": 1.7})
    model, rng = exported(tmp_path, "keypoints", metadata), np.random.default_rng(0)
    pixels, boxes = picture(240, 131), np.array([[3, 4, 99, 180], [50, 9, 130, 239]], np.float32)
    batch = python.prepare([ObjectIn(pixels, tuple(box)) for box in boxes.tolist()])
    rows, columns = np.mgrid[:16, :12]
    centres = rng.uniform(0, [15, 11], (2, 3, 2))
    maps = rng.normal(0, 0.02, (2, 16, 12, 3)).astype(np.float32)
    for n, k in np.ndindex(2, 3):
        y, x = centres[n, k]
        maps[n, ..., k] += np.exp(-((rows - y) ** 2 + (columns - x) ** 2) / 5)
    prepared, (points, scores) = PreparedObjects(model, pixels, boxes), model.decode_heatmaps(maps)
    expected = python.results({"heatmaps": maps}, batch)
    for n, result in enumerate(expected):
        found = [[*place, score] for place, score in zip(prepared.points(n, points[n]), scores[n], strict=True)]
        for (x, y, s), told in zip(found, result["keypoints"].values(), strict=True):
            assert [round(float(s), 4)] == told[2:] and abs(x - told[0]) < 0.006 and abs(y - told[1]) < 0.006
    again, heights = decode_heatmaps(maps, 4, 1.7)
    assert points.tobytes() == again.tobytes() and scores.tobytes() == heights.tobytes()


def test_heatmaps_that_are_none_are_refused(tmp_path):
    model = exported(tmp_path / "k", "keypoints", people({"size": 9})[0])
    maps = np.zeros((1, 4, 4, 2), np.float32)
    for wrong, words in (
        (maps[0], r"heatmaps are \[4, 4, 2\]; expected \[N, H, W, L\]"),
        (maps.astype(np.float64), r"heatmaps are float64; expected float32"),
        (maps[:, :0], r"maps are 0x4 \(height x width\)"),
    ):
        with pytest.raises(NativeError, match=words):
            model.decode_heatmaps(wrong)
    assert [each.size for each in model.decode_heatmaps(maps[:0])] == [0, 0]
    for bad in ({"stride": 4}, {"stride": 4, "sigma": "2"}):
        other = exported(tmp_path / str(len(bad)), "keypoints", people({"size": 9})[0] | {"reader": bad})
        with pytest.raises(NativeError, match="states no sigma of heatmaps"):
            other.decode_heatmaps(maps)
    other = exported(tmp_path / "zero", "keypoints", people({"size": 9}, reader={"stride": 4, "sigma": -1})[0])
    with pytest.raises(NativeError, match="stride is 4 and sigma -1; both are above 0"):
        other.decode_heatmaps(maps)
    with pytest.raises(NativeError, match="the export states no stride of heatmaps"):
        exported(tmp_path / "d", "detection", one([NORMAL])).decode_heatmaps(maps)
    with pytest.raises(NativeError, match="heatmaps is a null pointer"):
        checked(C.paddock_decode_heatmaps(model.handle, None, None, None))


BAD_CROPS = {
    "behind a step that moves": (
        [{"type": "Resize", "size": 9}, {"type": "ObjectCrop", "size": 9}], "behind another step that moves pixels"
    ),
    "behind Normalize": ([NORMAL, {"type": "ObjectCrop", "size": 9}], "takes a picture of bytes"),
    "no padding": ([{"type": "ObjectCrop", "size": 9, "padding": 0}], "padding .* must be above 0"),
    "a text": ([{"type": "ObjectCrop", "size": 9, "padding": "1"}], "padding .* must be a number"),
    "a huge size": ([{"type": "ObjectCrop", "size": 60000}], "makes a picture of 60000x60000"),
    "drawn at random": ([{"type": "ObjectCrop", "size": 9, "degrees": 5}], "degrees .* must be 0 where nothing"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_CROPS)
def test_crops_that_are_none_are_refused(name, tmp_path):
    transforms, words = BAD_CROPS[name]
    model = exported(tmp_path, "keypoints", {"transforms": transforms, **MORE["keypoints"]})
    with pytest.raises(NativeError, match=words):
        PreparedObjects(model, picture(40, 30), np.array([[1, 2, 3, 4]]))


def test_boxes_that_are_none_are_refused(tmp_path):
    model = exported(tmp_path / "k", "keypoints", people({"size": 9})[0])
    for boxes, words in (
        ([[1, 2, 3, 4], [1, np.nan, 3, 4]], "box 1 has the coordinate nan; -1.67772e.07 to 1.67772e.07 are possible"),
        ([[1, 2, 3, 1e9]], "box 0 has the coordinate 1e.09"),
        (np.zeros((0, 4)), "count is 0; there must be a box"),
    ):
        with pytest.raises(NativeError, match=words):
            PreparedObjects(model, picture(40, 30), np.array(boxes))
    other = exported(tmp_path / "d", "detection", one([NORMAL]))
    with pytest.raises(NativeError, match="takes whole pictures; boxes of objects are for models of keypoints"):
        PreparedObjects(other, picture(40, 30), np.array([[1, 2, 3, 4]]))


def one(transforms, **more):
    return {"transforms": transforms, "class_names": ["a"], "min_score": 0.0, **more}


BAD = {
    "no transform": (one([{"type": "Sharpen"}]), "prepares pictures by Sharpen, which this library does not do"),
    "a name of none": (one([{}]), "a transform of the export has no type"),
    "no list": (one("Resize"), "are no list"),
    "no size": (one([{"type": "Resize"}]), "Resize: size of the export's transform must be a whole number"),
    "a size of 0": (one([{"type": "Resize", "size": 0}]), "must be a whole number from 1"),
    "a huge size": (one([{"type": "Resize", "size": 60000}]), "makes a picture of 60000x60000 .* 67108864 pixels"),
    "a text as size": (one([{"type": "Letterbox", "size": "9"}]), "Letterbox: size"),
    "three sizes": (one([{"type": "Resize", "size": [1, 2, 3]}]), "Resize: size"),
    "an unknown argument": (one([{"type": "Resize", "size": 4, "blur": 1}]), "does not know the argument 'blur'"),
    "random": (one([{"type": "Resize", "size": 4, "interp": "random"}]), "interp 'random' is not done here"),
    "a mean of two": (one([{"type": "Normalize", "mean": [1, 2]}]), "Normalize: mean .* must be 3 numbers"),
    "no number": (one([{"type": "Normalize", "mean": [1, 2, float("nan")]}]), "must be 3 numbers"),
    "a deviation of 0": (one([{"type": "Normalize", "std": [1, 0, 1]}]), "std .* must be above 0"),
    "twice normal": (one([NORMAL, NORMAL]), "takes a picture of bytes"),
    "stretched floats": (one([NORMAL, {"type": "Resize", "size": 9}]), "takes a picture of bytes"),
    "a large crop": (one([{"type": "CenterCrop", "size": 99}]), "smaller than the crop 99x99"),
    "a short side above": (one([{"type": "ResizeKeepRatio", "short": 9, "max_long": 8}]), "at most max_long"),
    "views": (one([NORMAL], views={"flip": True}), "prepares pictures with 'views'"),
    "a huge multiple": (one([{"type": "PadToMultiple", "multiple": 60000}]), "makes a picture of 60000x60000"),
    "padded to nothing": (one([NORMAL], padded_to=0), "padded_to of the export"),
    "padded to much": (one([NORMAL], padded_to=60000), "padded_to of the export makes pictures of 60000x60000"),
    "no processor": ({}, "states no preparation of pictures"),
}


@pytest.mark.parametrize("name", BAD)
def test_metadata_that_say_something_else_are_one_clear_error(name, tmp_path):
    metadata, words = BAD[name]
    model = exported(tmp_path, "detection", metadata)
    with pytest.raises(NativeError, match=words):
        Prepared(model, [picture(40, 30)])


def test_a_bad_picture_is_one_clear_error(tmp_path):
    model = exported(tmp_path, "detection", one([NORMAL]), ("images", "other"))
    pixels, made, size = picture(40, 30), c_void_p(), ctypes.sizeof(Picture)
    for fields, words in (
        ((size, 0, 30, 0, 90, pixels.ctypes.data), "picture 0 is 0x30"),
        ((size, 40, -1, 0, 90, pixels.ctypes.data), "picture 0 is 40x-1"),
        ((size, 1 << 20, 1 << 20, 0, 3 << 20, pixels.ctypes.data), "67108864 pixels are allowed"),
        ((size, 40, 30, 0, 89, pixels.ctypes.data), "its row_bytes are 89; a row has 90"),
        ((size, 40, 30, 0, 90, None), "picture 0 has no pixels"),
        ((8, 40, 30, 0, 90, pixels.ctypes.data), "struct_size is 8"),
    ):
        with pytest.raises(NativeError, match=words):
            checked(C.paddock_prepare(model.handle, byref(Picture(*fields)), 1, byref(made)))
    prepared = Prepared(model, [pixels])
    with pytest.raises(NativeError, match="pictures do not give the input 'other'"):
        prepared.input(1)
    with pytest.raises(NativeError, match="there is no input 2"):
        prepared.input(2)
    with pytest.raises(NativeError, match="there is no picture 1; there are 1"):
        prepared._sizes.append((1, 1))
        prepared.boxes(1, np.zeros((1, 4)))
    with pytest.raises(NativeError, match="picture 1 is 41x30 after its transforms, the first one 40x30"):
        Prepared(model, [pixels, picture(41, 30)])


def test_frames_of_a_clip_have_one_size(tmp_path):
    model = exported(tmp_path, "video", {"transforms": [NORMAL], "class_names": ["a"]}, ("clips",))
    with pytest.raises(NativeError, match="frame 1 of the clip has another size"):
        Prepared(model, [picture(40, 30), picture(41, 30)])


def test_the_limit_of_pixels_is_an_option(tmp_path):
    exported(tmp_path, "detection", one([NORMAL]))
    with pytest.raises(NativeError, match=r"1 to 1000 pixels are allowed \(option pixels\)"):
        Prepared(NativePredictor(tmp_path, pixels=1000), [picture(40, 30)])
