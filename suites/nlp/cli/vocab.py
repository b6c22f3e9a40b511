"""Learn the pieces of words of text files: `paddock vocab train.en train.de --size 8000 --output vocab.json`."""

from __future__ import annotations

from pathlib import Path


def main(words: list[str] | None = None, prog: str | None = None) -> int:
    """Write a vocabulary and return the exit status; `words` are the command line."""
    from suites.engine.command_line import Parser, add_import_option, run

    parser = Parser(
        prog=prog,
        description="Learn a vocabulary of all files together, for `tokenizer: {type: SubwordTokenizer, vocabulary: "
        "FILE}`. Name both sides of a translation for a joint one, "
        "or run it on each side for `tokenizer` and `target_tokenizer`.",
    )
    parser.add_argument("files", nargs="+", help="text files, also in a zip or .gz; of tables name --column")
    parser.add_argument("--output", type=Path, required=True, help="file to write")
    parser.add_argument("--size", type=int, default=8000, help="pieces at most (8000)")
    parser.add_argument("--pieces", choices=("bpe", "unigram"), default="bpe", help="how words are cut (bpe)")
    parser.add_argument("--lower-case", action="store_true", help="take capital letters as small ones")
    parser.add_argument("--column", action="append", default=[], help="of TSV, CSV and JSON lines; may come again")
    add_import_option(parser)
    a = parser.parse_args(words)

    def start() -> int:
        from framework.atomic import write_text
        from suites.nlp.datasets.found import texts_in
        from suites.nlp.tokenizers import SubwordTokenizer

        tokenizer = SubwordTokenizer(a.size, a.pieces, a.lower_case)
        tokenizer.learn(text for file in a.files for text in texts_in(file, a.column))
        write_text(a.output, tokenizer.written())
        print(f"{a.output}: {len(tokenizer.vocabulary)} pieces of {len(a.files)} files")
        return 0

    return run(start, a.imports)
