"""Plug-ins: a user's module registers components, hooks, whole suites; a run remembers it, imports nothing unasked."""

import json
import sys
from functools import partial
from textwrap import dedent

import pytest

from framework import optim
from framework.errors import ConfigError
from suites.engine import Trainer
from suites.engine.config import load_config
from suites.engine.config.building import read_config, task_class
from suites.engine.config.plugins import import_plugins, modules_of, require_plugins
from suites.engine.predict.inference import open_model
from suites.engine.registry import REGISTRY, load_suites, register
from suites.engine.train.hooks import Hook
from suites.engine.train.training import evaluate_weights, train
from tests.suites.engine import toy
from tests.suites.engine.train.test_training import CONFIG

SUITE = """
from dataclasses import dataclass
from suites.engine.registry import register
from tests.suites.engine import toy

@register("config", "outside", suite="outside")
@dataclass(kw_only=True)
class OutsideConfig(toy.ToyConfig):
    '''A suite from outside.'''

@register("task", "outside", suite="outside")
class OutsideTask(toy.ToyTask):
    '''Its task.'''
"""


@register("hook", "PluginTestHook")
class Told(Hook):
    """Counts what it is told.

    Args:
        start: where it begins.
    """

    def __init__(self, start: int = 0) -> None:
        self.count = start

    def after_step(self, loop):
        self.count += 1
        (loop.folder / "told.txt").write_text(str(self.count))

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module into the working folder; afterwards it is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    written = []

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(dedent(text))
        written.append(name)
        return name

    yield write
    for name in written:
        sys.modules.pop(name, None)


def test_a_module_of_the_working_folder_is_imported_once(module, tmp_path):
    module("plugin_once", "open('ran.txt', 'a').write('x')")
    import_plugins(["plugin_once", "plugin_once"], "--import")
    assert (tmp_path / "ran.txt").read_text() == "x"


def test_what_is_installed_comes_before_the_working_folder(module):
    module("wave", "raise RuntimeError('shadowed')")
    sys.modules.pop("wave", None)
    import_plugins(["wave"], "--import")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("no_such_plugin", None, r"^--import: no module 'no_such_plugin' is installed or in "),
        ("plugin_wants", "import not_there", r"importing 'plugin_wants' failed: No module named 'not_there'"),
        ("plugin_breaks", "1 / 0", r"importing 'plugin_breaks' failed: ZeroDivisionError: division by zero"),
        ("my/plugin.py", None, r"'my/plugin.py' is no name of a module; write it as in Python's import, without .py"),
    ],
)
def test_a_module_that_cannot_be_imported_is_one_error(module, name, text, message):
    if text is not None:
        module(name, text)
    with pytest.raises(ConfigError, match=message):
        import_plugins([name], "--import")


def test_modules_of_components_are_those_outside_of_paddock_and_packages_stand_for_what_is_in_them():
    class Fake:
        def __init__(self, module):
            self.__module__ = module

    names = ["suites.vision.augmentation.transforms", "framework.optim", "__main__", "mine", "mine.nets", "other.nets"]
    assert modules_of(map(Fake, names)) == ["mine", "other.nets"]


def test_a_config_that_a_person_names_imports_what_it_says_and_a_run_does_not(module, tmp_path):
    module("plugin_suite", SUITE)
    (tmp_path / "outside.yml").write_text(CONFIG.replace("suite: toy", "suite: outside\nimports: [plugin_suite]"))
    load_config(tmp_path / "outside.yml", check=False)
    assert "plugin_suite" not in sys.modules  # which only looks at the file
    train(tmp_path / "outside.yml", runs=tmp_path, name="run")
    figures = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert "outside" in REGISTRY.suites() and task_class("outside").__name__ == "OutsideTask"
    load_suites(["outside"])
    sys.modules.pop("plugin_suite")
    for use in (read_config, evaluate_weights, open_model):
        with pytest.raises(ConfigError, match="add --import plugin_suite to the command, or import it before"):
            use(tmp_path / "run")
    with pytest.raises(ConfigError, match="add --import plugin_suite to the command"):
        load_config(tmp_path / "run" / "config.yml")
    assert "plugin_suite" not in sys.modules
    sys.modules["plugin_suite"] = sys.modules[__name__]  # as if imported; its components are registered still
    assert evaluate_weights(tmp_path / "run")["score"] == figures["score"]


def test_an_unknown_suite_is_told_those_of_plug_ins(module, tmp_path):
    register("config", "farout", suite="farout")(type("FarOut", (), {}))
    (tmp_path / "x.yml").write_text("suite: faraut\n")
    with pytest.raises(ConfigError, match="no suite is called 'faraut'; did you mean 'farout'"):
        load_config(tmp_path / "x.yml")


@pytest.mark.parametrize("imports", ["plugin", "[1]", "{a: b}"])
def test_imports_is_a_list_of_names(tmp_path, imports):
    (tmp_path / "x.yml").write_text(f"suite: toy\nimports: {imports}\n")
    with pytest.raises(ConfigError, match=r"imports: expects a list of modules' names, found"):
        load_config(tmp_path / "x.yml")


def test_what_is_needed_is_named_with_the_options_to_add():
    with pytest.raises(ConfigError, match=r"run: it needs a_b, c_d, which is not .* add --import a_b --import c_d"):
        require_plugins(["a_b", "sys", "c_d"], "run")


def test_a_config_names_hooks_and_they_resume(tmp_path):
    (tmp_path / "toy.yml").write_text(CONFIG + "hooks: [{type: PluginTestHook, start: 100}]\n")
    train(tmp_path / "toy.yml", runs=tmp_path)
    assert (tmp_path / "toy/told.txt").read_text() == "120"
    train(tmp_path / "toy", resume=True)
    state = json.loads((tmp_path / "toy/weights/step_00000020/state.json").read_text())
    assert state["hooks"]["Told"]["count"] == 120
    with pytest.raises(ConfigError, match=r"hooks\[0\].type: no hook is called 'PluginTestHok'; did you mean 'Plugin"):
        load_config(tmp_path / "toy.yml", ["hooks[0].type=PluginTestHok"])


def test_a_run_of_objects_remembers_its_modules_and_the_hooks_that_a_config_can_name(tmp_path):
    class Unnamed(Hook):
        pass

    trainer = Trainer(
        toy.ToyTask(),
        optimizer=optim.SGD,
        schedule=partial(optim.Constant, base_lr=0.1),
        steps=2,
        workers=0,
        hooks=[Told(start=5), Unnamed()],
    )
    written = trainer.config.as_dict()
    assert written["hooks"] == [{"type": "PluginTestHook", "start": 5}]
    assert written["imports"] == sorted([toy.__name__, __name__])
