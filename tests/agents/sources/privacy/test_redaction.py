"""What a source's settings take out of its events is out: of columns, of rejected lines, of what failures say."""

from __future__ import annotations

import json
from datetime import datetime

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.settings.config import PrivacySection
from elf.agents.sources.privacy.redaction import Redactor
from elf.agents.sources.privacy.secret_values import MASK, SECRET_KEYS


def texts(redactor: Redactor, *values: str | None) -> list[str | None]:
    return redactor.events(pl.DataFrame({"uri": pl.Series(values, dtype=pl.String)}))["uri"].to_list()


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("/a?token=abc&x=1", "/a?token=***&x=1"),
        ("/a?x=1&access_token=abc", "/a?x=1&access_token=***"),
        ("token=abc", "token=***"),
        ("/a?X-Amz-Security-Token=a/b%2B&b=2", "/a?X-Amz-Security-Token=***&b=2"),
        ("/a?PassWord=p;w&b", "/a?PassWord=***&b"),
        ("/a?user[password]=abc", "/a?user[password]=***"),
        ("/a?user%5Bpassword%5D=abc", "/a?user%5Bpassword%5D=***"),
        ("/a;jsessionid=0AF?b=1", "/a;jsessionid=***"),
        ("/cb#id_token=abc", "/cb#id_token=***"),
        ("/login?next=https%3A%2F%2Fx%3Ftoken%3Dabc&b=1", "/login?next=https%3A%2F%2Fx%3Ftoken%3D***&b=1"),
        ("/a?u=%252Fb%253Ftoken%253Dabc", "/a?u=%252Fb%253Ftoken%253D***"),
        ("sid=abc; theme=dark", "sid=*** theme=dark"),
        ("/a?secret=&b=1", "/a?secret=&b=1"),
        ("/a?monkey=1&inside=2&passenger=3&design=4", "/a?monkey=1&inside=2&passenger=3&design=4"),
        ("/token/abc?page=1", "/token/abc?page=1"),
        (r"/a?token\u003dabc\u0026b=1", r"/a?token\u003d***"),
        (r"/a?x=1\\u0026token\\u003dabc", r"/a?x=1\\u0026token\\u003d***"),
        (r"note\ntoken=abc", r"note\ntoken=***"),
        (r"note\\r\\ntoken\u003Dabc d", r"note\\r\\ntoken\u003D*** d"),
        (r"a\tsid=abc", r"a\tsid=***"),
        (r"C:\design=1", r"C:\design=1"),
        ("/a?t%6fken=abc&b=1", "/a?t%6fken=***&b=1"),
        ("/a?api%2Dkey=abc", "/a?api%2Dkey=***"),
        ("/a?%2570assword=abc", "/a?%2570assword=***"),
        ("/cb?code=4/0AX4XfWh&state=x", "/cb?code=***&state=x"),
        ("/shop?code=de&country_code=germany", "/shop?code=de&country_code=germany"),
        ("https://ann:s3cret@h/?b=1", "https://ann:***@h/?b=1"),
        ("/a?u=https%3A%2F%2Fann:s3cret@h", "/a?u=https%3A%2F%2Fann:***@h"),
        ("mailto:ann@h", "mailto:ann@h"),
        (None, None),
    ],
)
def test_values_of_secret_keys_are_masked(value: str | None, wanted: str | None) -> None:
    assert texts(Redactor(PrivacySection()), value, "/other?a=1") == [wanted, "/other?a=1"]
    assert texts(Redactor(PrivacySection(redact_queries=False)), value) == [value]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ('{"token":"abc","x":1}', '{"token":"***","x":1}'),
        (r'{"token": "a\"b\\","x":1}', '{"token": "***","x":1}'),
        ('{"a":{"my_token":12,"b":2}}', '{"a":{"my_token":"***","b":2}}'),
        ('{"token":true,"sid":"q"}', '{"token":"***","sid":"***"}'),
        ('{"token":null,"token_count":3}', '{"token":null,"token_count":3}'),
        ('{"x":1,"token":["abc"],"y":2}', '{"x":1,"token":"***"'),
        ('{"token":{"value":"abc"}}', '{"token":"***"'),
        (r'{"log":"{\"token\":\"abc\"}"}', r'{"log":"{\"token\":***'),
        (r'{"log":"{\\\"token\\\": 7}"}', r'{"log":"{\\\"token\\\": ***'),
        ('{"token":"abc', '{"token":"***"'),
        ('got {"PassWord" : "x y"} now', 'got {"PassWord" : "***"} now'),
        ('{"monkey":"a","passenger":"b"}', '{"monkey":"a","passenger":"b"}'),
    ],
)
def test_values_of_secret_keys_are_masked_in_objects(value: str, wanted: str) -> None:
    assert texts(Redactor(PrivacySection()), value, "{}") == [wanted, "{}"]
    assert texts(Redactor(PrivacySection(redact_queries=False)), value) == [value]


