"""Only the wanted frames of a video are decoded, at their times and upright; what is damaged is named."""

import cv2
import numpy as np
import pytest

from framework import limits
from framework.errors import AttributeValueError, DataError
from suites.video.reading import VideoReader, _is_spare, decode, read_video
from suites.video.sampling import Segments
from suites.video.timeline import Timeline
from suites.vision.videos.reading import frames_of, opened_video
from tests.suites.video.helpers import grey, levels_of, packets_of, video, write_video

LEVELS = np.arange(20, 20 + 8 * 24, 8)  # of 24 frames: 8 apart, so that no two are taken for each other

KINDS = [
    *(("a.mp4", "libx264"), ("a.mkv", "libx264"), ("a.avi", "libx264"), ("a.avi", "mpeg4"), ("a.avi", "mjpeg")),
    *(("a.webm", "libvpx-vp9"), ("a.mov", "libx265")),
]


def everything(total):
    return np.arange(total)


@pytest.fixture
def clip(tmp_path):
    return write_video(tmp_path / "clip.mp4", grey(LEVELS))


@pytest.mark.parametrize(("name", "codec"), KINDS)
@pytest.mark.parametrize("wanted", [[0], [23], [0, 23], [5, 6, 7], [3, 3, 20], [11, 2, 11], list(range(24))])
def test_wanted_frames_of_every_kind_of_file(tmp_path, name, codec, wanted):
    path = write_video(tmp_path / name, grey(LEVELS), codec)
    found = read_video(path, lambda total: np.array(wanted))
    assert found.dtype == np.uint8 and found.shape == (len(wanted), 48, 64, 3)
    # Neighbours are 8 levels apart; half of that tells them apart.
    np.testing.assert_allclose(levels_of(found), LEVELS[wanted], atol=3.9)


def test_frames_are_those_that_opencv_decodes(tmp_path):
    """An independent reader of the same file: FFmpeg's decoder is exact, so are OpenCV's colours to a level."""
    path = write_video(tmp_path / "light.mp4", video("left", 24, size=(64, 96)))
    reader, theirs = cv2.VideoCapture(str(path)), []
    while (got := reader.read())[0]:
        theirs.append(cv2.cvtColor(got[1], cv2.COLOR_BGR2RGB))
    wanted = [1, 9, 10, 22]
    found = read_video(path, lambda total: np.array(wanted))
    assert np.abs(found.astype(int) - np.stack(theirs)[wanted]).max() <= 1


def test_content_in_memory_is_read_as_a_file(clip):
    np.testing.assert_array_equal(read_video(clip.read_bytes(), everything, name="x"), read_video(clip, everything))


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_a_rotated_video_stands_upright(tmp_path, degrees):
    """OpenCV turns frames by the same metadata."""
    path = write_video(tmp_path / "turned.mp4", video("right", 8), rotation=degrees)
    done, theirs = cv2.VideoCapture(str(path)).read()
    found = read_video(path, lambda total: np.array([0]))[0]
    assert done and found.shape == theirs.shape and (found.shape[0] > found.shape[1]) == (degrees != 180)
    assert np.abs(found.astype(int) - cv2.cvtColor(theirs, cv2.COLOR_BGR2RGB)).max() <= 1


def test_a_varying_rate_is_sampled_by_time(tmp_path):
    """8 frames in the first 0.8 seconds, then 4 of a second each: the parts of equal time lie in the slow end."""
    stamps = [*range(0, 80, 10), 80, 180, 280, 380]
    path = write_video(tmp_path / "slow.mp4", grey(LEVELS[:12]), stamps=stamps)
    with opened_video(path) as opened:
        timeline = Timeline.of(opened)
    length = float(timeline.length * opened.stream.time_base)
    chosen = Segments(4).frames(12)  # frames 1, 4, 7, 10 of 12: parts of a twelfth of the length
    times = [(i + 0.5) * length / 12 for i in chosen.tolist()]
    expected = [np.searchsorted(np.array(stamps) / 100, t, side="right") - 1 for t in times]
    assert expected[0] < expected[1] and max(expected) == 10 and expected != chosen.tolist()
    found = levels_of(read_video(path, Segments(4).frames))
    np.testing.assert_allclose(found, LEVELS[expected], atol=3.9)


def test_a_constant_rate_gives_every_frame_its_number(clip):
    with opened_video(clip) as opened:
        timeline = Timeline.of(opened)
    assert timeline.shown_at(np.arange(24)).tolist() == list(range(24))
    assert timeline.keys.nonzero()[0].tolist() == list(range(0, 24, 4))


def test_seeking_begins_at_key_frames_where_it_saves_work():
    line = Timeline(np.arange(40), np.arange(40) % 10 == 0, 40.0)
    wanted = np.array([1, 3, 12, 39])
    assert line.runs(wanted, worth=8) == [(0, [1, 3, 12]), (30, [39])]
    assert line.runs(wanted, worth=100) == [(0, [1, 3, 12, 39])]
    assert line.runs(wanted, worth=0) == [(0, [1, 3]), (10, [12]), (30, [39])]


