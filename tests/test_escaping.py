"""Whatever a record says, Markdown, HTML, LaTeX and YAML show it as text: their own structure stays what it was."""

import random
from html.parser import HTMLParser

import pytest
import yaml
from markdown_it import MarkdownIt

from hf_longseq.escaping import (
    cleaned,
    is_local_path,
    latex,
    markdown,
    markdown_block,
    markdown_code,
    one_line,
    render,
    without_paths,
)  # fmt: skip

PIECES = [
    "\n", "\r\n", "\u2028", "\t", "    ", " ", "```", "```python\nimport os\n```", "~~~", "`", "|", "||", "\\", "\\|",
    "---", "\n---\n", "***", "___", "===", "# ", "> ", "- ", "1. ", "1) ", "+ ", "* ", "_a_", "**b**", "~~c~~", "$x$",
    "$$", "<script>alert(1)</script>", "<img src=x onerror=y>", "<!--", "-->", "</td>", "&lt;", "&#60;", "&", '"', "'",
    "<b", "[x](javascript:y)", "![p](q)", "<http://x.y>", "[a]: b", "{{ a }}", "{% b %}", "%", "\\end{tabular}",
    "^^5c", "[", "]", "{", "}", ": ", "!!python/object:os.system", "&a *a", "\u202e", "\u2066", "\ufeff", "\x00",
    "\x1b[2J", "\ud800", "é", "词", "\U0001f600", "0.5", "-1", "word", "a_b",
]  # fmt: skip
GENERATED = ["".join(random.Random(seed).choices(PIECES, k=1 + seed % 9)) for seed in range(150)]
TEXTS = [*PIECES, *GENERATED]
PAGE = """# {{ t }}

{{ t }}

| a | b |
|---|---|
| {{ t }} | {{ t }}, {{ t }} |

- {{ t }}

{{ t | code }} end

{{ t | block("bash") }}

end
"""


def parsed(text):
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)


def structure(text):
    """Kinds of all tokens of a Markdown text; those of one line, its breaks and texts, count as one."""
    found = []
    for token in parsed(text):
        inner = [child.type for child in token.children or () if child.type != "text"]
        found.append((token.type, token.tag, token.info, inner))
    return found


def shown(text):
    """What a reader of a paragraph sees."""
    return "".join(child.content for token in parsed(text) for child in token.children or ())


def test_markdown_keeps_its_structure_whatever_a_record_says(tmp_path):
    (tmp_path / "page.md.jinja").write_text(PAGE)
    expected = structure(render(tmp_path / "page.md.jinja", t="word"))
    for text in TEXTS:
        if one_line(text).strip():  # an empty paragraph is none
            for said in (text, f"x{text}"):
                assert structure(render(tmp_path / "page.md.jinja", t=said)) == expected, repr(said)


def test_markdown_shows_what_the_record_says():
    for text in TEXTS[:120]:
        plain = one_line(text).strip()
        assert shown(markdown(text)) == plain
        paragraph = ["paragraph_open", "inline", "paragraph_close"] * bool(plain)
        assert [token.type for token in parsed(markdown(text))] == paragraph, repr(text)
        assert shown(f"{markdown_code(text)} end").removesuffix(" end").strip() == plain
        (block,) = parsed(markdown_block(text, "bash"))
        assert block.type == "fence" and block.info == "bash", repr(text)


class Tags(HTMLParser):
    """Tags and attributes of a page, and its text."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.text = [], ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, attrs))

    def handle_endtag(self, tag):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += data

    handle_comment = handle_decl = handle_pi = unknown_decl = lambda self, data: self.tags.append(data)


def test_html_keeps_its_tags_and_shows_the_record(tmp_path):
    (tmp_path / "page.html.jinja").write_text('<p title="{{ t }}">{{ t }}</p>{{ "<br>" | safe }}')
    for text in TEXTS:
        page = Tags(render(tmp_path / "page.html.jinja", t=text))
        assert page.tags == [("p", [("title", one_line(text))]), "p", ("br", [])]
        assert page.text == one_line(text)


def test_latex_keeps_its_lines_and_holds_no_command_of_the_record():
    commands = (r"\textbackslash{}", r"\textasciitilde{}", r"\textasciicircum{}", r"\textbar{}", r"$\pm$", r"$\times$")
    for text in TEXTS:
        rest = latex(text)
        assert "\n" not in rest, repr(text)
        for known in (*commands, "$<$", "$>$", "$-$", "{[}", "{]}", *(f"\\{letter}" for letter in "&%$#_{}")):
            rest = rest.replace(known, "")
        assert not set(rest) & set("\\&%$#_{}~^[]"), repr(text)


def test_yaml_of_a_record_has_no_line_that_the_record_chose():
    for text in TEXTS:
        record = {"note": text, text: [text, 1, None, {"x": (text,)}]}
        written = yaml.safe_dump(cleaned(record), allow_unicode=True, width=80)
        assert not any(line.startswith(("---", "...")) for line in written.splitlines()), repr(text)
        assert yaml.safe_load(written) == cleaned(record)
        written.encode()  # half a pair of surrogates cannot be written


def test_a_record_cannot_say_that_it_is_safe(tmp_path):
    (tmp_path / "page.md.jinja").write_text("{{ t }} {{ t | safe }}")
    assert render(tmp_path / "page.md.jinja", t="{{ 7 * 7 }} <b>") == "{{ 7 \\* 7 }} &lt;b> {{ 7 * 7 }} <b>"


@pytest.mark.parametrize(
    "text, local",
    [
        ("/data/me/x.csv", True),
        ("~/x.csv", True),
        ("../x.csv", True),
        ("C:\\data\\x.csv", True),
        ("file:///etc/passwd", True),
        ("https://example.org/x.csv", False),
        ("accuracy", False),
        ("Linux-6.1-x86_64", False),
        ("n/a", False),
    ],
)
def test_what_a_local_path_is(text, local):
    assert is_local_path(text) == local


def test_records_lose_what_belongs_to_the_machine():
    record = {"init_from": "/a/b", "data": {"path": "/home/me/data.csv", "n": 3}, "files": ["C:\\x\\y.npy", "plain"]}
    assert without_paths(record) == {"data": {"path": "data.csv", "n": 3}, "files": ["y.npy", "plain"]}
