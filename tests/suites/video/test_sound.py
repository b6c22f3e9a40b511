"""Log-mel spectra equal their formula computed another way, at the times of frames; sequences learn from both."""

import numpy as np
import pytest

from suites.engine.train.training import evaluate_weights, train
from suites.video.cli.features import main
from suites.video.features import FeatureStore
from suites.video.features.clips import Clips, evenly
from suites.video.features.sound import COLUMNS, PATCH, RATE, heard, log_mel, mel_weights, rows_at, sound_of
from suites.vision.videos.reading import opened_video
from tests.suites.video.helpers import grey, write_frame_folders, write_video
from tests.suites.video.test_task import CONFIG

RNG = np.random.default_rng(0)
SILENCE = np.log(0.01)


def tone(hertz, seconds, loud=0.5):
    return (loud * np.sin(2 * np.pi * hertz * np.arange(int(RATE * seconds)) / RATE)).astype(np.float32)


def by_definition(samples):
    """Sums in float64, frequency by frequency and band by band, with mel in base 10 (2595 lg(1 + f/700))."""
    windows = [samples[at : at + 400].astype(np.float64) for at in range(0, len(samples) - 399, 160)]
    hann = 0.5 * (1 - np.cos(2 * np.pi * np.arange(400) / 400))
    turns = np.exp(-2j * np.pi * np.outer(np.arange(257), np.arange(400)) / 512)
    magnitudes = np.array([np.abs(turns @ (hann * window)) for window in windows])
    scale = 1127 * np.log(10) / 2595  # the usual two roundings of mel differ by so much
    mel = [2595 * np.log10(1 + k * 16000 / 512 / 700) * scale for k in range(257)]
    ends = [2595 * np.log10(1 + f / 700) * scale for f in (125, 7500)]
    step = (ends[1] - ends[0]) / 65
    bands = np.zeros((257, 64))
    for band in range(64):
        middle = ends[0] + (band + 1) * step
        for k in range(1, 257):
            bands[k, band] = max(0.0, 1 - abs(mel[k] - middle) / step)
    return np.log(magnitudes @ bands + 0.01)


