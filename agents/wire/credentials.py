"""What an agent adds to its introduction so that nobody else can make one in its name. Pure."""

from __future__ import annotations

from typing import Annotated

import msgspec

from elf.overlay.fields import Serial
from elf.overlay.keys import KEY_BYTES, SIGNATURE_BYTES

#: Of a certificate: with a chain of names and a large RSA key some 2 KiB.
CERTIFICATE_BYTES_MAX = 8 << 10


class Endorsement(msgspec.Struct, frozen=True, array_like=True):
    """The word of the cluster's authority that this key is that of the agent at this address.

    `certificate`: that of the agent's links, DER, which the authority issued for the address. `signature`: of the
    introduction, with the certificate's key.
    """

    certificate: Annotated[bytes, msgspec.Meta(max_length=CERTIFICATE_BYTES_MAX)]
    signature: Annotated[bytes, msgspec.Meta(max_length=1_024)]


class Credentials(msgspec.Struct, frozen=True, array_like=True):
    """An agent's public key, and the introduction signed with it as of a version of its record."""

    key: Annotated[bytes, msgspec.Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
    version: Serial
    signature: Annotated[bytes, msgspec.Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]
    endorsement: Endorsement | None = None
