"""Files that appear whole or not at all; see `framework.atomic`."""

from framework.atomic import atomic_file as atomic_file
from framework.atomic import atomic_folder as atomic_folder
from framework.atomic import flush as flush
from framework.atomic import remove_folder as remove_folder
from framework.atomic import remove_leftovers as remove_leftovers
from framework.atomic import write_text as write_text
