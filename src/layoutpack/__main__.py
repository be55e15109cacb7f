"""``python -m layoutpack``."""

import sys

from layoutpack._cli import main

if __name__ == "__main__":
    sys.exit(main())
