"""Settings of the whole suite."""

import pytest
from hypothesis import settings

# The public suite for stores asserts as a test does, and is to fail as legibly.
pytest.register_assert_rewrite("turnstream.stores.conformance")

# Hypothesis times single examples. On a busy machine that fails tests at random; pytest's
# time-out bounds the test as a whole.
settings.register_profile("turnstream", settings(), deadline=None)
settings.load_profile("turnstream")
