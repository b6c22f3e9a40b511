"""A picture's way through the networks: found, turned, read, in order, in its own pixels."""

import numpy as np
import pytest

from framework.errors import AttributeValueError, CheckpointError
from suites.engine.contract.processor import with_min_score
from suites.engine.predict.inference import Model, infer_files
from suites.engine.predict.items import predict_items
from suites.ocr.finding import Finding
from suites.ocr.page import INPUTS, Lines, Reading
from suites.ocr.processor import OcrProcessor, PageProcessor
from suites.vision.pictures.images import write_image
from tests.suites.ocr.helpers import LETTERS, page, played


def processor(**reading):
    return PageProcessor(Finding(unclip=0.01), Reading(**reading), Lines(LETTERS, 48, True))


def read(image, asked=None, words=("word",), turned=(), **reading):
    seen = []

    def predict(arrays):
        seen.append({name: arrays[name].shape for name in INPUTS})
        return played(arrays, words, turned)

    found = predict_items(asked or processor(**reading), INPUTS, predict, [image])
    return found[0], seen


def test_texts_come_in_reading_order_in_pixels_of_the_picture():
    image = page((600, 100, 900, 140), (100, 102, 300, 142), (100, 300, 400, 340))
    texts, _ = read(image)
    corners = [(text.quad[0].round().tolist(), text.text) for text in texts]
    for (corner, word), wanted in zip(corners, [(100, 102), (600, 100), (100, 300)], strict=True):
        np.testing.assert_allclose(corner, wanted, atol=3)
        assert word == "word"


def test_a_page_without_text_is_read_as_nothing():
    texts, seen = read(page())
    assert texts == [] and len(seen) == 1
    shown = processor()
    assert shown.summary([]) == [] and shown.lines([]) == [] and shown.draw(page(), []).shape[2] == 3


def test_lines_of_several_pictures_stand_below_their_names(tmp_path):
    for name, image in (("a.png", page((100, 100, 300, 140))), ("b.png", page())):
        write_image(tmp_path / name, image)
    model = Model(processor(), INPUTS, played, lambda: played)
    both = infer_files(model, [tmp_path / "a.png", tmp_path / "b.png"], None)
    assert both.lines == [f"{tmp_path / 'a.png'}:", "  word", f"{tmp_path / 'b.png'}:"]
    assert infer_files(model, [tmp_path / "a.png"], None).lines == ["word"]
    blank = infer_files(model, [tmp_path / "b.png"], None)
    assert (blank.lines, blank.answered, blank.skipped) == ([], 1, [])


def test_text_upside_down_is_turned_and_said_so():
    texts, _ = read(page((100, 100, 300, 140), (100, 300, 300, 340)), turned=(1,))
    assert [text.turned for text in texts] == [False, True]
    assert [("turned" in each) for each in processor().summary(texts)] == [False, True]


def test_a_page_upside_down_is_read_from_its_own_top_and_its_corners_are_those_of_its_writing():
    places = (600, 100, 900, 140), (100, 102, 300, 142), (100, 300, 400, 340)
    texts, _ = read(page(*places), turned=(0, 1, 2))
    corners = [text.quad[0].round().tolist() for text in texts]
    np.testing.assert_allclose(corners, [(400, 340), (900, 140), (300, 142)], atol=3)


def test_a_page_on_its_side_is_read_from_its_own_top():
    places = (100, 100, 140, 400), (300, 100, 340, 300), (300, 560, 340, 760)
    for turned, wanted in (
        ((), [(340, 100), (340, 560), (140, 100)]),
        ((0, 1, 2), [(100, 400), (300, 760), (300, 300)]),
    ):
        texts, _ = read(page(*places), turned=turned)
        np.testing.assert_allclose([text.quad[0].round().tolist() for text in texts], wanted, atol=3)


def test_lines_are_read_in_batches_of_neighbours_in_width():
    boxes = [(20, 20 + 60 * k, 120 + 80 * k, 50 + 60 * k) for k in range(7)]
    _, seen = read(page(*boxes), together=4)
    assert [shapes["turned"][0] for shapes in seen] == [0, 4, 3, 0, 0]
    assert [shapes["lines"][0] for shapes in seen] == [0, 0, 0, 4, 3]
    assert seen[3]["lines"][2] < seen[4]["lines"][2]


@pytest.mark.parametrize("size", [(20, 1600), (1600, 20), (8, 8), (2400, 700), (31, 33)])
def test_pictures_of_any_shape_are_shown_in_bounds(size):
    _, seen = read(np.full((*size, 3), 255, np.uint8))
    height, width = seen[0]["images"][1:3]
    assert height % 32 == width % 32 == 0 and height * width <= 8 * 800 * 1000


def test_a_large_picture_is_shrunk_and_its_texts_stay_in_its_own_pixels():
    (text,), _ = read(page((1000, 2000, 3000, 2200), size=(3000, 4000)))
    np.testing.assert_allclose(text.quad[0], (1000, 2000), atol=8)


def test_texts_below_the_least_score_are_left_out():
    image = page((100, 100, 300, 140))
    assert len(read(image, with_min_score(processor(), 0.85))[0]) == 1
    assert read(image, with_min_score(processor(), 0.95))[0] == []


def test_what_stands_around_the_networks_comes_back_from_plain_data():
    found = OcrProcessor.from_metadata(processor(together=3).metadata())
    assert found.metadata() == processor(together=3).metadata()
    with pytest.raises(CheckpointError, match="OcrProcessor: the metadata of the model do not fit"):
        OcrProcessor.from_metadata({"kind": "page"})


def test_files_and_drawing_have_what_was_read():
    image = page((100, 100, 300, 140))
    texts, _ = read(image)
    assert processor().files(texts) == {".txt": b"word\n"}
    assert (processor().draw(image, texts) != image).any()


@pytest.mark.parametrize("given", [{"least_side": 10}, {"flatness": 0.5}, {"together": 0}, {"line_width": 4}])
def test_settings_that_show_nothing_are_refused(given):
    with pytest.raises(AttributeValueError, match=f"reading: .*{next(iter(given))}"):
        Reading(**given)
