"""Figures of demonstrations and examples: wrong ones end them with 2 and a sentence, before anything starts."""

from __future__ import annotations

import subprocess
import sys
from argparse import ArgumentTypeError

import pytest

from examples.demo.arguments import rate, whole_seconds


@pytest.mark.parametrize("text", ["0", "-5", "7", "", "1.5", "x", "5" * 10, "\u0665"])
def test_seconds_are_whole_and_a_multiple(text: str) -> None:
    assert (whole_seconds()("7"), whole_seconds(5)("15")) == (7, 15)
    with pytest.raises(ArgumentTypeError, match="a multiple of 5, such as 10"):
        whole_seconds(5)(text)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "", "many"])
def test_a_rate_is_above_zero(text: str) -> None:
    assert rate("0.5") == 0.5
    with pytest.raises(ArgumentTypeError, match="use a number above 0"):
        rate(text)


@pytest.mark.parametrize(
    ("module", "arguments", "said"),
    [
        ("examples.micro_promotion.run", ["--window", "0"], "--window: '0' is not possible; use whole seconds above 0"),
        (
            "examples.sale_prediction.run",
            ["--window", "7"],
            "--window: '7' is not possible; use whole seconds that are",
        ),
        ("examples.product_bundling.run", ["--window", "7"], "--window 7 is no multiple of --slide 5; use one"),
        ("examples.social_spam.run", ["--rate", "0"], "--rate: '0' is not possible; use a number above 0"),
        ("examples.demo.tour", ["--slide", "0"], "--window must be a multiple of --slide, and all figures positive"),
    ],
)
def test_wrong_figures_end_with_a_sentence(module: str, arguments: list[str], said: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr and "Traceback" not in done.stderr
