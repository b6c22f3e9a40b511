"""`python -m framework.table.remote SPEC` is a shard; see `framework.table.remote.process`."""

import sys

from framework.table.remote.process import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
