# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Text of records, made safe for the Markdown, HTML, LaTeX and YAML that it is shown in, and freed of local paths.

A record (settings, scores, names of files and tasks) may come from anybody. Templates rendered here escape every
field; text that a template marks as `safe` stays as it is.
"""

import os
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

# fields of records that only name places
LOCAL_FIELDS = ("init_from", "output_dir", "cache_dir")
TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "|": r"\textbar{}", "[": "{[}", "]": "{]}",
    "±": r"$\pm$", "−": "$-$", "–": "--", "×": r"$\times$", "<": "$<$", ">": "$>$", "“": "``", "”": "''",
}  # fmt: skip
# Letters of these scripts are joined or kept apart by two invisible marks; all others only hide or turn text around.
JOINERS = "\u200c\u200d"


def one_line(value: Any) -> str:
    """A value as a single line of visible characters.

    Line breaks and tabs become a space; control characters and marks that turn the direction of writing go away.

    Example:
        >>> one_line("a\\n\\u202eb")
        'a b'
    """
    return _visible(re.sub(r"\s+", " ", str(value)))


def _visible(text: str) -> str:
    kinds = {letter: unicodedata.category(letter) for letter in set(text)}
    gone = {ord(letter): "" for letter, kind in kinds.items() if kind in ("Cc", "Cf") and letter not in JOINERS}
    halves = {ord(letter): "\ufffd" for letter, kind in kinds.items() if kind == "Cs"}
    return text.translate(gone | halves)


def cleaned(value: Any) -> Any:
    """The same record with every text in one line, keys included; numbers stay what they are.

    YAML written from it has no line that the text chose, so that no `---` can end the head of a card.
    """
    if isinstance(value, dict):
        return {one_line(key) if isinstance(key, str) else key: cleaned(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [cleaned(item) for item in value]
    return one_line(value) if isinstance(value, str) else value


def markdown(value: Any) -> str:
    """Text that Markdown shows as it is, in a paragraph, a list or a cell of a table.

    Example:
        >>> print(markdown("- a|b *c* <script>"))
        \\- a\\|b \\*c\\* &lt;script>
    """
    text = re.sub(r"&(?=#|[A-Za-z])", "&amp;", one_line(value))
    text = re.sub(r"[\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", text)
    text = re.sub(r"<(?![ \d])", "&lt;", text)
    # what begins a heading, a quotation, a list or a rule only does so at the start of a line
    text = re.sub(r"^( ?)([=#>]|[-+](?!\d))", r"\1\\\2", text)
    return re.sub(r"^( ?\d+)([.)])(?!\d)", r"\1\\\2", text)


def markdown_code(value: Any) -> Markup:
    """Text as code within a line of Markdown, between more backticks than it holds itself."""
    text = one_line(value)
    fence = "`" * (_longest_fence(text) + 1)
    room = " " if not text.strip() or text[0] in "` " or text[-1] in "` " else ""
    return Markup(f"{fence}{room}{text}{room}{fence}")


def markdown_block(value: Any, language: str) -> Markup:
    """Lines of code as a fenced block of Markdown that no line of theirs can end."""
    lines = [_visible(re.sub(r"[^\S ]", " ", line)) for line in str(value).split("\n")]
    fence = "`" * max(3, _longest_fence(str(value)) + 1)
    return Markup("\n".join([f"{fence}{language}", *lines, fence]))


def _longest_fence(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def html(value: Any) -> Markup:
    """Text that HTML shows as it is, between tags or in a quoted attribute."""
    return Markup.escape(one_line(value))


def latex(value: Any) -> str:
    """Text as LaTeX sets it, in a cell or a comment.

    Example:
        >>> print(latex("5 % a_b"))
        5 \\% a\\_b
    """
    return "".join(TEX.get(letter, letter) for letter in one_line(value))


def render(template: Path, **fields: Any) -> str:
    """Fill a template; its name says for what: `card.md.jinja` or `page.html.jinja`.

    In it, `{{ text | safe }}` is put in as it is, and everything else is escaped; for Markdown there are `{{ text |
    code }}` and `{{ text | block("python") }}`. A field that the template names must be given.
    """
    escape: Callable[[Any], str] = {"md": markdown, "html": html}[template.name.split(".")[-2]]
    environment = Environment(
        loader=FileSystemLoader(template.parent),
        undefined=StrictUndefined,
        autoescape=False,
        finalize=lambda value: value if isinstance(value, Markup) else escape(value),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"code": markdown_code, "block": markdown_block}
    return environment.get_template(template.name).render(**fields)


def without_paths(value: Any) -> Any:
    """A record with the last part of every path, and without fields that only name places."""
    if isinstance(value, dict):
        return {key: without_paths(item) for key, item in value.items() if key not in LOCAL_FIELDS}
    if isinstance(value, (list, tuple)):
        return [without_paths(item) for item in value]
    if isinstance(value, str) and is_local_path(value):
        return PureWindowsPath(value).name if "\\" in value else PurePosixPath(value).name
    return value


def is_local_path(text: str) -> bool:
    """Whether a text names a place on a machine."""
    if "\n" in text or not ("/" in text or "\\" in text):
        return False
    if re.match(r"[a-z][a-z0-9+]*://", text) and not text.startswith("file:"):
        return False
    absolute = PurePosixPath(text).is_absolute() or PureWindowsPath(text).is_absolute()
    return absolute or text.startswith(("~", "./", "../", "file:")) or os.path.exists(text)
