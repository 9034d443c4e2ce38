from __future__ import annotations

import json

import pytest

from elf.agents.sources.format import make_format
from elf.agents.sources.recognition import Guess, recognise
from elf.agents.sources.times.zones import UTC
from tests.agents.sources.format_files import formats, layouts


def lines(name: str) -> list[str]:
    return [sample["line"] for sample in formats()[name]["samples"]]


def recognised(*found: str) -> Guess | None:
    return recognise("".join(line + "\n" for line in found).encode()).format


@pytest.mark.parametrize("name", layouts())
def test_samples_are_recognised_as_what_they_are(name: str) -> None:
    # Whose lines are the same is named; two layouts of one file are one format.
    expected = {"varnish": "combined"}.get(name, name)
    assert recognised(*lines(name)) == Guess((expected,), 3, 3)


@pytest.mark.parametrize("name", ["w3c", "cloudfront", "gcs", "csv", "ltsv", "logfmt"])
def test_formats_that_name_their_columns_are_recognised(name: str) -> None:
    assert recognised(*lines(name)) == Guess((name,), 3, 3)


@pytest.mark.parametrize("name", ["syslog", "syslog-5424", "docker", "journald"])
def test_a_line_within_a_line_is_recognised_with_what_is_around_it(name: str) -> None:
    assert recognised(*lines(name)) == Guess((f"{name}+combined",), 3, 3)


def test_objects_are_recognised_with_the_field_that_has_the_time() -> None:
    found = recognised(*['{"level":"info","time":"26/Nov/2026:09:00:00 +0000","n":1}'] * 9)
    assert found == Guess(("json",), 9, 9, "time")


def test_a_file_of_several_layouts_is_covered_by_them() -> None:
    found = recognised(*lines("nginx-proxy-manager"), *lines("combined"))
    assert found is not None and set(found.names) == {"nginx-proxy-manager", "combined"} and found.fits == 6


@pytest.mark.parametrize(
    "text", ["", "nonsense\n", "a b c\nd e f\n", "\x00\x01\x02\n", "1,2,3\n4,5,6\n", "not json {}\n", "{}\n"]
)
def test_what_is_nothing_known_is_taken_for_nothing(text: str) -> None:
    assert recognise(text.encode()).format is None


def test_nine_of_ten_lines_are_enough_and_eight_are_not() -> None:
    good = lines("combined")[0]
    assert recognised(*[good] * 9, "nonsense") == Guess(("combined",), 9, 10)
    assert recognised(*[good] * 8, "nonsense", "nonsense") is None


def test_lines_in_parts_are_recognised() -> None:
    assert recognised(*lines("cri")) == Guess(("cri+combined",), 2, 2)


@pytest.mark.parametrize(
    ("inner", "text", "time"),
    [
        ("json", '{"level":"info","time":"2026-11-26T09:00:00Z"}', "time"),
        ("logfmt", "level=info time=2026-11-26T09:00:00Z", ""),
        ("ltsv", "level:info\ttime:2026-11-26T09:00:00Z", ""),
    ],
)
def test_what_names_its_columns_is_recognised_in_wrappers(inner: str, text: str, time: str) -> None:
    at = "2026-11-26T09:00:00.123456789Z"
    assert recognised(f"{at} stdout F {text}") == Guess((f"cri+{inner}",), 1, 1, time)
    assert recognised(f"Nov 26 09:00:00 web1 app[7]: {text}") == Guess((f"syslog+{inner}",), 1, 1, time)
    docker = json.dumps({"log": text + "\n", "stream": "stdout", "time": at})
    assert recognised(docker) == Guess((f"docker+{inner}",), 1, 1, time)


def test_objects_with_a_log_are_no_containers() -> None:
    found = recognised(json.dumps({"log": "hello", "time": "2026-11-26T09:00:00Z"}))
    assert found == Guess(("json",), 1, 1, "time")


def test_what_says_the_most_of_lines_is_theirs_though_a_few_do_not_fit() -> None:
    """A program says other things beside what it logs; a wrapper of texts, or any object, fits these, too."""
    access = b'192.0.2.7 - - [01/Jan/2026:00:00:01 +0000] "GET /a HTTP/1.1" 200 5 "-" "curl"'
    stamp = b"2026-01-01T00:00:01.000000000Z stdout F "
    found = recognise((stamp + access + b"\n") * 30 + stamp + b"server started\n")
    assert found.format is not None and found.format.names == ("cri+combined",)
    texts = ['{"time":"2026-01-01T00:00:01Z","n":1}\n'] * 30 + ["panic: none\n"]
    outer = ({"log": text, "stream": "stdout", "time": "2026-01-01T00:00:01Z"} for text in texts)
    found = recognise(b"".join(json.dumps(each).encode() + b"\n" for each in outer))
    assert found.format is not None and found.format.names == ("docker+json",) and found.format.time == "time"


def test_layouts_that_do_not_go_together_are_nothing() -> None:
    ingress = [sample["line"] for sample in formats()["nginx-ingress"]["samples"]]
    alb = [sample["line"] for sample in formats()["alb"]["samples"]]
    mixed = "".join(line + "\n" for line in [*ingress * 5, *alb * 5]).encode()
    found = recognise(mixed)
    assert found.format is None or make_format(found.format.names, zone=UTC)
