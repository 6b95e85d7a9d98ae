"""The directive ``printed``: Python that runs while the page is built, shown with its output.

The blocks of a page share their names.
"""

import contextlib
import io

from docutils import nodes
from docutils.parsers.rst import Directive


class Printed(Directive):
    """A block of code, and its output below."""

    has_content = True

    def run(self):
        """Run the block and return both."""
        env = self.state.document.settings.env
        code = "\n".join(self.content)
        scopes = env.temp_data.setdefault("printed", {})
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(code, env.docname, "exec"), scopes)
        output = out.getvalue().rstrip()
        blocks = [nodes.literal_block(code, code, language="python")]
        # The first line says it all, and wraps; the lines of a table scroll below it.
        head, _, table = output.partition("\n")
        for part, kind in ((head, "headline"), (table, "table")):
            if part:
                classes = ["output", f"check-{kind}"]
                blocks.append(nodes.literal_block(part, part, language="none", classes=classes))
        return blocks


def setup(app):
    """Register the directive."""
    app.add_directive("printed", Printed)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
