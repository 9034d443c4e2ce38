"""References to what the service manager hands over: taken where a file with a secret is named, and nowhere else."""

import pytest

from elf.agents.errors import ConfigError
from elf.agents.settings.credentials import FOLDER_VARIABLE, with_credentials
from elf.checking.validate import check_config

TEXT = """
[overlay]
secret_file = "${credential:secret}"
[api]
token_file = "${credential:api.token}"
[sources.access]
format = "json"
[sources.access.privacy]
ip = "hash"
key_file = "${credential:key}"
"""


def test_references_lead_into_the_processs_own_folder() -> None:
    config, findings = check_config(TEXT, "agent.toml")
    assert config is not None and not findings
    found = with_credentials(config, {FOLDER_VARIABLE: "/run/credentials/elf"})
    assert found.overlay.secret_file == "/run/credentials/elf/secret"
    assert found.api.token_file == "/run/credentials/elf/api.token"
    assert found.sources["access"].privacy.key_file == "/run/credentials/elf/key"
    with pytest.raises(ConfigError, match="LoadCredential=secret:FILE"):
        with_credentials(config, {})


@pytest.mark.parametrize("text", ["${credential:../state}", "${credential:}", "${file:/etc/x}", "${credential:a}b"])
def test_what_is_no_reference_is_refused(text: str) -> None:
    (finding,) = check_config(f'[api]\ntoken_file = "{text}"\n', "agent.toml")[1]
    assert (finding.line, "write ${credential:NAME}" in finding.message) == (2, True)


def test_nothing_else_takes_a_reference() -> None:
    (finding,) = check_config('[sources.a]\npath = "${credential:secret}"\n', "agent.toml")[1]
    assert (finding.line, "only what names a file with a secret" in finding.message) == (2, True)
