"""The native examples are built as a user builds them, against the installed package, and say what Python says."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import framework
import suites.classification.transforms
import suites.video.transforms  # noqa: F401  (both register transforms)
from framework import _core, nn, no_grad, ops, tensor
from framework.extend import include_dir, library_dir
from framework.graph.files import save_program
from framework.graph.passes import INFERENCE_PASSES
from framework.predictor import Predictor
from suites.classification.processor import ClassificationProcessor
from suites.detection.models.base import PostProcess
from suites.detection.models.rcnn import MaskRCNN
from suites.detection.processor import DetectionProcessor
from suites.engine.predict.inference import load
from suites.keypoints.decoding import Reader
from suites.keypoints.processor import ObjectIn, PoseProcessor
from suites.keypoints.transforms import ObjectCrop
from suites.nlp.models.heads import SequenceClassifier
from suites.nlp.problems.classification import Classification
from suites.nlp.processor import TextProcessor
from suites.nlp.sequences import Sequencer
from suites.nlp.tokenizers.wordpiece import BertTokenizer
from suites.segmentation.processor import SegmentationProcessor
from suites.video.models.tsn import TSN
from suites.video.processor import VideoProcessor
from suites.video.sampling import Segments
from suites.vision.augmentation.transforms import Letterbox, Normalize, Resize, ResizeKeepRatio
from suites.vision.backbones import ResNet
from suites.vision.pose import Pose
from suites.vision.recognition.transforms import CenterCrop, ResizeShort
from suites.vision.structures import Masks
from tests.suites.detection.models.test_rcnn import tiny as tiny_rcnn
from tests.suites.detection.models.test_yolov3 import tiny
from tests.suites.nlp.models.ragged import Batch
from tests.suites.nlp.models.test_bert import small
from tests.suites.segmentation.models.zoo import tiny as tiny_segmentation

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "native"


def run(*words, cwd=None, **more):
    done = subprocess.run([str(w) for w in words], cwd=cwd, capture_output=True, text=True, timeout=300, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def printed(option):
    """What `python -m framework.extend` says."""
    return run(sys.executable, "-m", "framework.extend", option, cwd=ROOT).strip()


def tool(name, reason):
    """A program of the machine or of this environment; skips with the reason where there is none."""
    found = shutil.which(name, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if found is None:
        pytest.skip(reason)
    return found


@pytest.fixture(scope="module")
def compiler():
    tool("c++", "no C++ compiler on this machine")
    return tool("cc", "no C++ compiler on this machine")


@pytest.fixture(scope="module")
def built(compiler, tmp_path_factory):
    """The folder of the programs, built by CMake in a folder outside of the tree."""
    cmake, folder = tool("cmake", "no CMake on this machine"), tmp_path_factory.mktemp("built")
    run(cmake, "-S", EXAMPLES, "-B", folder, f"-Dpaddock_DIR={printed('--cmake')}")
    run(cmake, "--build", folder)
    return folder


@pytest.fixture
def network(tmp_path):
    """An export with two inputs and two outputs of different types."""
    w = tensor(np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32))

    def function(x, ids):
        y = ops.gelu(ops.matmul(x, w))
        return y, ops.argmax(ops.embedding(y, ids), axis=1)

    arrays = [np.random.default_rng(1).standard_normal((5, 4)).astype(np.float32), np.array([3, 0, 4])]
    program = framework.program(function, pass_names=INFERENCE_PASSES).program_for(*map(tensor, arrays)).program
    save_program(program, tmp_path / "exported")
    return tmp_path / "exported", arrays


def test_a_c_program_of_pkg_configs_flags_gives_the_bits_of_python(compiler, network, tmp_path):
    tool("pkg-config", "no pkg-config on this machine")
    environment = os.environ | {"PKG_CONFIG_PATH": printed("--pkg-config")}
    flags = run("pkg-config", "--cflags", "--libs", "paddock", env=environment).split()
    strict = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"]
    run(compiler, *strict, EXAMPLES / "predict.c", "-o", tmp_path / "predict", *flags)
    assert_predicts(tmp_path / "predict", *network, tmp_path)


def test_a_c_program_built_by_cmake_gives_the_bits_of_python(built, network, tmp_path):
    assert_predicts(built / "predict", *network, tmp_path)


@pytest.fixture(scope="module")
def archive():
    """The static library; skips where it was not built."""
    found = library_dir() / "libpaddock.a"
    if not found.exists():
        pytest.skip("no GNU linker built libpaddock.a")
    return found


def assert_carries_all(program):
    needed = run(tool("readelf", "no C++ compiler on this machine"), "-d", program)
    assert "NEEDED" in needed and "paddock" not in needed


def test_a_program_that_carries_the_library_gives_the_bits_of_python(compiler, archive, network, tmp_path):
    """By pkg-config, somewhere where no library of ours lies; by the kernels of each set that this machine runs."""
    tool("pkg-config", "no pkg-config on this machine")
    environment = os.environ | {"PKG_CONFIG_PATH": printed("--pkg-config")}
    flags = run("pkg-config", "--cflags", "--libs", "paddock-static", env=environment).split()
    run(compiler, "-std=c99", EXAMPLES / "predict.c", "-o", tmp_path / "predict", *flags)
    assert_carries_all(tmp_path / "predict")
    assert_predicts(tmp_path / "predict", *network, tmp_path)
    (tmp_path / "sets.c").write_text("""
        #include <paddock.h>
        #include <stdio.h>
        int main(int argc, char** argv) {
          paddock_status status = paddock_set_instruction_set(argv[argc - 1]);
          puts(status ? paddock_last_error() : paddock_instruction_set());
          return status != PADDOCK_OK;
        }
    """)
    run(compiler, tmp_path / "sets.c", "-o", tmp_path / "sets", *flags)
    for name in _core.supported_isas():
        assert run(tmp_path / "sets", name, cwd=tmp_path, env={}).strip() == name
    done = subprocess.run([tmp_path / "sets", "sse9"], capture_output=True, text=True)
    assert done.returncode == 1 and f"this machine has {', '.join(_core.supported_isas())}" in done.stdout


def test_programs_in_cpp_carry_the_library_by_cmake(compiler, archive, tmp_path):
    """A detector in C++, whose own instances of templates of the C++ library stay apart from those in the archive."""
    cmake, folder = tool("cmake", "no CMake on this machine"), tmp_path / "b"
    options = [f"-Dpaddock_DIR={printed('--cmake')}", "-DPADDOCK_PART=static"]
    run(cmake, "-S", EXAMPLES, "-B", folder, *options)
    run(cmake, "--build", folder, "--target", "detect")
    assert_carries_all(folder / "detect")
    assert_finds(folder / "detect", TRANSFORMS["letterbox"], tmp_path)


def test_the_static_library_shows_the_c_interface_alone(archive):
    declared = set(re.findall(r"\b(paddock_\w+)\(", (include_dir() / "paddock.h").read_text()))
    shown = run(tool("nm", "no C++ compiler on this machine"), "-g", "--defined-only", archive)
    assert set(re.findall(r"^[0-9a-f]+ \w (\S+)$", shown, re.M)) == declared


def assert_predicts(program, exported, arrays, folder):
    files = [folder / f"input{i}.bin" for i in range(len(arrays))]
    for file, array in zip(files, arrays, strict=True):
        file.write_bytes(array.tobytes())
    # Neither the environment nor the folder says where kernels lie.
    told = run(program, exported, *files, cwd=folder, env={})
    expected = Predictor(exported).run(arrays)
    for i, array in enumerate(expected):
        assert (folder / f"output{i}.bin").read_bytes() == array.tobytes()
        assert f"output{i}.bin: {array.dtype} {list(array.shape)}" in told


def test_a_c_program_says_what_is_wrong(built, network, tmp_path):
    exported, _ = network
    (tmp_path / "short.bin").write_bytes(b"1234")
    for words, said in (
        ([tmp_path / "nowhere"], "nowhere/program.json: cannot be opened"),
        ([exported], "the model takes 2 inputs"),
        ([exported, tmp_path / "short.bin", tmp_path / "short.bin"], "has not the 80 bytes of input 'input0'"),
    ):
        done = subprocess.run([built / "predict", *words], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode != 0 and said in done.stderr


def test_a_part_of_the_package_that_there_is_not_is_refused_by_cmake(compiler, tmp_path):
    cmake = tool("cmake", "no CMake on this machine")
    text = "cmake_minimum_required(VERSION 3.20)\nproject(p C)\nfind_package(paddock 0.1 REQUIRED COMPONENTS {})\n"
    for part, status in (("predictor", 0), ("paddock", 0), ("training", 1)):
        (tmp_path / part).mkdir()
        (tmp_path / part / "CMakeLists.txt").write_text(text.format(part))
        words = [cmake, "-S", tmp_path / part, "-B", tmp_path / part / "b", f"-Dpaddock_DIR={printed('--cmake')}"]
        done = subprocess.run(words, capture_output=True, text=True)
        assert bool(done.returncode) == bool(status), done.stderr
    assert "paddock has no part 'training'" in done.stderr


PAGE = (ROOT / "docs" / "howto" / "native.md").read_text()
WARNINGS = ("-Wall", "-Werror")


@pytest.mark.parametrize("language, ending, standard", [("c", "c", "c99"), ("cpp", "cc", "c++17")])
def test_the_programs_of_the_page_run_and_give_the_scores_of_python(compiler, tmp_path, language, ending, standard):
    tool("pkg-config", "no pkg-config on this machine")
    (source,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)
    (tmp_path / f"hello.{ending}").write_text(source)
    weights = tensor(np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32))
    zeros = np.zeros((1, 96, 96, 3), np.float32)
    classifier = framework.program(lambda x: ops.matmul(ops.mean(ops.cos(x), axes=(1, 2)), weights))
    save_program(classifier.program_for(zeros).program, tmp_path / "exported")
    environment = os.environ | {"PKG_CONFIG_PATH": printed("--pkg-config")}
    flags = run("pkg-config", "--cflags", "--libs", "paddock", env=environment).split()
    made = compiler if language == "c" else shutil.which("c++")
    run(made, f"-std={standard}", *WARNINGS, f"hello.{ending}", "-o", "hello", *flags, cwd=tmp_path)
    (scores,) = Predictor(tmp_path / "exported").run([zeros])[0]
    assert run(tmp_path / "hello", cwd=tmp_path).split() == [f"{score:g}" for score in scores]
    (tmp_path / "exported" / "program.json").unlink()
    done = subprocess.run([tmp_path / "hello"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0 and "exported/program.json: cannot be opened" in done.stderr


def test_what_is_shipped_is_under_15_mb_and_shows_c_symbols_by_their_version():
    libraries = sorted(library_dir().glob("*.so"))
    assert {"libpaddock.so", "libpaddock_cpu_baseline.so"} <= {path.name for path in libraries}
    assert sum(path.stat().st_size for path in libraries) < 15 * 2**20
    declared = set(re.findall(r"\b(paddock_\w+)\(", (include_dir() / "paddock.h").read_text()))
    shown = run(tool("nm", "no C++ compiler on this machine"), "-D", "--defined-only", library_dir() / "libpaddock.so")
    assert len(declared) > 25
    assert set(re.findall(r"\b(paddock_\w+)@@PADDOCK_1$", shown, re.M)) == declared


TRANSFORMS = {
    "letterbox": [Letterbox(64), Normalize([0, 0, 0], [1, 1, 1])],
    "letterbox_at_the_corner": [Letterbox([64, 96], fill=(0.2, 0.4, 0.6), centred=False), Normalize()],
    "stretched": [Resize(96), Normalize()],
}


def export_of(folder, suite, processor, function, inputs, outputs=None):
    """The folder of a function of named inputs, with what the exporter stores beside it."""
    for name, value in inputs.items():
        value.name = name
    with no_grad():
        names = outputs or list(function(*inputs.values()))
        program = framework.program(function, pass_names=INFERENCE_PASSES).program_for(*inputs.values()).program
    save_program(program, folder, extra={"suite": suite, "outputs": names, "processor": processor.metadata()})
    return folder


def printed_rows(text, numbers):
    """Lines as a name and so many numbers."""
    return [(line.rsplit(" ", numbers)[0], *map(float, line.rsplit(" ", numbers)[1:])) for line in text.splitlines()]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_detector_finds_on_a_picture_what_python_finds(built, tmp_path, name):
    assert_finds(built / "detect", TRANSFORMS[name], tmp_path)


def assert_finds(program, transforms, tmp_path):
    processor = DetectionProcessor(transforms, ["ball", "läufer"], 0.0)
    model = tiny(postprocess=PostProcess(0.0, 50, 0.5, 20)).eval()
    pictures = [np.random.default_rng(k).integers(0, 256, (*size, 3), np.uint8) for k, size in enumerate(SIZES)]
    images = {"images": tensor(processor.prepare(pictures[:1])["images"])}
    exported = export_of(tmp_path / "e", "detection", processor, lambda x: model.detect(x).by_name(), images)
    expected, objects = load(exported), 0
    for pixels in pictures:
        write_ppm(tmp_path / "picture.ppm", pixels)
        rows = printed_rows(run(program, exported, tmp_path / "picture.ppm", env={}), 5)
        assert rows == [(r["class"], r["score"], *r["box"]) for r in expected(pixels)[0].value]
        objects += len(rows)
    assert objects > 10


def test_mask_rcnn_finds_on_a_picture_the_boxes_and_masks_that_python_finds(built, tmp_path):
    processor = DetectionProcessor([ResizeKeepRatio(64, 96), Normalize()], ["a", "b", "c"], 0.0, padded_to=32)
    model = tiny_rcnn(MaskRCNN).eval()
    pictures = [np.random.default_rng(k).integers(0, 256, (*size, 3), np.uint8) for k, size in enumerate(SIZES)]
    batch = processor.prepare(pictures[:1])
    inputs = {name: tensor(batch[name]) for name in ("images", "sizes")}
    exported = export_of(tmp_path / "e", "detection", processor, lambda *x: model.detect(*x).by_name(), inputs)
    expected, pixels_of_masks = load(exported), 0
    for pixels in pictures:
        write_ppm(tmp_path / "picture.ppm", pixels)
        rows = printed_rows(run(built / "detect", exported, tmp_path / "picture.ppm"), 6)
        found = expected(pixels)[0].value
        masks = Masks(tuple(r["mask"] for r in found), pixels.shape[:2])
        areas = masks.bitmaps().sum(axis=(1, 2)) if found else []
        assert rows == [(r["class"], r["score"], *r["box"], n) for r, n in zip(found, areas, strict=True)]
        pixels_of_masks += sum(areas)
    assert pixels_of_masks > 100


def test_deeplab_labels_the_pixels_of_a_picture_as_python_does(built, tmp_path):
    names = ["sky", "weg", "c", "d", "e"]
    processor = SegmentationProcessor([ResizeKeepRatio(48, 90), Normalize()], names, [[0, 0, 0]] * 5)
    net = tiny_segmentation("deeplab_mobilenetv2").eval()
    pictures = [np.random.default_rng(k).integers(0, 256, (*size, 3), np.uint8) for k, size in enumerate(SIZES)]

    def labels(x):
        return {"labels": ops.cast(ops.argmax(net(x), axis=-1), dtype="uint8")}

    images = {"images": tensor(processor.prepare(pictures[:1])["images"])}
    exported = export_of(tmp_path / "e", "segmentation", processor, labels, images)
    expected, seen = load(exported), set()
    for pixels in pictures:
        write_ppm(tmp_path / "picture.ppm", pixels)
        told = printed_rows(run(built / "segment", exported, tmp_path / "picture.ppm", tmp_path / "out.pgm"), 1)
        found = expected(pixels)[0].value
        header = b"P5\n%d %d\n255\n" % pixels.shape[1::-1]
        assert (tmp_path / "out.pgm").read_bytes() == header + found.tobytes()
        shares = {names[k]: float(f"{(found == k).mean():.5f}") for k in range(5) if (found == k).any()}
        assert dict(told) == shares
        seen |= set(shares)
    assert len(seen) > 1


def test_tsn_says_what_a_clip_shows_as_python_does(built, tmp_path):
    processor = VideoProcessor([ResizeShort(36), CenterCrop(32), Normalize()], list("abcdefg"), (3, 1, 1, 1))
    net = TSN(ResNet(18, width=4, out_strides=(32,)), num_classes=7)
    nn.init.initialize(net, 0)
    net.eval()
    rng = np.random.default_rng(0)
    clip = [rng.integers(0, 256, (50, 70, 3), np.uint8) for _ in range(11)]
    chosen = [clip[k] for k in Segments(3, 1, 1, 1).frames(11)]
    clips = {"clips": tensor(processor.prepare([np.stack(chosen)])["clips"])}
    exported = export_of(
        tmp_path / "e", "video", processor, lambda x: {"scores": ops.softmax(net(x) * 9.0, axis=-1)}, clips
    )
    files = [tmp_path / f"{k}.ppm" for k in range(11)]
    for file, frame in zip(files, clip, strict=True):
        write_ppm(file, frame)
    (expected,) = load(exported)([np.stack(chosen)])
    found = printed_rows(run(built / "recognise", exported, *files), 1)
    assert found == [(row["class"], row["score"]) for row in expected.value] and len(found) == 5


def test_a_classifier_says_what_a_picture_shows_as_python_does(built, tmp_path):
    processor = ClassificationProcessor([ResizeShort(36), CenterCrop(32), Normalize()], ["a", "b", "c"])
    net = nn.Linear(3, 3)
    nn.init.initialize(net, 0)
    pixels = np.random.default_rng(0).integers(0, 256, (90, 70, 3), np.uint8)
    images = {"images": tensor(processor.prepare([pixels])["images"])}
    exported = export_of(
        tmp_path / "e", "classification", processor,
        lambda x: {"scores": ops.softmax(net(ops.mean(x * x, axes=(1, 2))), axis=-1)}, images,
    )  # fmt: skip
    write_ppm(tmp_path / "a.ppm", pixels)
    (expected,) = load(exported)([pixels])
    found = printed_rows(run(built / "recognise", exported, tmp_path / "a.ppm"), 1)
    assert found == [(row["class"], row["score"]) for row in expected.value] and len(found) == 3


SIZES = ((60, 50), (64, 64), (128, 128), (33, 200), (7, 5), (301, 97))  # of pictures


@pytest.mark.parametrize("kind", ["heatmaps", "points"])
def test_keypoints_of_a_picture_are_those_of_python(built, tmp_path, kind):
    names = ["nose", "linkes Auge", "c"]
    reader = Reader(4, 2.0)
    processor = PoseProcessor([ObjectCrop([64, 48]), Normalize()], ["person"], Pose(tuple(names)), reader)
    kernel = tensor(np.random.default_rng(0).standard_normal((3, 4, 4, 3)).astype(np.float32))

    def answer(x):
        maps = ops.conv2d(x, kernel, stride=4)
        return {"heatmaps": maps} if kind == "heatmaps" else {"points": ops.mean(ops.abs(maps), axes=(2,))[:, :3]}

    pictures = [np.random.default_rng(k).integers(0, 256, (*size, 3), np.uint8) for k, size in enumerate(SIZES)]
    images = {"images": tensor(processor.prepare(pictures[:1])["images"])}
    exported = export_of(tmp_path / "e", "keypoints", processor, answer, images)
    expected = load(exported)
    for pixels in pictures:
        write_ppm(tmp_path / "picture.ppm", pixels)
        height, width = pixels.shape[:2]
        for box in ([], [1.5, 0.25, width * 0.75, height - 1.0]):
            item = ObjectIn(pixels, tuple(box)) if box else pixels
            points = expected([item])[0].value["keypoints"]
            rows = printed_rows(run(built / "pose", exported, tmp_path / "picture.ppm", *box), 3)
            assert [name for name, *_ in rows] == names
            # Printed from float32 with two digits, and Python's from float64: half a hundredth each.
            np.testing.assert_allclose([row[1:] for row in rows], [points[name] for name in names], atol=0.0101)


PIECES = [
    "[PAD]",
    "",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "film",
    "##s",
    "un",
    "##want",
    "##ed",
    "want",
    "!",
    ",",
]
PIECES += [
    "，",
    "。",
    "北",
    "京",
    "一",
    "##二",
    "2",
    "##0",
    "##24",
    "a",
    "b",
    "c",
    "##b",
    "##c",
    "'",
    "[",
    "]",
    "𠀀",
    "cafe",
]
TEXTS = [
    "The films, unwanted!", "unwantedly the film", "", "   ", "北京，2024。", "the\tfilm\n2 0", "a'b[c] [MASK]x[SEP]",
    "abc" * 40, "ab" * 33, "the " * 50, "一二", "𠀀a", "film\x07s \x7f!", "[cls] [CLS]", "bcbc cbcb",
    "Café", "caf\u00c9 \u0301 ß", "\u3000北\xad京",
]  # fmt: skip


@pytest.mark.parametrize("lower_case, chinese", [(True, True), (False, True), (True, False)])
def test_a_classifier_cuts_texts_and_scores_them_as_python_does(built, tmp_path, lower_case, chinese):
    tokenizer = BertTokenizer(PIECES, lower_case, chinese_characters=chinese)
    processor = TextProcessor(Classification(), Sequencer(tokenizer, max_length=20), ["gut", "böse", "neither"])
    model = SequenceClassifier(small(), 3).eval()
    nn.init.initialize(model, seed=0)
    traced = Batch([4, 9], words=len(PIECES))
    for name in ("ids", "offsets", "segment_ids"):
        getattr(traced, name).name = name
    with no_grad():
        program = framework.program(
            lambda ids, offsets, segments: ops.softmax(model(ids, offsets, segment_ids=segments) * 40.0, axis=-1),
            pass_names=INFERENCE_PASSES,
        ).program_for(traced.ids, traced.offsets, traced.segment_ids)
    extra = {"suite": "nlp", "outputs": ["scores"], "processor": processor.metadata()}
    save_program(program.program, tmp_path / "exported", extra=extra)
    lines = run(built / "classify", tmp_path / "exported", *TEXTS).splitlines()
    opened = load(tmp_path / "exported")
    expected = [answer.value for answer in opened([processor.from_json(text) for text in TEXTS])]
    told = [lines[i : i + 4] for i in range(0, len(lines), 4)]
    assert [best for best, *_ in told] == [answer["class"] for answer in expected]
    for (_, *rows), answer in zip(told, expected, strict=True):
        assert {row.split()[0]: float(row.split()[1]) for row in rows} == answer["scores"]
    assert len({tuple(rows) for _, *rows in told}) > 10  # texts differ in their scores


def write_ppm(file, pixels):
    file.write_bytes(b"P6\n# by a test\n%d %d\n255\n" % pixels.shape[1::-1] + pixels.tobytes())


@pytest.mark.parametrize(
    "data, said",
    [
        (b"P5\n2 2\n255\n1234", "is no binary PPM"),
        (b"P6\n2 2\n65535\n" + bytes(24), "its header states no picture"),
        (b"P6\n99999999 99999999\n255\n", "its header states no picture"),
        (b"P6\n2 2\n255\n123", "is cut off"),
    ],
)
def test_a_picture_that_is_none_is_refused(built, tmp_path, data, said):
    model = nn.Linear(3, 3)
    program = framework.program(lambda x: model(x)).program_for(np.ones((1, 3), np.float32)).program
    save_program(program, tmp_path, extra={"suite": "detection", "processor": json.loads("{}")})
    (tmp_path / "a.ppm").write_bytes(data)
    done = subprocess.run([built / "detect", tmp_path, tmp_path / "a.ppm"], capture_output=True, text=True)
    assert done.returncode == 1 and said in done.stderr
