"""What is said of rejected lines to be right instead."""

import json

import pytest

from elf.agents.sources.advice import advice
from elf.agents.sources.format import make_format, parse_chunk

COMBINED = b'192.0.2.1 - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "curl"\n'
OBJECT = b'{"at":"2026-01-01T00:00:00Z","path":"/"}\n'
NO_COMMON = "these lines do not have the format 'common': this one stops at byte"
NO_COMBINED = "these lines do not have the format 'combined': this one stops at byte"
GIVE = "; give the log_format (nginx) or LogFormat (Apache) that they are written with as --format"
USER = f"{NO_COMBINED} 0, remote_addr (addr): an address or a full host name, not"
END = f"{NO_COMBINED} 76, behind all fields: the end of the line, not"

OTHER = "say what they are with --format, such as"


@pytest.mark.parametrize(
    ("format", "line", "said"),
    [
        ("json", COMBINED, "these lines are no JSON objects; say what they are with --format, such as combined"),
        ("json", b"nonsense\n", "these lines are no JSON objects; say what they are with --format, such as combined"),
        ("json", OBJECT, "their field 'ts' is no time; name the field that has it with --time"),
        ("combined", OBJECT, f"{USER} {OBJECT.decode().rstrip()!r}; say what they are with --format, such as json"),
        (
            "common",
            COMBINED,
            f'{NO_COMMON} 65, behind all fields: the end of the line, not \' "-" "curl"\'; say what they are with '
            "--format, such as combined",
        ),
        ("combined", COMBINED[:-1] + b' "-" 0.003\n', f"""{END} ' "-" 0.003'{GIVE}"""),
        ("combined", b"nonsense\n", f"{USER} 'nonsense'{GIVE}"),
        (
            "$remote_addr [$time_local]",
            b"nonsense\n",
            "these lines do not have the format '$remote_addr [$time_local]': this one stops at byte 0, remote_addr "
            f"(ip): an IP address, not 'nonsense'{GIVE}",
        ),
    ],
)
def test_advice_names_the_format_that_the_lines_have(format: str, line: bytes, said: str) -> None:
    parsed = parse_chunk(make_format(format), line, {})
    assert advice(make_format(format), *parsed.rejects[0]) == said


def test_advice_names_the_setting_where_there_is_a_configuration() -> None:
    said = advice(make_format("json"), b"nonsense", "json: not an object", "sources.access")
    assert said.endswith("say what they are with --format (format under [sources.access]), such as combined")


def test_advice_on_events_too_far_ahead_names_the_bound() -> None:
    said = advice(make_format("json"), b'{"ts": "2099-01-01T00:00:00Z"}', "time:ahead", "sources.access")
    assert said == (
        "their times are further ahead of this machine's clock than ahead_max under [sources.access] admits: a clock "
        "or a time zone is wrong"
    )


def test_advice_does_not_show_lines_that_people_may_not_see() -> None:
    said = advice(make_format("combined"), b"secret - -", "format:remote_addr@0", quotes=False)
    assert "stops at byte 0" in said and "secret" not in said


def docker(text: str) -> bytes:
    return json.dumps({"log": text, "stream": "stdout", "time": "2026-01-01T00:00:00Z"}).encode() + b"\n"


@pytest.mark.parametrize(
    ("format", "line", "said"),
    [
        ("combined", b"2026-01-01T00:00:00Z stdout F " + COMBINED, f"{OTHER} cri+combined"),
        ("combined", docker(COMBINED.decode()), f"{OTHER} docker+combined"),
        ("docker+common", docker(COMBINED.decode()), f"{OTHER} docker+combined"),
        ("cri+common", b"2026-01-01T00:00:00Z stdout F " + COMBINED, f"{OTHER} cri+combined"),
        ("syslog+common", b"Jan 01 00:00:00 web1 nginx: " + COMBINED, f"{OTHER} syslog+combined"),
        ("docker+combined", docker('{"time":"2026-01-01T00:00:00Z"}\n'), f"{OTHER} docker+json, and --time time"),
        ("docker+combined", docker('{"at":"2026-01-01T00:00:00Z"}\n'), f"{OTHER} docker+json"),
        ("docker+combined", docker("ts=2026-01-01T00:00:00Z a=1\n"), f"{OTHER} docker+logfmt"),
        ("docker+combined", COMBINED, f"{OTHER} combined"),
        ("docker+combined", b'{"time":"2026-01-01T00:00:00Z"}\n', f"{OTHER} json, and --time time"),
        ("cri+combined", COMBINED, f"{OTHER} combined"),
        ("cri+json", COMBINED, f"{OTHER} combined"),
        ("cri+json", b"2026-01-01T00:00:00Z stdout F " + COMBINED, f"{OTHER} cri+combined"),
        ("combined", b"www.example.com " + COMBINED, f"{OTHER} '%v %h %l %u %t"),
        ("combined", b"__CURSOR=s=1;i=2\n", "have it write -o json, and read that with --format journald"),
        ("json", b"__CURSOR=s=1;i=2\n", "have it write -o json, and read that with --format journald"),
        ("combined", b"#Fields: date time c-ip sc-status\n", f"{OTHER} w3c"),
        ("json", b"#Fields: date time c-ip sc-status\n", f"{OTHER} w3c"),
        ("json", b"ts,status,path\n", f"{OTHER} csv"),
        (
            "json",
            b"#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status\n",
            f"{OTHER} cloudfront",
        ),
        ("combined", b'{"@timestamp":"2026-01-01T00:00:00Z"}\n', f"{OTHER} json, and --time @timestamp"),
        (
            "docker+json",
            docker('{"time":"2026-01-01T00:00:00Z"}\n'),
            "their field 'ts' is no time; name the field that has it with --time, such as time",
        ),
        (
            "json",
            b'{"timestamp":"2026-01-01T00:00:00Z"}\n',
            "their field 'ts' is no time; name the field that has it with --time, such as timestamp",
        ),
        (
            "docker+combined",
            docker(COMBINED.decode().replace(" 200 ", " x00 ")),
            'this one stops at byte 60, status (status): three digits or -, not \'x00 5 "-" "curl"\'',
        ),
    ],
)
def test_advice_knows_wrappers_objects_and_headers(format: str, line: bytes, said: str) -> None:
    made = make_format(format)
    parsed = parse_chunk(made, line, {})
    assert said in advice(made, *parsed.rejects[0])
