"""The config system: YAML files that assemble components from the registry, checked against their signatures.

See docs/howto/config.md for the grammar and for how to add a component.
"""

from typing import TYPE_CHECKING

from framework.lazy import exports

if TYPE_CHECKING:
    from suites.engine.config.config import Config as Config
    from suites.engine.config.config import build_value as build_value
    from suites.engine.config.config import checked as checked
    from suites.engine.config.config import load_config as load_config
    from suites.engine.config.plain_values import plain as plain
    from suites.engine.config.schema.factory import Factory as Factory
    from suites.engine.config.schema.factory import OfRole as OfRole
    from suites.engine.config.schema.factory import Supplied as Supplied
    from suites.engine.config.schema.rules import RULES as RULES
    from suites.engine.config.schema.rules import Part as Part
    from suites.engine.config.schema.rules import Rules as Rules
    from suites.engine.config.schema.rules import rule as rule
    from suites.engine.config.tree.nodes import Problem as Problem

_MODULES = {
    "config": "Config build_value checked load_config",
    "plain_values": "plain",
    "schema.factory": "Factory OfRole Supplied",
    "schema.rules": "RULES Part Rules rule",
    "tree.nodes": "Problem",
}

__getattr__, __dir__ = exports(__name__, {name: module for module, names in _MODULES.items() for name in names.split()})
