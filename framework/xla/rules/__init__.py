"""The rules, one file a family of operators; importing them fills the table of `framework.xla.lower`."""

from framework.modules import import_all

import_all(__name__)
