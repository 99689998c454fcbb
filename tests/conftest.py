"""Settings for all tests."""

import signal

from hypothesis import settings

# why: examples are the same on every machine, and a busy machine is no failure
settings.register_profile("hwdag", deadline=None, derandomize=True)
settings.load_profile("hwdag")

# why: what a shell starts in the background ignores Ctrl-C, and so would everything under test
signal.signal(signal.SIGINT, signal.default_int_handler)
