"""Files of words and tags: columns of several formats, remarks, and the forms of tags; CSV files of texts."""

import pytest

from framework.errors import ConfigError, DataError
from suites.nlp.datasets import CharTags, Csv, TaggedTsv, Tsv

CONLL_2003 = (
    "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\nPeter NNP B-NP B-PER\nBlackburn NNP I-NP I-PER\n"
)
SENTENCES = [(("EU", "rejects"), ("B-ORG", "O")), (("Peter", "Blackburn"), ("B-PER", "I-PER"))]


def read(tmp_path, text, **options):
    path = tmp_path / "a.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return [(example.words, example.tags) for example in CharTags(str(path), **options).examples]


def test_conll_2003_has_the_word_first_and_the_tag_last(tmp_path):
    assert read(tmp_path, CONLL_2003) == SENTENCES
    assert read(tmp_path, CONLL_2003.replace(" ", "\t")) == SENTENCES


def test_numbered_words_stand_in_the_second_column(tmp_path):
    rows = (
        "# sent_id = 1\n1\tEU\tB-ORG\t-\tx\n2\trejects\tO\t-\tx\n\n# text = P B\n1-2\tPB\t_\t-\tx\n"
        "1\tPeter\tB-PER\t-\tx\n2\tBlackburn\tI-PER\t-\tx\n"
    )
    assert read(tmp_path, rows) == SENTENCES


def test_conll_u_without_a_column_of_tags_is_refused_unless_one_is_given(tmp_path):
    row = "{}\t{}\t_\tNOUN\tNN\t_\t0\troot\t_\t{}\n"
    text = row.format(1, "EU", "NER") + row.format(2, "rejects", "_")
    with pytest.raises(DataError, match=r"lines have 10 columns, and no column holds tags .* say which with tag: N"):
        read(tmp_path, text)


def test_two_columns_keep_words_that_look_like_remarks(tmp_path):
    assert read(tmp_path, "# O\n1 O\n") == [(("#", "1"), ("O", "O"))]


def test_columns_that_are_given_are_taken(tmp_path):
    text = "B-X a O\nO b B-Y\n"
    assert read(tmp_path, text, word=1, tag=0) == [(("a", "b"), ("B-X", "O"))]
    with pytest.raises(ConfigError, match="tag is 3, but lines have 3 columns"):
        read(tmp_path, text, tag=3)


def test_a_line_of_fewer_columns_is_named(tmp_path):
    with pytest.raises(DataError, match=r"a.txt:4: expects 4 columns, found 'rejects O'"):
        read(tmp_path, CONLL_2003.replace("rejects VBZ B-VP O", "rejects O"))


def test_bilou_becomes_bioes_and_iob1_bio(tmp_path):
    assert read(tmp_path, "a B-X\nb I-X\nc L-X\nd U-Y\ne O\n")[0][1] == ("B-X", "I-X", "E-X", "S-Y", "O")
    assert read(tmp_path, "a I-X\nb I-X\nc B-X\nd O\ne I-Y\nf I-X\n")[0][1] == ("B-X", "I-X", "B-X", "O", "B-Y", "B-X")
    assert read(tmp_path, "a B-X\nb I-X\nc O\nd I-Y\n")[0][1] == ("B-X", "I-X", "O", "I-Y"), "BIO with a fault stays"


def test_bilou_and_bioes_in_one_file_are_refused(tmp_path):
    with pytest.raises(DataError, match="mixes BILOU and BIOES"):
        read(tmp_path, "a B-X\nb L-X\nc S-X\n")


def test_ernie_s_format_takes_bilou_too(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("text_a\tlabel\na\x02b\tU-X\x02O\n")
    assert TaggedTsv(str(path)).examples[0].tags == ("S-X", "O")


@pytest.mark.parametrize(("encoding", "option"), [("utf-16", None), ("gb18030", "gb18030"), ("utf-8-sig", None)])
def test_encodings_of_all_text_sets(tmp_path, encoding, option):
    for reader, text in ((CharTags, "京 B-LOC\n"), (Tsv, "text_a\tlabel\n京\t1\n"), (Csv, "text,label\n京,1\n")):
        path = tmp_path / reader.__name__
        path.write_bytes(text.encode(encoding))
        (example,) = reader(str(path), encoding=option).examples
        assert "京" in (example.words[0] if reader is CharTags else example.text)


def test_a_csv_of_reviews_is_read_as_spreadsheets_write_it(tmp_path):
    path = tmp_path / "reviews.csv"
    path.write_text('sep=;\n;text;label\n0;"good; very\n""good""";1\n1;bad;0\n')
    found = Csv(str(path)).examples
    assert [(each.text, each.label) for each in found] == [('good; very\n"good"', "1"), ("bad", "0")]


def test_a_stray_quote_in_a_csv_costs_one_row_which_is_named(tmp_path, caplog):
    path = tmp_path / "reviews.csv"
    rows = [f"text {i},{i % 2}" for i in range(200)]
    rows[50] = '"text 50,0'
    path.write_text("\n".join(["text,label", *rows]))
    with caplog.at_level("WARNING"):
        assert len(Csv(str(path)).examples) == 199
    assert "reviews.csv:52: a quote is opened and not closed" in caplog.text


@pytest.mark.parametrize(("reader", "header"), [(Tsv, "text\ttext\tlabel"), (Csv, "text,text,label")])
def test_a_column_that_stands_twice_is_no_one_s_choice(tmp_path, reader, header):
    path = tmp_path / "a"
    path.write_text(header + "\na,b,1\n")
    with pytest.raises(ConfigError, match="2 columns are called 'text'; rename all but one"):
        reader(str(path), text="text")
