"""The pages of the documentation: their blocks, in order, and what the conventions of the tested ones are.

- ```sql: a whole app. Where its first line is `-- name.siddhi`, that is its file's name in the console blocks of the page.
- ```events after it: a line is `ms  Stream  values` (values as JSON, commas between them); `&` instead of the time: in the same chunk as the event
  before; a time alone lets time pass.
- ```rows after that: `ms  Stream  values` of all rows of the streams that it names, in the order in which they come, with the clock at that moment.
- ```trace after an app: events and, below each, what comes out of it (see `languagetraces`).
- ```text whose first line is `-- name.siddhi`: a file for console blocks that is no app.
- ```yaml whose first line is `# name.yaml`: likewise.
- ```console: `$ nadi check …`, `$ nadi explain …` and `$ nadi test …` with what they print; other commands are not run.
- ```python: runs, all blocks of a page one after another with the same names; ```output after it is what it prints.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
AT_THE_ROOT = tuple(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))
IN_THE_SITE = tuple(sorted((ROOT / "docs").rglob("*.md")))
PAGES = (*AT_THE_ROOT, *IN_THE_SITE)
_FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"(?:--|#) (\S+\.(?:siddhi|yaml))\n")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page; `line` is where its text begins."""

    page: Path
    line: int
    kind: str
    text: str

    @property
    def name(self) -> str:
        """The file that it is, "" for none."""
        found = _FILE.match(self.text)
        return found[1] if found else ""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [Block(page, text.count("\n", 0, m.start(2)) + 1, m[1], m[2]) for m in _FENCE.finditer(text)]


ALL = [block for page in PAGES for block in blocks(page)]


def of_kind(kind: str) -> list[Block]:
    return [block for block in ALL if block.kind == kind]


def examples() -> list[tuple[Block, Block, Block]]:
    """(app, events, rows) that follow each other."""
    triples = zip(ALL, ALL[1:], ALL[2:], strict=False)
    return [t for t in triples if [b.kind for b in t] == ["sql", "events", "rows"] and t[0].page == t[2].page]
