"""A model of vectors from a published BERT: `python tools/embedder.py cache/minilm_l6 --output minilm`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def main(words: list[str] | None = None) -> int:
    """Write the exported model and return the exit status; `words` are the command line."""
    from suites.engine.command_line import run
    from suites.engine.serving.pooling import POOLINGS

    parser = argparse.ArgumentParser(
        description="Export a checkpoint's encoder with its tokenizer, for tools/serve.py and tools/infer.py."
    )
    parser.add_argument("checkpoint", type=Path, help="folder with config.json, weights and vocab.txt")
    parser.add_argument("--output", type=Path, required=True, help="folder to write")
    parser.add_argument("--max-length", type=int, default=256, help="tokens of a text (256); longer ones are cut")
    parser.add_argument("--pooling", choices=POOLINGS, default="mean", help="how token vectors become one (mean)")
    parser.add_argument("--normalize", action="store_true", help="give vectors in predictions length 1")
    a = parser.parse_args(words)

    def start() -> int:
        from suites.nlp.embedder import export_embedder

        export_embedder(a.checkpoint, a.output, max_length=a.max_length, pooling=a.pooling, normalize=a.normalize)
        print(f"{a.output}: vectors by {a.pooling} of texts up to {a.max_length} tokens")
        return 0

    return run(start)


if __name__ == "__main__":
    sys.exit(main())
