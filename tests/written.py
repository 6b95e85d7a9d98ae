"""
Write every file that follows from others: ``tox run -e written -- squareplus``.

These are the stubs of the chapters, the table of names elsewhere, and the lists of where displayed
equations stand and which inline relations are checked. Read the difference before you commit it. It
takes seconds for a name, of a topic or a chapter; without one, all inline definitions are read
again, which takes four minutes.
"""

import sys

import stubs


def main(topic=""):
    stubs.main()
    # These load dlref, which is loaded from the stubs.
    import test_names  # noqa: PLC0415
    from equations import defined, inline, places  # noqa: PLC0415

    test_names.write()
    places.load_checks()
    places.write()
    inline.main()
    defined.main(topic)


if __name__ == "__main__":
    main(*sys.argv[1:])
