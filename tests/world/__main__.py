"""`python -m tests.world`; what it does is in a module of its own, where processes that it starts find it."""

from __future__ import annotations

import sys

from tests.world.run import main

if __name__ == "__main__":
    sys.exit(main())
