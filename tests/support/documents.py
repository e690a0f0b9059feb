"""Reads the project's own files: which there are, what their commands and links say."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT_SUFFIXES = {
    ".md",
    ".py",
    ".toml",
    ".txt",
    ".json",
    ".yml",
    ".yaml",
    ".js",
    ".html",
    ".css",
    "",
}
SKIPPED_FOLDERS = {"out", "build", "dist", "node_modules", "runs", "htmlcov"}


def text_files() -> Iterator[Path]:
    """Yield every text file of the project, hidden folders other than .ci left out."""
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        is_hidden = any(part.startswith(".") and part != ".ci" for part in parts[:-1])
        if is_hidden or SKIPPED_FOLDERS.intersection(parts) or "__pycache__" in parts:
            continue
        if path.is_file() and path.suffix in TEXT_SUFFIXES:
            yield path


def markdown_files() -> list[Path]:
    """Return every Markdown file of the project."""
    return [path for path in text_files() if path.suffix == ".md"]


def local_links(markdown: str) -> list[str]:
    """Return the targets of links and pictures that are not on the web."""
    targets = re.findall(r"!?\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)", markdown)
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def anchors(markdown: str) -> set[str]:
    """Return the anchors that the headings of a page make."""
    titles = re.findall(r"^#+\s+(.*?)\s*$", markdown, flags=re.MULTILINE)
    cleaned = (re.sub(r"[^\w\- ]", "", title.lower()) for title in titles)
    return {title.replace(" ", "-") for title in cleaned}


def code_lines(markdown: str, *, language: str) -> list[str]:
    """Return the lines of all fenced blocks in `language`; comments and prompts are removed.

    A line that ends in a backslash goes on in the next one.
    """
    blocks = re.findall(rf"^```{language}\n(.*?)^```", markdown, flags=re.MULTILINE | re.DOTALL)
    joined = "\n".join(blocks).replace("\\\n", " ")
    lines = (re.sub(r"\s+#.*$", "", line).strip() for line in joined.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def code_blocks(markdown: str, *, language: str) -> list[str]:
    """Return the text of all fenced blocks in `language`."""
    return re.findall(rf"^```{language}\n(.*?)^```", markdown, flags=re.MULTILINE | re.DOTALL)