def test_unwanted_frames_are_not_decoded(clip, monkeypatch):
    import suites.video.reading as reading

    fed = []
    original = reading._frames
    monkeypatch.setattr(reading, "_frames", lambda *a, **k: (fed.append(f) or f for f in original(*a, **k)))
    with opened_video(clip) as opened:
        timeline = Timeline.of(opened)
        found = decode(opened, timeline, np.array([21]))
    assert list(found) == [21] and len(fed) < 4  # of 24: its key frame and one between them, besides itself


@pytest.mark.parametrize(
    ("units", "spare"),
    [
        ([b"\x01abc"], True),
        ([b"\x06sei", b"\x01abc", b"\x01de"], True),
        ([b"\x41abc"], False),  # nal_ref_idc 2
        ([b"\x01abc", b"\x65d"], False),
        ([b"\x06sei"], False),  # no slice
    ],
)
def test_h264_frames_that_no_other_refers_to_are_known(units, spare):
    data = b"".join(len(unit).to_bytes(4, "big") + unit for unit in units)
    assert _is_spare(memoryview(data), 4) == spare
    assert not _is_spare(memoryview(data[:-1]), 4)
    assert not _is_spare(memoryview(bytes(len(data))), 4)


def test_a_scaled_short_side(clip):
    assert read_video(clip, everything, short_side=24).shape == (24, 24, 32, 3)
    with pytest.raises(AttributeValueError, match="short_side is 0"):
        VideoReader(0)


def test_a_wrong_number_of_frames_in_the_header_is_not_believed(tmp_path):
    path = write_video(tmp_path / "lies.avi", grey(LEVELS), "mjpeg")
    data = bytearray(path.read_bytes())
    for box, offset in ((b"avih", 24), (b"strh", 40)):  # dwTotalFrames, dwLength
        at = data.index(box) + offset
        assert data[at : at + 4] == (24).to_bytes(4, "little")
        data[at : at + 4] = (1000).to_bytes(4, "little")
    path.write_bytes(data)
    seen = []
    found = read_video(path, lambda total: seen.append(total) or np.array([0, total - 1]))
    assert seen == [24]
    np.testing.assert_allclose(levels_of(found), LEVELS[[0, 23]], atol=3.9)


def test_a_clip_shorter_than_the_sampler_needs_gives_frames_twice(tmp_path):
    path = write_video(tmp_path / "short.mp4", grey(LEVELS[:3]))
    found = levels_of(read_video(path, Segments(7).frames))
    np.testing.assert_allclose(found, LEVELS[[0, 0, 1, 1, 1, 2, 2]], atol=3.9)


def damage(path, packet):
    """Overwrites the data of a packet, counted in the order of decoding."""
    data = bytearray(path.read_bytes())
    place, size = packets_of(path)[packet]
    data[place + 4 : place + size] = b"\xff" * (size - 4)
    path.write_bytes(data)


@pytest.mark.parametrize("codec", ["libx264", "mpeg4"])
def test_a_stream_that_breaks_in_the_middle_is_named_with_the_frame(tmp_path, codec):
    path = write_video(tmp_path / "torn.mp4", grey(LEVELS), codec)
    damage(path, 12)  # a key frame
    with pytest.raises(DataError, match=r"torn\.mp4: (damaged|frame 1\d of 24)"):
        read_video(path, everything)
    np.testing.assert_allclose(levels_of(read_video(path, lambda total: np.array([1, 2]))), LEVELS[[1, 2]], atol=3.9)


def test_frames_that_refer_to_a_damaged_one_are_not_given(tmp_path):
    path = write_video(tmp_path / "torn.mp4", grey(LEVELS))
    damage(path, 12)
    with pytest.raises(DataError, match=r"torn\.mp4: (damaged|frame 1\d of 24)"):
        read_video(path, lambda total: np.array([14]))


def test_all_frames_of_a_torn_stream_end_there_with_a_word(tmp_path, caplog):
    path = write_video(tmp_path / "torn.mp4", grey(LEVELS))
    damage(path, 12)
    shown = list(frames_of(path))
    assert 0 < len(shown) < 24 and "torn.mp4" in caplog.text and f"the {len(shown)} frames before it" in caplog.text


def test_a_cut_off_file_is_named(clip):
    clip.write_bytes(clip.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"clip\.mp4: cut off after \d+ of \d+ bytes"):
        read_video(clip, everything)


def test_a_file_cut_off_behind_its_index_is_named(tmp_path):
    """As a download that stopped leaves it where the index stands at the front: zeros in place of the last frames."""
    path = write_video(tmp_path / "early.mp4", video("left"))
    data = bytearray(path.read_bytes())
    start = data.index(b"mdat") + 4
    middle = start + (data.index(b"moov") - start) // 3
    data[middle : data.index(b"moov") - 4] = bytes(data.index(b"moov") - 4 - middle)
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"early\.mp4: (damaged|frame \d of 8)"):
        read_video(path, everything)


