"""What every Python process does at its start while `scripts/sanitize` runs tests, those that tests start included.

An editable installation would put the repository's own build before the copy that is built with sanitizers.
"""

import sys

sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in type(finder).__module__]
