"""Programs in interpreters of their own, for what cannot be tested inside the test's: forks, signals, environments."""

import os
import subprocess
import sys
import textwrap

LIMIT = 20  # seconds within which nothing may hang


def run_python(code, *, limit=LIMIT, **environment):
    """Run a program in a fresh interpreter; it must end within the limit."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )
