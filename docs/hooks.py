"""Hooks of MkDocs: write the reference of the commands, and check outgoing links."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

log = logging.getLogger("mkdocs.hooks")

COMMANDS = "<!-- commands -->"
_outgoing: set[str] = set()


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fill in the commands, and look at every link that leaves the site."""
    for link in outgoing_links(markdown):
        if not is_well_formed(link):
            log.warning("%s: %r is not an address of a web page", page.file.src_uri, link)
        _outgoing.add(link)
    if COMMANDS in markdown:
        return markdown.replace(COMMANDS, commands_page())
    return markdown


def on_post_build(**_: Any) -> None:
    """List the addresses that only a network could check."""
    log.info("%d links leave the site:", len(_outgoing))
    for link in sorted(_outgoing):
        log.info("  %s", link)


def outgoing_links(markdown: str) -> list[str]:
    """Return the addresses that a page links to, those in code left out."""
    prose = re.sub(r"^```.*?^```$|`[^`\n]+`", "", markdown, flags=re.M | re.S)
    return re.findall(r"\]\(((?:[a-z]+:)?//[^)\s]*|[a-z]+:[^)\s]+)", prose)


def is_well_formed(link: str) -> bool:
    """Tell whether a link is https with a host of two or more parts."""
    parts = urlsplit(link)
    return parts.scheme == "https" and re.fullmatch(r"(?:[\w-]+\.)+\w+", parts.netloc) is not None


def commands_page() -> str:
    """Return Markdown of every command with its arguments and options."""
    from equipoise.cli.app import command_line

    return "\n".join(_described(command_line(), "equipoise"))


def _described(command: Any, path: str) -> Iterator[str]:
    if path != "equipoise":
        yield f"## {path}\n" if path.count(" ") == 1 else f"### {path}\n"
    yield f"{(command.help or '').strip()}\n"
    rows = [_row(parameter) for parameter in command.params]
    if rows:
        yield "| option | | default |\n| --- | --- | --- |"
        yield from rows
        yield ""
    for name, inner in getattr(command, "commands", {}).items():
        yield from _described(inner, f"{path} {name}")


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        names = f"`{parameter.metavar or parameter.name.upper()}`"
    else:
        names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    text = " ".join((getattr(parameter, "help", "") or "").split())
    for sign in "|[":
        text = text.replace(sign, f"\\{sign}")
    return f"| {names} | {text} | {_default(parameter)} |"


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    value = parameter.default
    silent = value is None or isinstance(value, bool) or value == []
    return "" if silent or "UNSET" in repr(value) else f"`{value}`"
