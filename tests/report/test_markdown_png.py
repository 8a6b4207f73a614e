"""The Markdown and PNG reports."""

from __future__ import annotations

import builtins
from dataclasses import replace

import pytest

from rlvitals.errors import InputError
from rlvitals.report import markdown, png
from tests.report.examples import HOSTILE, sick, well


def test_markdown_lines_that_matter() -> None:
    lines = markdown.render(sick()).splitlines()
    assert lines[0] == "## Act: Most groups carry no learning signal since step 101."
    assert "### 1. zero-variance-groups (S001)" in lines
    assert "**Fix** · high confidence · since steps 96-101" in lines
    assert "0. Verify the verifier: score 20 rollouts by hand" in "\n".join(lines)
    assert "2. Raise the group size \\[num\\_generations\\] (for S001)" in lines


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("<img src=x>", "&lt;img src=x&gt;"),
        ("[a](http://b)", "\\[a\\](http:\u200b//b)"),
        ("@someone fixes #12", "@\u200bsomeone fixes #\u200b12"),
        ("# not a heading\nnor a line", "\\# not a heading nor a line"),
        ("`code` *x* _y_ a|b", "\\`code\\` \\*x\\* \\_y\\_ a\\|b"),
        ("1. no list", "1\\. no list"),
        ("0.5 stays", "0.5 stays"),
    ],
)
def test_markdown_shows_untrusted_text_as_it_is(raw: str, shown: str) -> None:
    assert markdown.text(raw) == shown


def test_a_code_span_cannot_be_left() -> None:
    assert markdown.code("a`b``c") == "```a`b``c```"
    assert markdown.code("`x`") == "`` `x` ``"


def test_markdown_of_a_hostile_name_has_no_html() -> None:
    assert "<" not in markdown.render(sick(HOSTILE))


def test_png_is_an_image_even_with_a_name_that_looks_like_maths() -> None:
    pytest.importorskip("matplotlib")
    image = png.render(sick("run $\\frac{1$"))
    assert image[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(image) > 20_000


def test_png_without_series_says_what_it_needs() -> None:
    with pytest.raises(InputError, match="there is nothing to draw"):
        png.render(replace(well(), run=None))


def test_png_without_matplotlib_gives_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: object, **kwargs: object) -> object:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"pip install 'rlvitals\[png\]'"):
        png.render(sick())