def test_sound_alone_is_no_video(tmp_path):
    path = write_video(tmp_path / "voice.mp4", [], sound=np.zeros(16_000))
    with pytest.raises(DataError, match=r"voice\.mp4: holds no moving pictures, only audio"):
        read_video(path, everything)


def test_sound_beside_the_frames_does_no_harm(tmp_path):
    path = write_video(tmp_path / "both.mp4", grey(LEVELS), sound=np.zeros(16_000))
    np.testing.assert_allclose(levels_of(read_video(path, everything)), LEVELS, atol=3.9)


def test_a_format_that_nobody_decodes_is_named(clip):
    data = clip.read_bytes()
    assert data.count(b"avc1") >= 1
    clip.write_bytes(data.replace(b"avc1", b"zzzz"))
    with pytest.raises(DataError, match=r"clip\.mp4: damaged, or in a format that FFmpeg does not decode"):
        read_video(clip, everything)


def test_no_frames_are_named(tmp_path):
    path = write_video(tmp_path / "empty.avi", grey(LEVELS[:1]), "mjpeg")
    data = path.read_bytes()
    movi = data.index(b"movi")
    path.write_bytes(data[: movi - 4] + (4).to_bytes(4, "little") + b"movi")
    with pytest.raises(DataError, match=r"empty\.avi: (holds no frames|damaged)"):
        read_video(path, everything)


def test_what_is_no_video_is_named(tmp_path):
    (tmp_path / "text.mp4").write_text("not a video")
    (tmp_path / "nothing.mp4").write_bytes(b"")
    for name in ("text.mp4", "nothing.mp4"):
        with pytest.raises(DataError, match=rf"{name}: damaged, cut off, or no video"):
            read_video(tmp_path / name, everything)
    with pytest.raises(DataError, match="there is no such file"):
        read_video(tmp_path / "none.mp4", everything)


def test_lists_of_other_files_are_no_videos(clip, tmp_path):
    """Playlists would lead FFmpeg to files and addresses that a request names."""
    lists = [
        f"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n{clip}\n#EXT-X-ENDLIST\n",
        f"ffconcat version 1.0\nfile {clip}\n",
        f"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\nfile://{clip}\n#EXT-X-ENDLIST\n",
    ]
    for at, text in enumerate(lists):
        path = tmp_path / f"list{at}.mp4"
        path.write_text(text)
        for source in (path, text.encode()):
            with pytest.raises(DataError, match="no video that FFmpeg reads"):
                read_video(source, everything)


@pytest.mark.parametrize(
    ("limit", "match"),
    [
        ({"video_bytes": 100}, "too many bytes"),
        ({"video_frames": 20}, "too many frames"),
        ({"video_seconds": 1}, "too long, in seconds, 2"),
        ({"pixels": 48 * 64 - 1}, "48 x 64 have too many pixels"),
        ({"clip_bytes": 3 * 48 * 64 * 24 - 1}, "wanted frames have too many bytes"),
    ],
)
def test_budgets(clip, limit, match):
    with limits.allow(**limit), pytest.raises(DataError, match=match):
        read_video(clip, everything)


class TestCache:
    def reader(self, clip, megabytes):
        reader, opened = VideoReader(cache_mb=megabytes), []
        return (lambda *wanted: reader.read(0, lambda: opened.append(1) or clip, lambda t: np.array(wanted), "x")), (
            opened,
            reader.cache,
        )

    def test_kept_frames_are_not_read_again(self, clip):
        read, (opened, _) = self.reader(clip, 4)
        first = read(1, 9, 17)
        np.testing.assert_array_equal(read(9, 1), first[[1, 0]])
        assert len(opened) == 1
        np.testing.assert_allclose(levels_of(read(9, 10)), LEVELS[[9, 10]], atol=3.9)
        assert len(opened) == 2

    def test_the_budget_holds_and_the_oldest_go(self, tmp_path):
        path = write_video(tmp_path / "large.mp4", grey(LEVELS, (240, 320)))  # 225 KiB a frame
        read, (opened, cache) = self.reader(path, 1)
        read(*range(24))
        assert 0 < cache.bytes <= 1 << 20
        read(23, 22)
        assert len(opened) == 1
        read(0)
        assert len(opened) == 2 and cache.bytes <= 1 << 20

    def test_none_is_kept_by_default_and_copies_begin_empty(self, clip):
        import pickle

        read, (opened, cache) = self.reader(clip, 0)
        read(1)
        read(1)
        assert len(opened) == 2 and cache.bytes == 0
        kept = VideoReader(cache_mb=3)
        kept.read(0, lambda: clip, everything, "x")
        assert kept.cache.bytes and not pickle.loads(pickle.dumps(kept)).cache.bytes
        with pytest.raises(AttributeValueError, match="cache_mb is -1"):
            VideoReader(cache_mb=-1)
