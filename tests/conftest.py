"""Options, profiles and fixtures of the suite."""

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# The same examples on every run; `--hypothesis-profile=long` looks for new ones, for hours, `short` is for
# sanitizers, whose fuzz targets look for more.
PROFILE = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("ci", max_examples=60, derandomize=True, database=None, **PROFILE)
settings.register_profile("short", max_examples=15, derandomize=True, database=None, **PROFILE)
settings.register_profile("long", max_examples=20_000, **PROFILE)
settings.load_profile("ci")


def pytest_addoption(parser):
    parser.addoption("--bigmem", action="store_true", help="run the tests that need about 6 GiB of free memory")
    parser.addoption("--soak", type=float, metavar="SECONDS", help="run the long tests of many threads, so long each")


def pytest_collection_modifyitems(config, items):
    for marker in ("bigmem", "soak"):
        if config.getoption(marker):
            continue
        skip = pytest.mark.skip(reason=f"needs --{marker}")
        for item in items:
            if item.get_closest_marker(marker):
                item.add_marker(skip)


@pytest.fixture
def rng():
    return np.random.default_rng(20240607)
