"""Features of videos: files that survive a kill, a folder of clips to a served sequence model, and what is refused."""

import json

import numpy as np
import pytest

from framework.errors import DataError
from suites.engine.data.sources import open_source
from suites.engine.predict.inference import export_run, infer_files, open_model
from suites.engine.train.training import evaluate_weights, train
from suites.video.cli.features import main
from suites.video.datasets import ClipFeatures
from suites.video.features import FeatureStore, FeatureWriter
from suites.video.features.clips import Clips, evenly, read_clip_list
from suites.video.sequence_processor import SequenceProcessor
from suites.video.sequences import FeatureSequence, SampleRows, collate_sequences
from tests.suites.video.helpers import video, write_frame_folders, write_video
from tests.suites.video.test_task import CONFIG

RNG = np.random.default_rng(0)
SIZES = {"rgb": 3, "audio": 2}


def rows(count, sizes=SIZES):
    return {name: RNG.integers(0, 9, (count, size)).astype(np.float32) for name, size in sizes.items()}


def write(root, clips):
    with FeatureWriter(root, SIZES, {"network": "x"}) as writer:
        for name, features in clips.items():
            writer.add(name, features)


def test_features_come_back_as_they_were_written(tmp_path):
    clips = {"a/b c.mp4": rows(3), "d": rows(1), "é": rows(7)}
    write(tmp_path, clips)
    store = FeatureStore(tmp_path)
    assert store.names == tuple(clips) and store.modalities == SIZES and store.made_by == {"network": "x"}
    for i, (name, features) in enumerate(clips.items()):
        assert store.index_of(name) == i
        for modality, values in store.load(i).items():
            np.testing.assert_array_equal(values, features[modality])


def test_a_killed_writer_goes_on_where_it_stopped(tmp_path):
    first, second, third = rows(3), rows(2), rows(4)
    write(tmp_path, {"first": first, "second": second})
    lines = (tmp_path / "clips.jsonl").read_bytes()
    (tmp_path / "clips.jsonl").write_bytes(lines[:-5])  # killed while the second clip's line was written
    with FeatureWriter(tmp_path, SIZES, {"network": "x"}) as writer:
        assert writer.names == ["first"]
        writer.add("third", third)
    store = FeatureStore(tmp_path)
    assert store.names == ("first", "third")
    np.testing.assert_array_equal(store.load(1)["audio"], third["audio"])


def test_a_folder_of_other_features_is_not_gone_on_with(tmp_path):
    write(tmp_path, {"a": rows(1)})
    with pytest.raises(DataError, match="features of another origin"):
        FeatureWriter(tmp_path, SIZES, {"network": "y"})
    with pytest.raises(DataError, match="features of another origin"):
        FeatureWriter(tmp_path, {"rgb": 4}, {"network": "x"})


@pytest.mark.parametrize(
    ("features", "match"),
    [
        ({"rgb": np.zeros((2, 3)), "audio": np.zeros((3, 2))}, "shapes are .* they must be"),
        ({"rgb": np.zeros((2, 4)), "audio": np.zeros((2, 2))}, "shapes are"),
        ({"rgb": np.full((2, 3), np.nan), "audio": np.zeros((2, 2))}, "not finite, or too large"),
        ({"rgb": np.full((2, 3), 1e6), "audio": np.zeros((2, 2))}, "not finite, or too large"),
    ],
)
def test_features_that_do_not_fit_are_refused_before_anything_is_written(tmp_path, features, match):
    with FeatureWriter(tmp_path, SIZES, {}) as writer, np.errstate(over="ignore"):
        with pytest.raises(DataError, match=match):
            writer.add("a", features)
        writer.add("b", rows(2))
    assert FeatureStore(tmp_path).names == ("b",)


def test_damaged_files_are_named(tmp_path):
    with pytest.raises(DataError, match=r"there is no features\.json in it"):
        FeatureStore(tmp_path)
    write(tmp_path, {"a": rows(3)})
    (tmp_path / "rgb.f16").write_bytes(b"")
    with pytest.raises(DataError, match=r"rgb\.f16: has 0 of 18 bytes"):
        FeatureStore(tmp_path)
    for text in ('{"name": 1, "rows": 2}\n', '{"name": "a", "rows": -2}\n', "[]\n", "\n"):
        (tmp_path / "clips.jsonl").write_text(text)
        with pytest.raises(DataError, match=r"clips\.jsonl:1: is no line of a clip"):
            FeatureStore(tmp_path)
    for head in ("{", "[]", '{"format": 2}', '{"format": 1, "modalities": {"../x": 3}, "made_by": {}}'):
        (tmp_path / "features.json").write_text(head)
        with pytest.raises(DataError, match="is not what `paddock features` writes"):
            FeatureStore(tmp_path)


def test_frames_are_the_middles_of_equal_parts_and_all_of_a_short_clip():
    assert evenly(10, 5).tolist() == [1, 3, 5, 7, 9]
    assert evenly(3, 16).tolist() == [0, 1, 2]


def test_a_list_has_paths_with_labels_and_perhaps_counts(tmp_path):
    (tmp_path / "list.txt").write_text("a b/c.mp4 1\nframes 12 0\n\nplain 3\n")
    found = read_clip_list(open_source(str(tmp_path)), "list.txt")
    assert found == [["a b/c.mp4", "1"], ["frames", "0"], ["plain", "3"]]
    (tmp_path / "list.txt").write_text("a.mp4 x\n")
    with pytest.raises(DataError, match=r"list\.txt:1: expects 'path label'"):
        read_clip_list(open_source(str(tmp_path)), "list.txt")


def test_clips_are_videos_and_folders_of_frames(tmp_path):
    write_frame_folders(tmp_path / "set", per_class=1)
    write_video(tmp_path / "set" / "films" / "x.mp4", video("left", 6))
    clips = Clips(tmp_path / "set")
    assert clips.names == ["down/00", "films/x.mp4", "left/00", "right/00"]
    assert clips.frames("left/00", 3).shape == (3, 32, 48, 3)
    assert clips.frames("films/x.mp4", 16).shape == (6, 32, 48, 3)
    with pytest.raises(DataError, match="no such clip"):
        clips.frames("nothing", 3)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no videos .* below"):
        Clips(tmp_path / "empty")


