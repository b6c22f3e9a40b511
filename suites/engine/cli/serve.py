"""Serve models over HTTP: `paddock serve exported --port 8080`, or several: `paddock serve boxes=yolo words=bert`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from framework.errors import AttributeValueError, ConfigError

if TYPE_CHECKING:
    from suites.engine.predict.model import Model
    from suites.engine.serving.models import Offer


def options(prog: str | None = None) -> argparse.ArgumentParser:
    """Return what the command line takes."""
    from suites.engine.command_line import Defaults, Parser, add_import_option, add_others_option
    from suites.engine.hosts.devices import add_device_option, add_products_option

    parser = Parser(
        prog=prog,
        description="Serve embeddings, scores and written texts over HTTP; see docs/howto/serving.md.",
        formatter_class=Defaults,
    )
    parser.add_argument(
        "models",
        nargs="+",
        help="MODEL or NAME=MODEL: an export's folder, a folder of its versions (1, 2, ...), a run, an ONNX or "
        ".tflite file, a checkpoint's folder as transformers saves it, or a name of `zoo list`; NAME=A@0.9,B@0.1 "
        "shares requests out between two",
    )
    parser.add_argument("--fetch", action="store_true", help="fetch published weights that are not here")
    parser.add_argument("--weights", type=Path, help="a safetensors file; by default a run's best; of one model")
    add_others_option(parser)
    parser.add_argument("--name", help="of the model, in paths and answers; by default the folder's; of one model")
    parser.add_argument(
        "--memory-mb", type=float, help="for all models: weights, arenas, caches; by default the machine's"
    )
    parser.add_argument("--look-seconds", type=float, default=1.0, help="between two looks for newer versions")
    parser.add_argument("--host", default="127.0.0.1", help="address; 0.0.0.0 is seen from other machines")
    parser.add_argument("--port", type=int, default=8080, help="0 takes a free one")
    parser.add_argument("--grpc-port", type=int, help="answer over gRPC there too; 0 takes a free one")
    parser.add_argument("--workers", type=int, default=1, help="batches that run at the same time")
    parser.add_argument("--threads", type=int, help="for kernels; with many workers 1 is best; by default all cores")
    parser.add_argument("--max-tokens", type=int, default=4096, help="of a batch (items, where a model has no tokens)")
    parser.add_argument("--max-batch", type=int, default=256, help="items of a batch")
    parser.add_argument("--max-wait-ms", type=float, default=0.0, help="that a batch which is not full waits for more")
    parser.add_argument("--max-queue", type=int, default=4096, help="items that may wait; then requests get 503")
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds for an answer")
    parser.add_argument("--max-body-mb", type=float, default=16.0, help="of a request")
    parser.add_argument("--max-items", type=int, default=1024, help="of a request")
    parser.add_argument("--max-chars", type=int, default=100_000, help="of an item")
    parser.add_argument("--max-values", type=int, default=1 << 20, help="of a request's JSON")
    parser.add_argument("--max-pixels", type=int, default=1 << 26, help="of an image")
    parser.add_argument("--max-decoded-mb", type=float, default=256.0, help="of a request's images, once decoded")
    parser.add_argument("--readers", type=int, default=2, help="processes that read requests' items; 0 has no bound")
    parser.add_argument("--read-seconds", type=float, default=5.0, help="for a request's items; then it gets 504")
    parser.add_argument("--max-connections", type=int, default=1024, help="requests at a time; then they get 503")
    parser.add_argument("--allow-host", action="append", default=[], metavar="NAME", help="a name it is asked by")
    parser.add_argument("--allow-origin", action="append", default=[], metavar="SITE", help="whose pages may ask it")
    parser.add_argument("--tls-cert", type=Path, help="a certificate in PEM format, for TLS")
    parser.add_argument("--tls-key", type=Path, help="its key")
    parser.add_argument("--drain", type=float, default=30.0, help="seconds to finish requests after SIGTERM or Ctrl-C")
    parser.add_argument("--token-file", type=Path, help="a file with the token that clients must show")
    writes = parser.add_argument_group("texts that are written, by a run of a language model")
    writes.add_argument("--cache-mb", type=float, default=512.0, help="of keys and values")
    writes.add_argument("--max-new-tokens", type=int, default=1024, help="of a text")
    writes.add_argument("--max-writing", type=int, default=32, help="texts that are written at the same time")
    writes.add_argument("--max-waiting", type=int, default=1024, help="texts that wait; then requests get 503")
    writes.add_argument("--step-tokens", type=int, default=256, help="of a step; longer prompts take several")
    writes.add_argument("--write-seconds", type=float, default=300.0, help="for a request's texts")
    writes.add_argument("--eight-bits", action="store_true", help="keep the weights of products in 8 bits")
    add_device_option(parser, "a run's own, the cpu for an export")
    add_products_option(parser)
    add_import_option(parser)
    return parser


_WRITING = (
    "cache_mb", "max_new_tokens", "max_writing", "max_waiting", "step_tokens", "write_seconds", "eight_bits",
)  # fmt: skip


def main(words: list[str] | None = None, prog: str | None = None) -> int:
    """Serve until told to end and return the exit status; `words` are the command line."""
    from suites.engine.command_line import given_options, run

    parser = options(prog)
    a = parser.parse_args(words)

    def start() -> int:
        from framework.limits import allow

        try:
            from suites.engine.contract.capabilities.generating import CacheSettings
            from suites.engine.serving.batcher import Limits
            from suites.engine.serving.generation.requests import EngineLimits
            from suites.engine.serving.models import Writes
            from suites.engine.serving.service import Settings
            from suites.engine.serving.web.server import Place, Server, read_token

            if a.grpc_port is not None:
                import suites.engine.serving.web.rpc  # noqa: F401 (its library may be missing)
        except ImportError as error:
            from framework.extras import install_command

            extra = "grpc" if (error.name or "").partition(".")[0] in ("grpc", "google") else "serve"
            print(f"error: {error}; install what serving needs: {install_command(extra)}", file=sys.stderr)
            return 2

        if len(a.models) > 1 and (a.name or a.weights or a.others):
            raise ConfigError("serve: --name, --weights and --with are of one model; name each as NAME=FOLDER")
        for name in ("memory_mb", "look_seconds"):
            if getattr(a, name) is not None and not getattr(a, name) > 0:
                raise AttributeValueError(f"serve: --{name.replace('_', '-')} is {getattr(a, name):g}; it is above 0")
        offers = [_offer(word, a.name, _opener(a)) for word in a.models]
        settings = Settings(
            name=offers[0].name,
            workers=a.workers,
            limits=Limits(a.max_tokens, a.max_batch, a.max_wait_ms / 1000, a.max_queue),
            timeout=a.timeout,
            max_body=int(a.max_body_mb * 2**20),
            max_items=a.max_items,
            max_chars=a.max_chars,
            max_values=a.max_values,
            max_decoded=int(a.max_decoded_mb * 2**20),
            max_decoded_all=int(max(4 * a.max_decoded_mb, 1024) * 2**20),
            readers=a.readers,
            read_seconds=a.read_seconds,
        )
        token = None if a.token_file is None else read_token(a.token_file)
        place = Place(
            a.host,
            a.port,
            a.max_connections,
            a.drain,
            token,
            hosts=tuple(a.allow_host),
            origins=tuple(a.allow_origin),
            certificate=a.tls_cert,
            key=a.tls_key,
            grpc_port=a.grpc_port,
        )
        with allow(pixels=a.max_pixels):
            limits = EngineLimits(
                new_tokens=a.max_new_tokens,
                waiting=a.max_waiting,
                sequences=a.max_writing,
                step_tokens=a.step_tokens,
                seconds=a.write_seconds,
            )
            server = Server(
                offers,
                settings,
                place,
                writes=Writes(CacheSettings(a.cache_mb, int8=a.eight_bits), limits),
                memory=None if a.memory_mb is None else int(a.memory_mb * 2**20),
                every=a.look_seconds,
            )
            idle = given_options(parser, a, _WRITING)
            if idle and not any(version.engine for version in server.models.versions):
                server.models.close(0)
                raise ConfigError(
                    f"serve: {', '.join(idle)}: of models that write texts, which {', '.join(a.models)} does not; "
                    "leave it out, or serve the run of a language model"
                )
            names = ", ".join(offer.name for offer in offers)
            also = "" if server.grpc_address is None else f", over gRPC at {server.grpc_address}"
            print(f"serving {names} at {server.url} (documentation: {server.url}/docs){also}", flush=True)
            return server.run()

    return run(start, a.imports)


def _opener(a: argparse.Namespace) -> Callable[[Path], Model]:
    """What opens a model as the command line says."""

    def opened(path: Path) -> Model:
        from framework import set_num_threads
        from suites.engine.predict.inference import open_model
        from suites.engine.weights.runs import named_run

        if a.fetch and not path.exists():
            named_run(str(path), fetch_all=True)
        model = open_model(path, a.weights, device=a.device, products=a.products, others=a.others)
        if a.threads is not None:  # after a run's config, which may set it too
            set_num_threads(a.threads)
        return model

    return opened


def _offer(word: str, name: str | None, opened: Callable[[Path], Model]) -> Offer:
    """What `[NAME=]FOLDER` or `[NAME=]FOLDER@SHARE,FOLDER@SHARE` asks for; a path that is there is one as it stands."""
    from suites.engine.serving.models import Offer, Share
    from suites.engine.serving.versions import Source

    given, has_name, rest = ("", "", word) if Path(word).exists() else word.partition("=")
    if has_name and rest and name:
        raise ConfigError(f"serve: {word} has a name, and --name says {name}; leave one of them out")
    if not has_name:
        given, rest = "", word
    if has_name and (not given or not rest or set("/@,") & set(given)):
        raise ConfigError(f"serve: {word}: it is NAME=FOLDER, and a name has none of / @ ,")
    parts = [rest] if Path(rest).exists() or "," not in rest else rest.split(",")
    if len(parts) == 1:
        path = Path(rest)
        return Offer(given or name or path.resolve().name, (Share(Source(path, opened), 1.0),))
    if not (given or name):
        raise ConfigError(f"serve: {word}: models that share requests need a name of their own: NAME={word}")
    folders = [part.rpartition("@") for part in parts]
    shares = []
    for folder, _, share in folders:
        try:
            shares.append(Share(Source(Path(folder), opened, Path(folder).resolve().name), float(share)))
        except ValueError:
            form = "NAME=FOLDER@SHARE,FOLDER@SHARE, such as ranking=old@0.9,new@0.1"
            raise ConfigError(f"serve: {word}: it is {form}") from None
    return Offer(given or name or "", tuple(shares))
