"""Hooks of the documentation site: the pages that no file of `docs/` holds, and links between all pages.

- The front page is README.md.
- Each namespace has a page with the signature and the docstring of every public name.
- A link to a file outside `docs/` leads to a page that shows the file.
- The navigation lists every page, under its own title.
"""

import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.public_api import public_modules  # noqa: E402 - the scripts import each other from the root

LINK = re.compile(r"(\]\()(?!https?:|mailto:|#)([^)#\s]+)")
PICTURES = (".png", ".svg")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make the navigation: the pages of each folder, in the order in which its README lists them."""
    folders = {"How-to guides": "how-to", "Explanation": "explanation", "Reference": "reference"}
    sections = [{title: listed_pages(folder)} for title, folder in folders.items()]
    names = [f"reference/api/{module.__name__}.md" for module in public_modules()]
    decisions = {"Decisions": listed_pages("adr")}
    config.nav = ["index.md", "tutorial.md", *sections, {"Names": names}, decisions]
    return config


def listed_pages(folder: str) -> list[str]:
    """The pages of a folder: its README, and what the README links to, in order."""
    readme = (ROOT / "docs" / folder / "README.md").read_text("utf-8")
    pages = [link[2] for link in LINK.finditer(readme) if "/" not in link[2]]
    return [f"{folder}/{page}" for page in dict.fromkeys(["README.md", *pages])]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made: the front page, the namespaces, and what other pages link to."""
    files.remove(files.src_uris["README.md"])
    for uri, text in made_pages():
        files.append(File.generated(config, uri, content=text))
    written = [path for path in files.src_uris if path.endswith(".md")]
    queue = [source_of(uri) for uri in written]
    while queue:
        source = queue.pop()
        for target in outside_links(source):
            uri = page_of(target)
            if uri not in files.src_uris:
                files.append(File.generated(config, uri, content=shown(target)))
                queue.append(target)
    return files


def made_pages() -> Iterator[tuple[str, str]]:
    """The front page, and one page for each namespace."""
    yield "index.md", (ROOT / "README.md").read_text("utf-8")
    for module in public_modules():
        names = "\n\n".join(f"::: {module.__name__}.{name}" for name in sorted(module.__all__))
        about = (module.__doc__ or "").strip()
        yield (
            f"reference/api/{module.__name__}.md",
            f"# `{module.__name__}`\n\n{about}\n\n{names}\n",
        )


def source_of(uri: str) -> str:
    """The file of the repository that a page shows, as a path from the root."""
    if uri == "index.md":
        return "README.md"
    shown_file = uri.removeprefix("files/")
    return shown_file.removesuffix(".page.md") if shown_file != uri else f"docs/{uri}"


def page_of(source: str) -> str:
    """The page that shows a file of the repository."""
    if source == "README.md":
        return "index.md"
    if source == "docs/README.md":
        return "index.md"
    inside = source.removeprefix("docs/")
    if inside != source:
        return inside
    return f"files/{source}" if source.endswith(PICTURES) else f"files/{source}.page.md"


def outside_links(source: str) -> Iterator[str]:
    """The files outside `docs/` that a page links to."""
    path = ROOT / source
    if path.suffix != ".md" or not path.is_file():
        return
    for link in LINK.finditer(FENCE.sub("", path.read_text("utf-8"))):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link[2]))
        if not target.startswith(("docs/", "README.md")) and (ROOT / target).is_file():
            yield target


def shown(source: str) -> str | bytes:
    """A page that shows a file: Markdown as it is, and anything else as code; a picture is itself."""
    path = ROOT / source
    if source.endswith(PICTURES):
        return path.read_bytes()
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        return text
    return f"# `{source}`\n\n```{path.suffix.removeprefix('.')}\n{text}\n```\n"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - the names are those of the hook
    """Lead the links, which are right in the repository, to the pages of the site."""
    source = source_of(page.file.src_uri)
    here = posixpath.dirname(page.file.src_uri)

    def lead(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link[2]))
        return link[1] + posixpath.relpath(page_of(target), here or ".")

    return LINK.sub(lead, markdown)