def test_rows_are_chosen_evenly_or_one_of_each_part():
    sample = FeatureSequence(features={"rgb": np.arange(10, dtype=np.float32)[:, None]})
    rng = np.random.default_rng(0)
    assert SampleRows(5)(sample, rng).features["rgb"].ravel().tolist() == [1, 3, 5, 7, 9]
    drawn = SampleRows(5, random=True)(sample, rng).features["rgb"].ravel()
    assert (drawn // 2).tolist() == [0, 1, 2, 3, 4]
    assert SampleRows(10)(sample, rng) is sample


def test_a_batch_lays_sequences_end_to_end():
    samples = [FeatureSequence(features=rows(n), labels=np.array([n]), name=f"{n}") for n in (2, 1)]
    batch = collate_sequences(samples, 3)
    assert batch["offsets"].tolist() == [0, 2, 3] and batch["rgb"].shape == (3, 3) and batch["name"] == ["2", "1"]
    assert batch["targets"].tolist() == [[0, 0, 1], [0, 1, 0]]
    other = FeatureSequence(features={"rgb": np.zeros((1, 4), np.float32)}, name="odd")
    with pytest.raises(DataError, match="odd has features"):
        collate_sequences([*samples, other], 3)


SEQUENCES = """
suite: video
model: {type: AttentionCluster, modalities: {rgb: COLUMNS}, num_classes: 3, units: 2, widths: [8, 8], dropout: 0.0}
data:
  num_classes: 3
  train:
    dataset: {type: ClipFeatures, features: FEATURES, root: ROOT, annotations: train.txt, classes: classes.txt}
    transforms: [{type: SampleRows, count: 3, random: true}]
    batch_size: 6
  eval:
    dataset: {type: ClipFeatures, features: FEATURES, root: ROOT, annotations: val.txt, classes: classes.txt}
    transforms: []
    batch_size: 4
optimizer: {type: AdamW}
schedule: {type: Cosine, base_lr: 0.01}
runtime: {steps: 60, workers: 0, evaluation: {every: 0, pictures: 2}}
"""


def test_a_folder_of_clips_becomes_a_model_of_sequences_that_is_exported_and_predicts(tmp_path, capsys):
    clips = write_frame_folders(tmp_path / "set")
    (tmp_path / "tsn.yml").write_text(CONFIG.replace("ROOT", str(clips)))
    train(tmp_path / "tsn.yml", runs=tmp_path, name="tsn")
    words = [str(tmp_path / "tsn"), str(clips), "--output", str(tmp_path / "feats"), "--frames", "4"]
    assert main([*words, "--lists", "train.txt"]) == 0
    assert main([*words, "--lists", "train.txt", "val.txt"]) == 0  # goes on
    assert "18 clips" in capsys.readouterr().out
    columns = FeatureStore(tmp_path / "feats").modalities["rgb"]
    text = SEQUENCES.replace("ROOT", str(clips)).replace("FEATURES", str(tmp_path / "feats"))
    (tmp_path / "seq.yml").write_text(text.replace("COLUMNS", str(columns)))
    train(tmp_path / "seq.yml", runs=tmp_path, name="seq")
    assert evaluate_weights(tmp_path / "seq")["top1"] == 1.0
    assert "rows: " in (tmp_path / "seq" / "pictures" / "examples.txt").read_text()
    export_run(tmp_path / "seq", tmp_path / "exported")
    done = infer_files(open_model(tmp_path / "exported"), [tmp_path / "feats"], tmp_path / "found")
    assert not done.skipped
    assert len(json.loads((tmp_path / "found" / "predictions.json").read_text())) == 18
    model = open_model(tmp_path / "exported")
    value = {"rgb": FeatureStore(tmp_path / "feats").load(0)["rgb"].tolist()}
    assert model.processor.from_json(value)["rgb"].shape == (4, columns)


def test_clips_without_features_are_named(tmp_path):
    clips = write_frame_folders(tmp_path / "set", per_class=3)
    write(tmp_path / "feats", {"left/00": rows(2)})
    with pytest.raises(DataError, match=r"train\.txt:2: left/01 has no features in .*; so are 4 others of 6 lines"):
        ClipFeatures(str(tmp_path / "feats"), str(clips), "train.txt")


def test_a_broken_clip_is_named_and_the_others_are_written(tmp_path, capsys):
    clips = write_frame_folders(tmp_path / "set")
    (tmp_path / "tsn.yml").write_text(CONFIG.replace("ROOT", str(clips)).replace("steps: 60", "steps: 1"))
    train(tmp_path / "tsn.yml", runs=tmp_path, name="tsn")
    (clips / "left" / "00" / "00.png").write_bytes(b"no picture")
    words = [str(tmp_path / "tsn"), str(clips), "--output", str(tmp_path / "feats"), "--frames", "8"]
    assert main(words) == 1
    said = capsys.readouterr()
    assert "17 clips" in said.out and "left out" in said.err and "left/00" in said.err


def test_a_network_without_features_of_frames_is_refused(tmp_path, capsys):
    clips = write_frame_folders(tmp_path / "set")
    text = CONFIG.replace("ROOT", str(clips)).replace("steps: 60", "steps: 1")
    text = text.replace("type: TSN", "type: I3D").replace(
        "backbone: {type: ResNet, depth: 18, width: 8, out_strides: [16]}", "width: 4"
    )
    (tmp_path / "i3d.yml").write_text(text)
    train(tmp_path / "i3d.yml", runs=tmp_path, name="i3d")
    assert main([str(tmp_path / "i3d"), str(clips), "--output", str(tmp_path / "feats")]) == 2
    assert "I3D has no features of frames" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ([], "takes an object with the lists of rows rgb, audio"),
        ({"rgb": [[1, 2, 3]]}, "takes an object"),
        ({"rgb": [[1, 2]], "audio": [[1, 2]]}, "rgb: takes one or more rows of 3 finite numbers"),
        ({"rgb": [[1, 2, "x"]], "audio": [[1, 2]]}, "rgb: takes"),
        ({"rgb": [[1, 2, float("nan")]], "audio": [[1, 2]]}, "rgb: takes"),
        ({"rgb": [[1, 2, 3]] * 2, "audio": [[1, 2]]}, "as many rows of each"),
    ],
)
def test_a_request_that_is_no_sequence_is_refused(value, match):
    with pytest.raises(DataError, match=match):
        SequenceProcessor([], ("a", "b"), SIZES).from_json(value)


def test_a_processor_comes_back_from_its_metadata():
    processor = SequenceProcessor([SampleRows(3)], ("a", "b"), SIZES)
    again = SequenceProcessor.from_metadata(json.loads(json.dumps(processor.metadata())))
    assert again.metadata() == processor.metadata()
    batch = again.prepare([again.from_json(again.example()), rows(9)])
    assert batch["offsets"].tolist() == [0, 2, 5]