def test_spectra_equal_their_definition():
    samples = RNG.standard_normal(RATE // 4).astype(np.float32)
    found = log_mel(samples)
    assert found.shape == (1 + (4000 - 400) // 160, 64) and found.dtype == np.float32
    # float32 sums of some 30 magnitudes below 100, then a logarithm of numbers near 10.
    np.testing.assert_allclose(found, by_definition(samples), atol=1e-4)


def test_a_long_sound_is_computed_in_parts(monkeypatch):
    import suites.video.features.sound as sound

    samples = RNG.standard_normal(4000).astype(np.float32)
    whole = log_mel(samples)
    monkeypatch.setattr(sound, "_TOGETHER", 5)
    # BLAS sums the 257 products of a band in an order that may depend on the number of rows; none is below 0.
    np.testing.assert_allclose(log_mel(samples), whole, rtol=2**-23, atol=2 * 257 * 2**-24)
    assert log_mel(samples[:399]).shape == (0, 64) and log_mel(samples[:400]).shape == (1, 64)


@pytest.mark.parametrize("hertz", [300, 1000, 4000])
def test_a_tone_is_loudest_in_its_band(hertz):
    band = int(log_mel(tone(hertz, 0.2)).mean(axis=0).argmax())
    centre = np.linspace(*(1127 * np.log1p(np.array([125, 7500]) / 700)), 66)[band + 1]
    assert abs(1127 * np.log1p(hertz / 700) - centre) < 40  # a band is 40 mel wide
    assert mel_weights()[0].max() == 0


def test_rows_are_the_spectra_around_each_time():
    spectra = RNG.standard_normal((300, 64)).astype(np.float32)
    seconds = np.array([1.5, 0.0, 99.0])
    patches = rows_at(spectra, seconds, "patches").reshape(3, PATCH, 64)
    first = round((1.5 * RATE - 200) / 160) - 48
    np.testing.assert_array_equal(patches[0], spectra[first : first + 96])
    np.testing.assert_allclose(patches[1, :40], SILENCE)  # before the begin
    np.testing.assert_allclose(patches[2], SILENCE)  # behind the end
    summary = rows_at(spectra, seconds, "summary")
    np.testing.assert_allclose(summary[0, :64], patches[0].mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(summary[0, 64:], patches[0].std(axis=0), atol=1e-5)
    assert summary.shape[1] == COLUMNS["summary"] and patches[0].size == COLUMNS["patches"]


def test_sound_of_a_file_is_where_its_frames_are(tmp_path):
    """Two seconds of silence, then two of a tone; 40 frames at 10 a second."""
    sound = np.concatenate([np.zeros(2 * RATE, np.float32), tone(1000, 2)])
    path = write_video(tmp_path / "a.mp4", grey(np.arange(40) * 5), sound=sound)
    with opened_video(path) as video:
        samples = sound_of(video)
    assert abs(len(samples) - 4 * RATE) < 2100  # AAC pads to whole blocks of 1,024
    assert np.abs(samples[: int(1.8 * RATE)]).max() < 0.05
    assert np.abs(samples[int(2.3 * RATE) : int(3.7 * RATE)]).max() == pytest.approx(0.5, abs=0.1)
    rows, has_sound = heard(path, lambda total: np.array([10, 30]), "summary", "a.mp4")
    band = int(log_mel(tone(1000, 0.2)).mean(axis=0).argmax())
    assert has_sound and rows[0, band] < SILENCE + 1 and rows[1, band] > SILENCE + 4


def test_clips_without_sound_are_silent(tmp_path):
    write_video(tmp_path / "mute.mp4", grey(np.arange(8) * 20))
    rows, has_sound = Clips(tmp_path).sound("mute.mp4", 4, "summary")
    assert not has_sound and rows.shape == (4, 128)
    np.testing.assert_allclose(rows[:, :64], SILENCE, atol=1e-4)  # means of 96 float32 numbers
    np.testing.assert_allclose(rows[:, 64:], 0, atol=1e-4)
    folder = write_frame_folders(tmp_path / "set", per_class=1)
    rows, has_sound = Clips(folder).sound("left/00", 4, "patches")
    assert not has_sound and rows.shape == (4, COLUMNS["patches"]) and len(evenly(8, 4)) == 4


NEXTVLAD = """
suite: video
model: {type: MODEL, modalities: {rgb: 32, audio: 128}, num_classes: 2}
data:
  num_classes: 2
  train:
    dataset: {type: ClipFeatures, features: FEATS, root: CLIPS, annotations: all.txt}
    transforms: []
    batch_size: 6
  eval:
    dataset: {type: ClipFeatures, features: FEATS, root: CLIPS, annotations: all.txt}
    transforms: []
    batch_size: 6
optimizer: {type: AdamW}
schedule: {type: Cosine, base_lr: 1e-3}
runtime: {steps: 30, workers: 0, evaluation: {every: 0, pictures: 0}}
"""


def test_sequence_models_learn_from_frames_and_sound(tmp_path, capsys):
    """Clips that look alike and sound differently are told apart, from files to figures."""
    config = tmp_path / "tiny.yml"
    config.write_text(CONFIG.replace("ROOT", str(write_frame_folders(tmp_path / "set"))))
    train(config, ["runtime.steps=1"], runs=tmp_path, name="tsn")
    clips = tmp_path / "clips"
    for i in range(6):
        write_video(clips / f"{i}.mp4", grey(np.full(20, 100)), sound=tone(300 if i % 2 else 3000, 2, 0.3 + 0.1 * i))
    (clips / "all.txt").write_text("".join(f"{i}.mp4 {i % 2}\n" for i in range(6)))
    words = [str(tmp_path / "tsn"), str(clips), "--frames", "4", "--output"]
    assert main([*words, str(tmp_path / "feats"), "--sound"]) == 0
    store = FeatureStore(tmp_path / "feats")
    assert store.modalities == {"rgb": 32, "audio": 128} and store.made_by["sound"] == "summary"
    assert store.load(0)["audio"].shape == (4, 128)
    text = NEXTVLAD.replace("FEATS", str(tmp_path / "feats")).replace("CLIPS", str(clips))
    model = "AttentionCluster"
    (tmp_path / "both.yml").write_text(text.replace("MODEL", model))
    train(tmp_path / "both.yml", runs=tmp_path, name=model)
    assert evaluate_weights(tmp_path / model)["top1"] == 1.0
    assert main([*words, str(tmp_path / "feats"), "--sound", "patches"]) == 2  # another origin
    assert "features of another origin" in capsys.readouterr().err