def test_more_keys_can_be_named() -> None:
    redactor = Redactor(PrivacySection(secret_keys=["Ticket", "a.b"]))
    assert texts(redactor, "/a?ticket=abc", "/a?a.b=1", "/a?axb=1") == ["/a?ticket=***", "/a?a.b=***", "/a?axb=1"]


value_text = st.text(st.characters(exclude_characters='&#" \t\n\r\x0b\x0c', exclude_categories=["Cs", "Z", "Cc"]))


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(SECRET_KEYS), value_text, st.sampled_from(["/a?", "/a?b=1&", "", "/a;", "x_y=1&c_"]))
def test_no_secret_passes(key: str, value: str, before: str) -> None:
    secret = "Zz9" + value
    (found,) = texts(Redactor(PrivacySection()), f"{before}{key}={secret}&end=1")
    assert found == f"{before}{key}={MASK}&end=1"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Basic YWxpY2U6aHVudGVyMg==", "Basic ***"),
        ("asked with bearer eyJhbGciOi.eyJzdWIi.c2ln, refused", "asked with bearer ***, refused"),
        ("q=Bearer%20abcdefgh", "q=Bearer%20***"),
        ("a basic page", "a basic page"),
    ],
)
def test_what_a_header_authorization_has_is_masked_in_texts_of_applications(text: str, wanted: str) -> None:
    events = pl.DataFrame({"message": [text], "user_agent": [text]})
    assert Redactor(PrivacySection()).events(events).row(0) == (wanted, text)
    assert Redactor(PrivacySection()).rejects([(text.encode(), "x")]) == [(wanted.encode(), "x")]


def test_columns_with_names_of_secrets_are_masked() -> None:
    secret = (
        "password",
        "Token",
        "http_x_api_key",
        "http_authorization",
        "cookie_session",
        "arg_token",
        "user.password",
    )
    plain = ("session", "auth", "pass", "monkey", "token_count", "ticket")
    events = pl.DataFrame({name: ["zz9", None] for name in (*secret, *plain)} | {"otp": [1, None]})
    found = Redactor(PrivacySection()).events(events)
    assert {name for name in found.columns if found[name].to_list() == [MASK, None]} == set(secret)
    assert found["otp"].to_list() == [1, None], "a number cannot be a mask; `drop` is for those"
    kept = Redactor(PrivacySection(keep=["Token"], secret_keys=["ticket"])).events(events)
    assert (kept["Token"].item(0), kept["ticket"].item(0)) == ("zz9", MASK)
    assert Redactor(PrivacySection(redact_queries=False)).events(events).equals(events)


def test_columns_are_dropped_masked_and_blurred() -> None:
    events = pl.DataFrame(
        {
            "ts": [datetime(2026, 1, 1)],
            "remote_addr": ["192.0.2.7"],
            "visitor": ["192.0.2.8"],
            "remote_user": ["ann"],
            "bytes": [5],
            "user_agent": ["curl"],
            "Email": ["a@b"],
        }
    )
    settings = PrivacySection(ip="prefix", ip_columns=["visitor"], drop=["email", "bytes"], mask=["remote_user"])
    redacted = Redactor(settings).events(events)
    assert redacted.schema == events.schema
    assert redacted.row(0) == (datetime(2026, 1, 1), "192.0.2.0", "192.0.2.0", MASK, None, "curl", None)
    assert Redactor(PrivacySection()).events(events).equals(events)


