"""`holdfast serve --prices FILE`: the file is read, and what is wrong in it is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.cli.price_file import read_prices
from holdfast.server import TokenPrices


def test_prices_are_read_by_model(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text('["gpt-5.2"]\ninput = 1.25\noutput = 10\n\n["*"]\ninput = 2\noutput = 3\n')
    assert read_prices(path) == {
        "gpt-5.2": TokenPrices(input=1.25, output=10),
        "*": TokenPrices(input=2, output=3),
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "cannot be read: No such file"),
        ("[", "is not TOML"),
        ("[m]\ninput = 1\n", "missing required field `output`"),
        ("[m]\ninput = 1\noutput = -1\n", "prices.output"),
        ("[m]\ninput = 1\noutput = nan\n", "prices.output"),
        ('[m]\ninput = "1"\noutput = 1\n', "Expected `float`, got `str`"),
        ("[m]\ninput = 1\noutput = 1\nper = 2\n", "unknown field `per`"),
    ],
)
def test_what_is_wrong_is_named(
    text: str | None, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "prices.toml"
    if text is not None:
        path.write_text(text)
    (tmp_path / "a.toml").write_text('name = "a"\nmodel = "openai:gpt-5.2"\n')
    assert main(["serve", str(tmp_path / "a.toml"), "--prices", str(path)]) == 2
    told = capsys.readouterr().err
    assert "--prices" in told
    assert problem in told
