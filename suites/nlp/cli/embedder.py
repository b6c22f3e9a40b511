"""Export a model of vectors from a published BERT or a run: `paddock embedder cache/minilm_l6 --output minilm`."""

from __future__ import annotations

from pathlib import Path


def main(words: list[str] | None = None, prog: str | None = None) -> int:
    """Write the exported model and return the exit status; `words` are the command line."""
    from suites.engine.command_line import Parser, add_import_option, run
    from suites.engine.serving.pooling import POOLINGS

    parser = Parser(
        prog=prog, description="Export an encoder with its tokenizer, for `paddock serve` and `paddock infer`."
    )
    parser.add_argument("source", type=Path, help="a run, or a folder with config.json, weights and vocab.txt")
    parser.add_argument("--output", type=Path, required=True, help="folder to write")
    parser.add_argument("--max-length", type=int, help="tokens of a text (the source's own, or 256); longer are cut")
    told = "how token vectors become one (what sentence-transformers keeps in the folder, else mean)"
    parser.add_argument("--pooling", choices=POOLINGS, help=told)
    parser.add_argument("--layer", type=int, help="of a Bert, whose vectors are taken, from 1 on (the last)")
    parser.add_argument("--alone", action="store_true", help="of a run: take single texts and give vectors only")
    parser.add_argument("--normalize", action="store_true", default=None, help="give vectors length 1")
    add_import_option(parser)
    a = parser.parse_args(words)

    def start() -> int:
        from suites.nlp.embedder import export_embedder, export_run_embedder

        options = {"max_length": a.max_length, "layer": a.layer}
        if (a.source / "config.yml").is_file():
            pooling = a.pooling or "mean"
            export_run_embedder(
                a.source, a.output, pooling=pooling, normalize=bool(a.normalize), alone=a.alone, **options
            )
        else:
            pooling = export_embedder(a.source, a.output, pooling=a.pooling, normalize=a.normalize, **options)
        print(f"{a.output}: vectors by {pooling} of what {a.source} encodes")
        return 0

    return run(start, a.imports)
