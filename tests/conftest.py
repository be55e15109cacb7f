"""Options, profiles and fixtures of the suite."""

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# The same examples on every run; `--hypothesis-profile=long` looks for new ones, for hours.
PROFILE = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("ci", max_examples=80, derandomize=True, database=None, **PROFILE)
settings.register_profile("long", max_examples=20_000, **PROFILE)
settings.load_profile("ci")


def pytest_addoption(parser):
    parser.addoption("--bigmem", action="store_true", help="run the tests that need about 6 GiB of free memory")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--bigmem"):
        return
    skip = pytest.mark.skip(reason="needs --bigmem")
    for item in items:
        if item.get_closest_marker("bigmem"):
            item.add_marker(skip)


@pytest.fixture
def rng():
    return np.random.default_rng(20240607)
