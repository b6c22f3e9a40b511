"""Growing: pieces joined are the text, no character is cut, and nothing of a stop text is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suites.engine.serving.generation.texts import Growing


def by_bytes(ids):
    return bytes(ids).decode("utf-8", "replace")


def told(data, stops=(), text_of=by_bytes):
    growing, pieces = Growing(text_of, stops), []
    for token in data:
        pieces.append(growing.add(token))
        if growing.stopped:
            break
    return [*pieces, growing.end()]


@given(st.text(max_size=20))
def test_pieces_joined_are_the_text(text):
    pieces = told(text.encode())
    assert "".join(pieces) == text
    assert all(piece.encode() for piece in pieces if piece)


def test_a_character_comes_when_all_its_bytes_have():
    assert told("aü€".encode()) == ["a", "", "ü", "", "", "€", ""]
    assert told("ü".encode()[:1]) == ["", "\ufffd"]


@given(st.text("ab", max_size=14), st.lists(st.text("ab", min_size=1, max_size=3), max_size=3))
def test_a_text_ends_before_its_first_stop_text(text, stops):
    pieces = told(text.encode(), stops)
    for end in range(1, len(text) + 1):  # as soon as one is there
        ends = [at for stop in stops if (at := text[:end].find(stop)) >= 0]
        if ends:
            assert "".join(pieces) == text[: min(ends)]
            return
    assert "".join(pieces) == text


@pytest.mark.parametrize(("text", "pieces"), [("xab", ["x", "", "", ""]), ("xac", ["x", "", "ac", ""])])
def test_what_may_be_a_stop_text_is_held_back(text, pieces):
    assert told(text.encode(), ["ab"]) == pieces


def test_words_with_spaces_between_them_are_joined_as_the_tokenizer_does():
    words = {1: "one", 2: "two", 3: "three"}
    pieces = told([1, 2, 3], text_of=lambda ids: " ".join(words[each] for each in ids))
    assert pieces == ["one", " two", " three", ""]


@pytest.mark.parametrize("token", ["a", " ", "", "\ufffd"])
def test_a_long_text_is_not_decoded_as_a_whole_at_each_token(token):
    """Nor one of spaces, of tokens without a text, or of bytes that end no character."""
    longest = 0

    def text(ids):
        nonlocal longest
        longest = max(longest, len(ids))
        return (token * len(ids))[token == " " :]  # the first space is left out

    growing = Growing(text, ())
    whole = "".join(growing.add(0) for _ in range(1000)) + growing.end()
    assert whole.strip() == (token * 1000).strip() and longest <= 200
