"""The config system: YAML files that assemble components from the registry, checked against their signatures.

See docs/howto/config.md for the grammar and for how to add a component.
"""

from suites.engine.config.config import Config, build_value, checked, load_config
from suites.engine.config.plain import plain
from suites.engine.config.schema.factory import Factory, OfRole, Supplied
from suites.engine.config.schema.rules import RULES, Part, Rules, rule
from suites.engine.config.tree.nodes import Problem

__all__ = [
    "RULES",
    "Config",
    "Factory",
    "OfRole",
    "Part",
    "Problem",
    "Rules",
    "Supplied",
    "build_value",
    "checked",
    "load_config",
    "plain",
    "rule",
]
