"""The pages of the language reference: ``noetl_compiler/reference`` in the wheel, ``dev/reference`` in a checkout."""

from __future__ import annotations

from pathlib import Path

__all__ = ["page", "pages"]

_PACKAGE = Path(__file__).parent
_IN_WHEEL = _PACKAGE / "reference"
_FOLDER = _IN_WHEEL if _IN_WHEEL.is_dir() else _PACKAGE.parents[1] / "dev" / "reference"


def pages() -> dict[str, str]:
    """Return the title of every page, by name."""
    names = sorted(file.stem for file in _FOLDER.glob("*.md"))
    return {name: page(name).partition("\n")[0].removeprefix("# ") for name in names}


def page(name: str) -> str:
    """Return the text of a page, in Markdown. Raises FileNotFoundError."""
    return (_FOLDER / f"{name}.md").read_text("utf-8")
