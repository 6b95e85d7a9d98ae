"""The one topic that tests/topic.py runs, if it does; nothing else is collected then."""

import os

#: The topic that tests/topic.py runs, "" for all.
TOPIC = os.environ.get("DLREF_TOPIC", "")


def is_selected(*names):
    """Return whether a test of these names is run: of one topic those that -k would select."""
    return any(TOPIC in name for name in names)
