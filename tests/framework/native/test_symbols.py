"""What the native libraries show to others in the process."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from framework import _core


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("nm"), reason="reads ELF's tables by binutils' nm")
def test_no_library_shows_a_c_plus_plus_library_that_it_was_linked_with():
    # Ubuntu 24.04 with `-static-libstdc++`: NumPy's libstdc++ and ours were mixed, and the first stream crashed.
    folder = Path(_core.__file__).parent
    libraries = [Path(_core.__file__), *(folder / "lib").glob("*.so")]
    assert len(libraries) >= 3
    for library in libraries:
        shown = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True)
        assert "_ZNSt6locale" not in shown.stdout and "_ZSt4cout" not in shown.stdout, library
