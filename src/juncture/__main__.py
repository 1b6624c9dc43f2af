"""`python -m juncture` is the command `juncture`."""

import sys

from juncture.cli import main

if __name__ == "__main__":
    sys.exit(main())
