"""Tags by which testing/run chooses tests."""

# For `testing/run --long` alone: a test that asks over one device, or more thoroughly, what another one asks as well. Not
# "long", which for Bazel is a tag of every test with that timeout.
THOROUGH = "thorough"

# Under ThreadSanitizer with `testing/run --long` alone: it takes long there, up to minutes, and others have the same threads.
SLOW_TSAN = "slow_tsan"
