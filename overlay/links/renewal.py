"""What proves who a node is, read again while it runs: the cluster's secret, and its certificate. Shell."""

from __future__ import annotations

from typing import NamedTuple

from elf.overlay.dht.auth import Secret
from elf.overlay.errors import OverlayError
from elf.overlay.links.tls import Tls
from elf.overlay.settings import OverlaySettings


class Keys(NamedTuple):
    """What was read; None: there is none, before and now."""

    secret: Secret | None
    tls: Tls | None


def read_keys(before: OverlaySettings, settings: OverlaySettings, address: str) -> Keys:
    """Read the files that some settings name, for a node that others reach at an address.

    Raises:
        OverlayError: they cannot be used, or there were none before, or would be none.
    """
    for what, was, will in (
        ("secret_file", before.secret_file, settings.secret_file),
        ("tls_cert_file", before.tls_cert_file, settings.tls_cert_file),
    ):
        if bool(was) != bool(will):
            raise OverlayError(f"overlay.{what} cannot be set, or left out, while the agent runs; restart it")
    return Keys(Secret.load(settings.secret_file) if settings.secret_file else None, Tls.load(settings, address))
