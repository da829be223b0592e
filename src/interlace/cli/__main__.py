"""``python -m interlace.cli``: the same as the ``interlace`` command."""

import sys

from . import main

if __name__ == "__main__":
    sys.exit(main())
