"""Rules across the fields of a config whose model predicts the classes of its data."""

from __future__ import annotations

from collections.abc import Iterator

from suites.engine.config import Config, rule


def add_rules(suite: str, classes: str = "model.num_classes") -> None:
    """Adds them for a suite; `classes` is the key of what the model predicts."""

    @rule("data.train.batch_size", "data.eval.batch_size", suite=suite)
    def batches_hold_samples(config: Config) -> Iterator[tuple[str, str]]:
        """A batch holds at least one sample."""
        for path in ("data.train.batch_size", "data.eval.batch_size"):
            if config[path] < 1:
                yield path, f"is {config[path]}; it must be 1 or more"

    @rule(classes, "data.num_classes", suite=suite)
    def model_has_the_datas_classes(config: Config) -> Iterator[tuple[str, str]]:
        """The model predicts as many classes as the data have."""
        model, data = config[classes], config["data.num_classes"]
        if data is not None and model != data:
            yield classes, f'is {model} but data.num_classes is {data}; write "${{data.num_classes}}"'
