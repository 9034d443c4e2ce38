"""What Apache's configuration says of access logs, and what a hostile one is answered."""

from __future__ import annotations

import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.errors import ConfigError
from elf.installation.access_logs import FoundLogs
from elf.installation.apache import directives, find_logs
from elf.installation.config_files import ConfigFiles

DEBIAN = r"""
# The file that comes with Debian, in short.
ServerRoot "{root}"
LogFormat "%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"" vhost_combined
LogFormat "%h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"" combined
ErrorLog ${APACHE_LOG_DIR}/error.log
IncludeOptional sites-enabled/*.conf
IncludeOptional nothing/*.conf
"""
COMBINED = '%h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i"'


def found(folder: pathlib.Path, text: str, **sites: str) -> FoundLogs:
    main = folder / "apache2.conf"
    main.write_text(text.replace("{root}", str(folder)))
    (folder / "envvars").write_text("unset HOME\nexport SUFFIX=\nexport APACHE_LOG_DIR=/var/log/apache2$SUFFIX\n")
    (folder / "sites-enabled").mkdir()
    for name, content in sites.items():
        (folder / "sites-enabled" / f"{name}.conf").write_text(content)
    return find_logs(str(main), ConfigFiles())


def test_debian(tmp_path: pathlib.Path) -> None:
    site = "<VirtualHost *:80>\n\tcustomlog \\\n ${APACHE_LOG_DIR}/access.log combined env=!quiet\n</VirtualHost>"
    (log,) = found(tmp_path, DEBIAN, site=site).logs
    assert (log.path, log.format, log.known_as) == ("/var/log/apache2/access.log", COMBINED, "combined")
    assert str(log.place).endswith("site.conf:2")


@pytest.mark.parametrize(
    ("directive", "path", "format"),
    [
        ('CustomLog logs/a.log "%h %t \\"%r\\" %>s %b"', "{root}/logs/a.log", '%h %t "%r" %>s %b'),
        ("CustomLog /l/a common", "/l/a", "common"),
        ("CustomLog /l/a nickname", "/l/a", ""),
        ("TransferLog /l/a", "/l/a", ""),
        ('LogFormat "%h %t"\nTransferLog /l/a', "/l/a", "%h %t"),
        ('LogFormat "{\\"a\\":\\"%t\\"}" j\nCustomLog /l/a j', "/l/a", ""),
        ("Define DIR /srv\nCustomLog ${DIR}/a common", "/srv/a", "common"),
        ('CustomLog "|/usr/bin/rotatelogs -l /l/a-%Y-%m-%d.log 86400" common', "/l/a-*-*-*.log", "common"),
        ('CustomLog "||/usr/bin/rotatelogs -n 5 /l/a.log 5M" common', "/l/a.log.*", "common"),
    ],
)
def test_logs(tmp_path: pathlib.Path, directive: str, path: str, format: str) -> None:
    (log,) = found(tmp_path, directive).logs
    assert (log.path, log.format) == (path.replace("{root}", str(tmp_path)), format)


@pytest.mark.parametrize(
    ("directive", "why"),
    [
        ('CustomLog "|/usr/bin/logger -t apache" combined', "goes to a program"),
        ('CustomLog "|\'" combined', "goes to a program"),
        ("CustomLog syslog:local6 combined", "goes to syslog"),
        ("CustomLog /dev/stdout combined", "is no file"),
        ("CustomLog ${NOWHERE}/a.log combined", "a variable that nothing defines"),
    ],
)
def test_logs_that_cannot_be_followed_are_said_to_be(tmp_path: pathlib.Path, directive: str, why: str) -> None:
    logs = found(tmp_path, directive)
    assert not logs.logs and why in logs.left_out[0]


def test_hostile_files_are_refused_in_one_sentence(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigError, match=r"apache2.conf:1: a quote that does not end"):
        found(tmp_path, 'CustomLog "/l/a')
    (tmp_path / "b").mkdir()
    with pytest.raises(ConfigError, match="a file includes itself"):
        found(tmp_path / "b", "Include apache2.conf")


@given(st.text(st.sampled_from("ab $\"'\\<>#\n%"), max_size=60) | st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert all(each.words for each in directives(text, "f"))
    except ConfigError as error:
        assert "\n" not in str(error)