@pytest.mark.parametrize(
    ("dropped", "gone"),
    [
        ("query", {"request", "uri", "query"}),
        ("uri", {"request", "uri", "path", "query"}),
        ("request", {"request", "method", "uri", "path", "query", "protocol"}),
        ("referer", {"referer"}),
    ],
)
def test_what_holds_a_column_or_is_made_of_it_goes_with_it(dropped: str, gone: set[str]) -> None:
    names = ["request", "method", "uri", "path", "query", "protocol", "referer", "user_agent"]
    redacted = Redactor(PrivacySection(drop=[dropped])).events(pl.DataFrame({name: ["x"] for name in names}))
    assert {name for name in names if redacted[name].item() is None} == gone


@pytest.mark.parametrize("uri", ["/a?token=abc", "/a?x=1"])
@pytest.mark.parametrize("derived", [True, False])
def test_parts_of_a_request_are_as_redacted_as_the_request(uri: str, derived: bool) -> None:
    path, _, query = uri.partition("?")
    parts = {"query": query, "path": path, "uri": uri, "request": f"GET {uri} HTTP/1.1", "referer": "/b?sid=1"}
    events = pl.DataFrame({name: [text] for name, text in parts.items()})
    redacted = Redactor(PrivacySection(mask=["path"]), derived=derived).events(events)
    masked = {name: [MASK] for name in ("path", "uri", "request")}
    assert redacted.select("path", "uri", "request").to_dict(as_series=False) == masked
    assert redacted["query"].item() == query.replace("abc", MASK) and redacted["referer"].item() == "/b?sid=***"
    plain = Redactor(PrivacySection(), derived=derived).events(events)
    assert plain["request"].item() == f"GET {uri.replace('abc', MASK)} HTTP/1.1"


def test_numbers_that_are_addresses_or_masked_are_dropped() -> None:
    events = pl.DataFrame({"client_ip": [3232235777], "pin": [1234]})
    assert Redactor(PrivacySection(ip="prefix", mask=["pin"])).events(events).row(0) == (None, None)


def test_rejected_lines_and_messages_do_not_leak() -> None:
    line = b'\xff10.1.2.3 "GET /a?token=abc HTTP'
    plain, strict = Redactor(PrivacySection()), Redactor(PrivacySection(ip="prefix"))
    assert plain.rejects([(line, "format"), (b"\xff?a=1", "time")]) == [
        (b'\xef\xbf\xbd10.1.2.3 "GET /a?token=*** HTTP', "format"),
        (b"\xff?a=1", "time"),
    ]
    assert strict.rejects([(line, "format")]) == [(b"(withheld for privacy: %d bytes)" % len(line), "format")]
    assert plain.message("cannot cast '?token=abc'") == "cannot cast '?token=***"
    assert strict.message("cannot cast '10.1.2.3'") == "(withheld for privacy)"


def test_texts_that_redaction_makes_are_not_asked_of_lines() -> None:
    plain, strict = Redactor(PrivacySection()), Redactor(PrivacySection(ip="prefix"))
    assert plain.literals([["token=***", "POST"], ["GET"]]) == [["POST"], ["GET"]]
    assert strict.literals([["10.1.2.0"]]) == []


def _columns(settings: PrivacySection, **columns: str) -> dict[str, str | None]:
    frame = pl.DataFrame({name.replace("__", "."): [text] for name, text in columns.items()})
    return Redactor(settings).events(frame).row(0, named=True)


