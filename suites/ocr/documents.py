"""What was read of a picture as a document: hOCR, and a PDF whose picture has the texts under it, unseen but found.

Letters: H W size of the picture in pixels.
"""

from __future__ import annotations

import html
import io
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from framework.errors import NotSupportedError
from framework.extras import install_command
from suites.ocr.layout import paragraphs
from suites.vision.pictures.images import encode_image

_DPI = 150  # of the pages of a PDF
_POINTS = 72  # an inch
_EM = 1000  # units of a font's widths
_WIDE = 500  # width of each character of the unseen font
_PART = 100  # characters in a section of a table of characters


class Line(NamedTuple):
    """A text with its corners [4, 2] and its score."""

    quad: np.ndarray
    text: str
    score: float


def plain(lines: Sequence[Line]) -> str:
    """The texts: a line each where they stand side by side, with an empty line between paragraphs."""
    blocks = ["\n".join(" ".join(lines[k].text for k in row) for row in block) for block in paragraphs(_quads(lines))]
    return "".join(f"{block}\n" for block in "\n\n".join(blocks).split("\n")) if blocks else ""


def hocr(lines: Sequence[Line], size: tuple[int, int], name: str = "") -> str:
    """An hOCR 1.2 page of `size` (H, W): paragraphs, lines, words. A word's box is its share of its line's letters."""
    rows = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN" '
        '"http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">',
        '<html xmlns="http://www.w3.org/1999/xhtml">',
        "<head>",
        f"<title>{html.escape(name)}</title>",
        '<meta http-equiv="Content-Type" content="text/html;charset=utf-8"/>',
        '<meta name="ocr-system" content="paddock"/>',
        '<meta name="ocr-capabilities" content="ocr_page ocr_carea ocr_par ocr_line ocrx_word"/>',
        "</head>",
        "<body>",
        f"<div class='ocr_page' id='page_1' title='image \"{html.escape(name)}\"; bbox 0 0 {size[1]} {size[0]}'>",
    ]
    words = 0
    for number, block in enumerate(paragraphs(_quads(lines)), start=1):
        box = _box(np.concatenate([lines[k].quad for row in block for k in row]))
        rows.append(f"<div class='ocr_carea' id='block_1_{number}' title='{box}'>")
        rows.append(f"<p class='ocr_par' id='par_1_{number}' title='{box}'>")
        for k in (k for row in block for k in row):
            line = lines[k]
            turn = -math.degrees(math.atan2(*(line.quad[1] - line.quad[0])[::-1]))
            angle = f"; textangle {turn:.1f}" if abs(turn) >= 0.5 else ""
            rows.append(f"<span class='ocr_line' id='line_1_{k + 1}' title='{_box(line.quad)}{angle}'>")
            for word, quad in _words(line):
                words += 1
                title = f"{_box(quad)}; x_wconf {round(100 * line.score)}"
                said = html.escape(word, quote=False)
                rows.append(f"<span class='ocrx_word' id='word_1_{words}' title='{title}'>{said}</span>")
            rows.append("</span>")
        rows += ["</p>", "</div>"]
    return "\n".join([*rows, "</div>", "</body>", "</html>", ""])


def _quads(lines: Sequence[Line]) -> np.ndarray:
    return np.array([line.quad for line in lines], np.float32).reshape(-1, 4, 2)


def _box(points: np.ndarray) -> str:
    left, top = np.floor(points.min(axis=0)).astype(int)
    right, bottom = np.ceil(points.max(axis=0)).astype(int)
    return f"bbox {left} {top} {right} {bottom}"


def _words(line: Line) -> list[tuple[str, np.ndarray]]:
    """The words of a line with their shares of its quadrilateral."""
    found, at = [], 0
    letters = max(len(line.text), 1)
    upper_left, upper_right, lower_right, lower_left = line.quad.astype(np.float64)
    for word in line.text.split(" "):
        start, end = at / letters, (at + len(word)) / letters
        at += len(word) + 1
        upper, lower = upper_right - upper_left, lower_right - lower_left
        if word:
            above = [upper_left + start * upper, upper_left + end * upper]
            found.append((word, np.array([*above, lower_left + end * lower, lower_left + start * lower])))
    return found


def searchable_pdf(lines: Sequence[Line], image: np.ndarray) -> bytes:
    """A PDF of one page: an image uint8 RGB [H, W, 3], and its texts in a font that shows nothing, to find and copy.

    Raises NotSupportedError where the extra `pdf` is not installed.
    """
    try:
        from pypdf import PdfWriter
        from pypdf.generic import DictionaryObject, NameObject, NumberObject
    except ImportError:
        raise NotSupportedError(f"--format pdf: pypdf is not installed here; run: {install_command('pdf')}") from None
    height, width = image.shape[:2]
    scale = _POINTS / _DPI
    writer = PdfWriter()
    page = writer.add_blank_page(width * scale, height * scale)
    codes = {c: k for k, c in enumerate(sorted({c for line in lines for c in line.text}), start=1)}
    facts = {"/Width": width, "/Height": height, "/BitsPerComponent": 8}
    picture = _stream(encode_image(image, ".jpg"), {k: NumberObject(v) for k, v in facts.items()})
    names = {"/Type": "/XObject", "/Subtype": "/Image", "/ColorSpace": "/DeviceRGB", "/Filter": "/DCTDecode"}
    picture.update({NameObject(key): NameObject(value) for key, value in names.items()})
    content = [f"q {width * scale:.3f} 0 0 {height * scale:.3f} 0 0 cm /Picture Do Q"]
    content += [_shown(line, codes, scale, height) for line in lines]
    image_at, font_at = writer._add_object(picture), writer._add_object(_font(writer, codes))
    page[NameObject("/Resources")] = DictionaryObject(
        {
            NameObject("/XObject"): DictionaryObject({NameObject("/Picture"): image_at}),
            NameObject("/Font"): DictionaryObject({NameObject("/Unseen"): font_at}),
        }
    )
    page[NameObject("/Contents")] = writer._add_object(_stream("\n".join(content).encode(), {}))
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def _shown(line: Line, codes: dict[str, int], scale: float, height: int) -> str:
    """The operators that write a line where it stands, its letters spread over its length (text rendering mode 3)."""
    _, _, lower_right, lower_left = line.quad.astype(np.float64)
    along = lower_right - lower_left
    length = max(float(np.hypot(*along)), 1.0)
    size = max(float(np.hypot(*(line.quad[0] - lower_left))), 1.0) * scale
    cos, sin = along[0] / length, -along[1] / length
    stretch = 100 * length * scale / (size * _WIDE / _EM * max(len(line.text), 1))
    x, y = lower_left[0] * scale, (height - lower_left[1]) * scale
    told = "".join(f"{codes[c]:04x}" for c in line.text)
    matrix = f"{cos:.5f} {sin:.5f} {-sin:.5f} {cos:.5f} {x:.3f} {y:.3f} Tm"
    return f"BT 3 Tr /Unseen {size:.3f} Tf {stretch:.3f} Tz {matrix} <{told}> Tj ET"


def _stream(data: bytes, facts: dict[str, Any]) -> Any:
    from pypdf.generic import NameObject, StreamObject

    stream = StreamObject()
    stream.set_data(data)
    stream.update({NameObject(key): value for key, value in facts.items()})
    return stream


def _font(writer: Any, codes: dict[str, int]) -> Any:
    """A font without a program, which unseen text needs none of; its table says which character each code is."""
    from pypdf.generic import ArrayObject, DictionaryObject, NameObject, NumberObject, TextStringObject

    def named(**given: Any) -> Any:
        return DictionaryObject({NameObject(f"/{key}"): value for key, value in given.items()})

    name = NameObject("/Unseen")
    system = named(
        Registry=TextStringObject("Adobe"), Ordering=TextStringObject("Identity"), Supplement=NumberObject(0)
    )
    numbers = {"Flags": 5, "ItalicAngle": 0, "Ascent": 1000, "Descent": 0, "CapHeight": 1000, "StemV": 80}
    box = ArrayObject([NumberObject(k) for k in (0, 0, _WIDE, _EM)])
    facts = {key: NumberObject(value) for key, value in numbers.items()}
    described = named(Type=NameObject("/FontDescriptor"), FontName=name, FontBBox=box, **facts)
    inner = named(
        Type=NameObject("/Font"),
        Subtype=NameObject("/CIDFontType2"),
        BaseFont=name,
        CIDSystemInfo=system,
        CIDToGIDMap=NameObject("/Identity"),
        DW=NumberObject(_WIDE),
        FontDescriptor=writer._add_object(described),
    )
    return named(
        Type=NameObject("/Font"),
        Subtype=NameObject("/Type0"),
        BaseFont=name,
        Encoding=NameObject("/Identity-H"),
        DescendantFonts=ArrayObject([writer._add_object(inner)]),
        ToUnicode=writer._add_object(_stream(_unicode(codes), {})),
    )


def _unicode(codes: dict[str, int]) -> bytes:
    """The table of characters: UTF-16 of each code."""
    rows = [f"<{k:04x}> <{c.encode('utf-16-be').hex()}>" for c, k in codes.items()]
    parts = [rows[at : at + _PART] for at in range(0, len(rows), _PART)]
    told = [f"{len(part)} beginbfchar\n" + "\n".join(part) + "\nendbfchar" for part in parts]
    return "\n".join(
        [
            "/CIDInit /ProcSet findresource begin 12 dict begin begincmap",
            "/CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def",
            "/CMapName /Adobe-Identity-UCS def /CMapType 2 def",
            "1 begincodespacerange <0000> <ffff> endcodespacerange",
            *told,
            "endcmap CMapName currentdict /CMap defineresource pop end end",
        ]
    ).encode()
