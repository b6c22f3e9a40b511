"""Videos whose times repeat or jump, or that begin in the middle: both readers give the same frames, and say why."""

import av
import numpy as np
import pytest

from framework.errors import DataError
from suites.video.reading import read_video
from suites.vision.videos.reading import frames_of, opened_video
from tests.suites.video.helpers import grey, levels_of, write_video

LEVELS = np.arange(20, 20 + 8 * 24, 8)


def remuxed(source, path, change, kind=None):
    """The packets of a video in another file; `change(number, packet)` returns whether a packet stays."""
    with av.open(str(source)) as given, av.open(str(path), "w", format=kind) as out:
        stream = given.streams.video[0]
        copied = out.add_stream_from_template(stream)
        out.start_encoding()  # writes the header, also where no packet stays
        for number, packet in enumerate(p for p in given.demux(stream) if p.size):
            if change(number, packet) is not False:
                packet.stream = copied
                out.mux(packet)
    return path


def three_at_a_time(number, packet):
    packet.pts = packet.dts = number // 3 * 300


def without(count):
    return lambda number, packet: number >= count


def as_it_is(number, packet):
    return True


def numbers(frames):
    return np.rint((levels_of(frames) - 20) / 8).astype(int).tolist()


def expect(path, wanted):
    """All frames, and those chosen by number, are these."""
    assert numbers(np.stack(list(frames_of(path)))) == wanted
    assert numbers(read_video(path, np.arange)) == wanted
    some = [0, len(wanted) // 2, len(wanted) - 1]
    assert numbers(read_video(path, lambda total: np.array(some))) == [wanted[i] for i in some]


@pytest.mark.parametrize("codec", ["mjpeg", "mpeg4"])
def test_times_that_repeat_leave_the_order_of_decoding(tmp_path, codec):
    source = write_video(tmp_path / "a.mkv", grey(LEVELS), codec)
    path = remuxed(source, tmp_path / "b.mkv", three_at_a_time)
    expect(path, list(range(24)))
    with opened_video(path) as video:
        times = [frame.seconds for frame in video.frames()]
    assert times == sorted(times)


def test_times_that_jump_back_leave_the_order_of_decoding(tmp_path):
    """Two recordings one behind the other, as cameras leave them."""
    source = write_video(tmp_path / "a.mp4", grey(LEVELS))
    once = remuxed(source, tmp_path / "a.mpg", as_it_is, "mpegts").read_bytes()
    (tmp_path / "b.mpg").write_bytes(once + once)
    expect(tmp_path / "b.mpg", [*range(24), *range(24)])


@pytest.mark.parametrize(("name", "kind"), [("b.mp4", None), ("b.mkv", None), ("b.mpg", "mpegts")])
@pytest.mark.parametrize("lost", [1, 2])
def test_a_stream_that_begins_in_the_middle_begins_at_its_first_key_frame_and_says_so(
    tmp_path, name, kind, lost, caplog
):
    """Frames 1 to 3 refer to frame 0, which is not there."""
    source = write_video(tmp_path / "a.mp4", grey(LEVELS))
    expect(remuxed(source, tmp_path / name, without(lost), kind), list(range(4, 24)))
    said = [r.getMessage() for r in caplog.records if "begins in the middle" in r.getMessage()]
    assert len(said) == 3 and f"{name}: begins in the middle; {4 - lost} of its frames refer" in said[0]


def test_a_stream_without_any_key_frame_is_decoded_as_far_as_it_goes_and_says_so(tmp_path, caplog):
    source = write_video(tmp_path / "a.mp4", grey(np.arange(100, 124)), "mpeg4", key_every=100)
    path = remuxed(source, tmp_path / "b.mkv", without(3))  # the encoder makes the first three stand alone
    assert len(list(frames_of(path))) == len(read_video(path, np.arange)) == 21
    assert "no frame stands alone" in caplog.text


def test_a_stream_of_sound_and_one_of_no_frames_are_named(tmp_path):
    source = write_video(tmp_path / "a.mp4", grey(LEVELS))
    for name in ("b.mkv", "b.mp4"):
        path = remuxed(source, tmp_path / name, without(100))
        for read in (lambda p: list(frames_of(p)), lambda p: read_video(p, np.arange)):
            with pytest.raises(DataError, match=rf"{name}: (holds no frames|holds no moving|damaged)"):
                read(path)
    sound = write_video(tmp_path / "c.mp4", [], sound=np.zeros(16_000))
    with pytest.raises(DataError, match="holds no moving pictures, only audio"):
        list(frames_of(sound))