def test_what_is_left_out_of_an_object_is_left_out_of_all_that_holds_it_or_is_in_it() -> None:
    whole = '{"user":{"name":"bob"}}'
    for named in ("request.user", "REQUEST['User']"):
        found = _columns(
            PrivacySection(drop=[named]), request=whole, request__user="{}", request__user__name="bob", request__uri="/"
        )
        assert found == {"request": None, "request.user": None, "request.user.name": None, "request.uri": "/"}
    found = _columns(PrivacySection(mask=["request"]), request=whole, request__user__name="bob", requests="/")
    assert found == {"request": MASK, "request.user.name": MASK, "requests": "/"}


def test_addresses_in_objects_are_known_by_the_last_name_of_their_path() -> None:
    settings = PrivacySection(ip="prefix", ip_columns=["request.peer"])
    found = _columns(
        settings,
        request__client_ip="192.0.2.77",
        request__peer="198.51.100.9",
        request='{"peer":"198.51.100.9"}',
        a="b",
    )
    assert found == {
        "request.client_ip": "192.0.2.0",
        "request.peer": "198.51.100.0",
        "request": None,  # an object that holds an address is none itself
        "a": "b",
    }


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("203.0.113.7, 198.51.100.9", "203.0.113.0, 198.51.100.0"),
        ("203.0.113.7:80, 198.51.100.9:80 : 192.0.2.7:80", "203.0.113.0, 198.51.100.0 : 192.0.2.0"),
        ('{"client_ip": "203.0.113.7", "n": 1}', None),
        ('["a", "203.0.113.7:4711"]', None),
        ('{"at": "12:30", "n": [1, 2]}', '{"at": "12:30", "n": [1, 2]}'),
        ("version 1.2.3.4 is out", "version 1.2.3.4 is out"),
    ],
)
def test_addresses_in_lists_and_objects_do_not_stay(value: str, wanted: str | None) -> None:
    assert texts(Redactor(PrivacySection(ip="prefix")), value) == [wanted]


ADDRESSES = st.sampled_from(
    ("203.0.113.77", "2001:db8:1:2:3:4:5:6", "::ffff:203.0.113.77", "203.0.113.77:4711", "[2001:db8:1:2::77]:443")
)
CLOTHES = st.sampled_from(
    (
        *("{}", " {} ", '"{}"', "'{}'", '\\"{}\\"', "\\x22{}\\x22", "({})", "<{}>", "{}:", "{}.", "{}/32", "{}#53"),
        *("for={}", 'for="{}"', "For={}", "by={}", "{}\t"),
    )
)
NO_ADDRESSES = st.sampled_from(("-", "unknown", "_hidden", "unix:", "localhost", "proto=https", "host=shop.example"))
JOINTS = st.sampled_from((",", ", ", " , ", ";", "; ", "|", " | ", " ", " : "))


@given(
    st.lists(st.one_of(st.builds(str.format, CLOTHES, ADDRESSES), NO_ADDRESSES), min_size=1, max_size=4),
    JOINTS,
    st.sampled_from(("{}", '["{}"]', '{{"a": "{}"}}')),
)
def test_addresses_alone_do_not_stay_whatever_they_wear(items: list[str], joint: str, around: str) -> None:
    value = joint.join(items)
    text = around.format(value if around == "{}" else json.dumps(value)[1:-1])
    (found,) = texts(Redactor(PrivacySection(ip="prefix")), text)
    held = [address for address in ("113.77", "5:6", "2::77") if address in text]
    assert not any(address in (found or "") for address in held)
    if not held:
        assert found == text


def test_names_with_hyphens_are_addresses_by_custom() -> None:
    lists = "unknown, 192.0.2.77, 2001:db8::77, proxy"  # no list of addresses alone
    names = ("X-Forwarded-For", "request.headers['X-Forwarded-For'][0]", "True-Client", "X-Forwarded-Proto")
    settings = PrivacySection(ip="prefix", ip_columns=["true_client"])
    found = Redactor(settings).events(pl.DataFrame({name: [lists] for name in names})).row(0)
    blurred = "192.0.2.0, 2001:db8::"
    assert found == (blurred, blurred, blurred, lists)
