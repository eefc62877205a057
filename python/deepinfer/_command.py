"""The installed command `deepinfer`: hands over to the C++ program inside the package.

The program is told where the package lies (for the bundled checkpoint) and which Python has it (for
downloads). In a source tree, build/release/apps/deepinfer is the program itself.
"""

import os
import sys
from pathlib import Path
from typing import NoReturn


def main() -> NoReturn:
    package = Path(__file__).parent
    os.environ.setdefault("DEEPINFER_PACKAGE_DIR", str(package))
    os.environ.setdefault("DEEPINFER_PYTHON", sys.executable)
    os.execv(package / "bin" / "deepinfer", ["deepinfer", *sys.argv[1:]])
