"""A trained run as a repository of a model hub, and back: `paddock zoo push`, `paddock zoo pull`.

The repository holds the config, what stands around the network, the figures, the weights as safetensors, and a model
card that the hub shows. Nothing in it is code, and nothing is run when it is read.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path, PureWindowsPath
from typing import Any

import yaml

from framework.atomic import copy_file, make_folder, write_text
from framework.errors import CheckpointError, ConfigError
from framework.extras import DISTRIBUTION
from framework.io import load_metadata
from framework.outside import read_json
from suites.engine.config import Config, load_config
from suites.engine.config.tree.yaml_text import dump_text
from suites.engine.run.folder import RunFolder, best_weights
from suites.engine.weights.hub.names import endpoint, parse

CONFIG, PROCESSOR, METRICS = "config.yml", "processor.json", "metrics.json"
WEIGHTS, CARD = "model.safetensors", "README.md"
_PIPELINES = {  # the hub's names of tasks
    "detection": "object-detection",
    "segmentation": "image-segmentation",
    "classification": "image-classification",
    "video": "video-classification",
    "ctr": "tabular-classification",
}
_PLACE = re.compile(r"[/~]|[A-Za-z]:[\\/]|file:")
_NOT_FIGURES = ("step", "epoch")
_MOST_CLASSES = 60  # named in a card


def pack(run: Path, folder: Path, name: str, licence: str) -> list[Path]:
    """Write the files of a repository; return them.

    Where things lay is not told: of paths from a root or a home on, the config keeps the last name alone.

    Args:
        run: a run folder with weights.
        folder: where to; it must be empty or not be there.
        name: `hf:OWNER/NAME`, for the card.
        licence: of the weights, as the hub writes it, such as apache-2.0.

    Raises:
        ConfigError: the folder is taken, or the run cannot be shared in this form.
        CheckpointError: there is no run, or it has no weights.
    """
    repository = parse(name)
    source = RunFolder(run)
    if not source.config.is_file() or not source.processor.is_file():
        raise CheckpointError(f"{run}: is no run; give the folder that `paddock train` wrote")
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder}: is not empty, so it is not written; name another folder")
    weights = best_weights(source)
    if "paddock.resources" in load_metadata(weights):
        raise ConfigError(
            f"{run}: its model keeps rows beside its weights, which a repository has no place for; share an export: "
            f"`paddock export {run} FOLDER`"
        )
    config = load_config(source.config, check=False)
    make_folder(folder)
    write_text(folder / CONFIG, dump_text(_without_places(config.as_written())))
    copy_file(source.processor, folder / PROCESSOR)
    figures = _figures(source.metrics)
    write_text(folder / METRICS, json.dumps(figures, indent=2) + "\n")
    copy_file(weights, folder / WEIGHTS)
    processor = read_json(source.processor)
    write_text(folder / CARD, card(repository.id, licence, config, figures, processor, source))
    return [folder / each for each in (CARD, CONFIG, PROCESSOR, METRICS, WEIGHTS)]


def unpack(folder: Path, run: Path) -> None:
    """Make a run folder of a repository's files, for infer, eval, export, serve and further training.

    Raises:
        CheckpointError: a file is missing or damaged.
        ConfigError: the run folder is taken.
    """
    missing = [name for name in (CONFIG, PROCESSOR, WEIGHTS) if not (folder / name).is_file()]
    if missing:
        raise CheckpointError(f"{folder}: is no shared run of Paddock; it has no {', '.join(missing)}")
    config = load_config(folder / CONFIG, check=False)
    made = RunFolder.create(run, config)
    try:
        copy_file(folder / PROCESSOR, made.processor)
        if (folder / METRICS).is_file():
            copy_file(folder / METRICS, made.metrics)
        copy_file(folder / WEIGHTS, made.weights / "best.safetensors")
    finally:
        made.close()


def is_shared_run(folder: Path) -> bool:
    """Whether a folder holds what `pack` wrote."""
    return all((folder / name).is_file() for name in (CONFIG, PROCESSOR, WEIGHTS))


def upload(folder: Path, name: str, *, private: bool) -> str:
    """Send a folder of `pack` to the hub, into a repository that is made where it is not there; return its address.

    The token is that of the environment (`HF_TOKEN`) or of `hf auth login`.

    Raises CheckpointError where the hub refuses or does not answer.
    """
    repository = parse(name)
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        raise CheckpointError(f"{name}: HF_HUB_OFFLINE is set, so nothing is sent")
    from huggingface_hub import HfApi

    api = HfApi(endpoint=endpoint())
    try:
        api.create_repo(repository.id, private=private, exist_ok=True)
        api.upload_folder(repo_id=repository.id, folder_path=folder, commit_message="A run of Paddock")
    except Exception as error:  # of whichever client the installed release uses
        text = str(error).partition("\n")[0][:200] or type(error).__name__
        raise CheckpointError(
            f"{name}: {endpoint()} did not take it ({text}); a token that may write is needed, in HF_TOKEN; "
            f"the files are in {folder}"
        ) from None
    return f"{endpoint()}/{repository.id}"


def card(name: str, licence: str, config: Config, figures: Mapping[str, float], processor: Any, run: RunFolder) -> str:
    """The model card: what it is, how it is used, how good it is, what it must not be trusted with."""
    values = config.as_dict()
    suite, model = str(values.get("suite", "")), values.get("model", {})
    kind = model.get("type", "model") if isinstance(model, dict) else "model"
    classes = [str(each) for each in processor.get("class_names") or ()] if isinstance(processor, dict) else []
    head: dict[str, Any] = {"license": licence, "library_name": "paddock", "tags": ["paddock", suite]}
    if suite in _PIPELINES:
        head["pipeline_tag"] = _PIPELINES[suite]
        head["model-index"] = [
            {
                "name": name.partition("/")[2],
                "results": [
                    {
                        "task": {"type": _PIPELINES[suite]},
                        "dataset": {"name": "the evaluation set of the run", "type": "own"},
                        "metrics": [{"type": key, "value": value} for key, value in figures.items()],
                    }
                ],
            }
        ]
    shown = classes[:_MOST_CLASSES] + ([f"and {len(classes) - _MOST_CLASSES} more"] * (len(classes) > _MOST_CLASSES))
    lines = [
        "---",
        yaml.safe_dump(head, sort_keys=False, allow_unicode=True).rstrip(),
        "---",
        "",
        f"# {name}",
        "",
        f"A {kind} of [Paddock](https://pypi.org/project/paddock-zoo), suite `{suite}`, trained on its author's data.",
        "",
        "## Use",
        "",
        f"    paddock infer hf:{name} INPUT --output drawn --fetch",
        f"    paddock zoo pull hf:{name} --output runs/{name.partition('/')[2]}",
        "",
        "```python",
        "from suites import engine",
        "",
        f'engine.load("hf:{name}")(["input"])',
        "```",
        "",
        *(["## Classes", "", ", ".join(shown), ""] if classes else []),
        "## Figures",
        "",
        *(["| figure | value |", "|---|---|"] + [f"| {key} | {value:.4g} |" for key, value in figures.items()]),
        "",
        f"Of the evaluation set of the run, by `paddock train` with `{CONFIG}` of this repository"
        + (f" ({_machine(run)})." if _machine(run) else "."),
        "",
        "## Limits",
        "",
        "These figures are of one data set. Test the model on yours before you rely on it. State here what the data "
        "were, what they lack, and what the model must not be used for.",
        "",
    ]
    return "\n".join(lines)


def _machine(run: RunFolder) -> str:
    """The release that trained, where the run's folder says so."""
    try:
        found = read_json(run.environment)
        return f"Paddock {found['packages'][DISTRIBUTION]}"
    except (OSError, ValueError, TypeError, KeyError):
        return ""


def _figures(path: Path) -> dict[str, float]:
    """The figures of the best weights; none where the run was never evaluated."""
    if not path.is_file():
        return {}
    try:
        found = read_json(path)
        return {str(k): float(v) for k, v in found.items() if k not in _NOT_FIGURES and not isinstance(v, dict)}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise CheckpointError(f"{path}: is damaged ({error})") from None


def _without_places(value: Any) -> Any:
    """A config's values whose paths from a root or a home on are their last names alone."""
    if isinstance(value, dict):
        return {key: _without_places(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_places(each) for each in value]
    if isinstance(value, str) and _PLACE.match(value):
        name = PureWindowsPath(value).name or "data"  # it knows both kinds of slashes
        return type(value)(name)  # a reference stays one
    return value
