"""The cluster secret: keyed BLAKE2b tags over bytes, and sealed datagrams built from them.

Owns keys, tags, the replay window and the sealed form; not what the bytes mean. One secret proves membership of the
cluster, not which agent speaks: that follows from the address checked in `protocol`, or, where certificates take the
secret's place (`signed`), from these. OVERLAY section 1.2 (a).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from elf.overlay.dht.signed import SIGNED, Notary, Toll, read_signed, sign
from elf.overlay.errors import SecretError
from elf.overlay.ids import Contact
from elf.overlay.subject import Subject

KEY_BYTES: Final = 32
KEY_ID_BYTES: Final = 4
MAC_BYTES: Final = 16
TAG_BYTES: Final = KEY_ID_BYTES + MAC_BYTES
#: How far two agents' clocks may differ; also how long a datagram could be replayed if we kept no window.
SKEW_MS: Final = 30_000
#: Datagrams remembered per generation of the window (2 x SKEW_MS each): 4,300 a second, 16 MB at worst.
SEEN_MAX: Final = 1 << 18

PLAIN: Final = b"\x01"
SEALED: Final = b"\x02"
_TIME_BYTES: Final = 8
_SEALED_HEAD: Final = 1 + _TIME_BYTES + TAG_BYTES
#: What is to be compared where datagrams cannot be opened; the last one also of such that were forged or damaged.
_UNLIKE_OPEN: Final = "they are sealed with a cluster secret and this agent has none; set overlay.secret_file here"
_UNLIKE_SEALED: Final = "they have no seal and this agent has a cluster secret; set overlay.secret_file there"
_UNLIKE_SECRET: Final = "their cluster secret is not ours; overlay.secret_file has to be the same there and here"
_UNLIKE_ADDRESS: Final = (
    "they are sealed for another address than ours, or were changed on their way; compare overlay.advertise here with "
    "how they call us, as in overlay.join"
)
_UNLIKE_UNSIGNED: Final = (
    "they are not signed with a certificate and this agent has no cluster secret; set overlay.tls_cert_file there, to "
    "one that names address and port, or overlay.secret_file here"
)
_UNLIKE_SIGNED: Final = (
    "they are signed with a certificate and this agent has none; set overlay.tls_cert_file here, or leave the ports "
    "out of the certificates there"
)
_UNLIKE_CERTIFICATE: Final = (
    "their certificate is none of our authority, not valid now, revoked, or not that of their address; compare "
    "overlay.tls_ca_file there and here"
)
#: All of them, the most telling first: who has one of our keys is a member.
UNLIKE: Final = (
    _UNLIKE_ADDRESS, _UNLIKE_SECRET, _UNLIKE_CERTIFICATE, _UNLIKE_SEALED, _UNLIKE_UNSIGNED, _UNLIKE_OPEN,
    _UNLIKE_SIGNED,
)  # fmt: skip


class Secret:
    """One or two live cluster keys: the first one signs, each of them verifies.

    To rotate without an outage: append the new key everywhere, then put it first everywhere, then drop the old one.
    """

    __slots__ = ("_keys", "_signer")

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not 1 <= len(keys) <= 2:
            raise SecretError(f"{len(keys)} cluster keys; one is right, or two while keys are being changed")
        if any(len(key) != KEY_BYTES for key in keys):
            raise SecretError(f"a cluster key must be {KEY_BYTES} bytes long")
        self._keys = {_key_id(key): key for key in keys}
        self._signer = _key_id(keys[0])

    @classmethod
    def parse(cls, text: str, *, where: str = "secret") -> Secret:
        """Read keys as text: 64 hexadecimal digits a line, blank lines and lines starting with `#` skipped.

        Raises:
            SecretError: the operator's fault; the text names `where` and the line, never the key.
        """
        keys = []
        for number, line in enumerate(text.splitlines(), 1):
            word = line.strip()
            if not word or word.startswith("#"):
                continue
            try:
                key = bytes.fromhex(word)
            except ValueError:
                key = b""
            if len(key) != KEY_BYTES:
                raise SecretError(f"{where}:{number}: a cluster key is {2 * KEY_BYTES} hexadecimal digits")
            keys.append(key)
        if not keys:
            raise SecretError(f"{where}: holds no cluster key; make one with `elf keygen`")
        return cls(keys)

    @classmethod
    def load(cls, path: str | Path) -> Secret:
        """Read keys from a file that other users cannot read.

        Raises:
            SecretError: the file is missing, unreadable, open to other users, or not a secret.
        """
        file = Path(path)
        try:
            mode, data = file.stat().st_mode, file.read_bytes()
        except OSError as error:
            raise SecretError(
                f"secret_file = '{file}': cannot read the cluster secret: {error.strerror}; make one with `elf keygen`"
            ) from None
        if mode & 0o007:
            raise SecretError(
                f"{file}: other users of this machine can read the cluster secret; run `chmod 600 {file}`"
            )
        return cls.parse(data[:4096].decode("utf-8", "replace"), where=str(file))

    def become(self, other: Secret) -> None:
        """Take another's keys for one's own: whoever holds this secret signs and verifies with them from now on."""
        self._keys = other._keys
        self._signer = other._signer

    def text(self) -> str:
        """Return the keys in the form that `parse` reads."""
        return "".join(key.hex() + "\n" for key in self._keys.values())

    def tag(self, data: bytes, context: bytes) -> bytes:
        """Return TAG_BYTES that prove `data` was said by a member in this `context` (purpose, direction, challenge)."""
        return self._signer + _mac(self._keys[self._signer], data, context)

    def verify(self, data: bytes, context: bytes, tag: bytes) -> bool:
        """Tell whether `tag` was made by any live key over this data and context; takes any bytes."""
        key = self._keys.get(tag[:KEY_ID_BYTES])
        return key is not None and hmac.compare_digest(_mac(key, data, context), tag[KEY_ID_BYTES:])

    def knows(self, tag: bytes) -> bool:
        """Tell whether a tag names a live key; anyone may have written that."""
        return tag[:KEY_ID_BYTES] in self._keys

    def seal(self, data: bytes, context: bytes) -> bytes:
        """Return `data` readable for members only, with a tag; a context must never serve twice, so name a fresh nonce.

        Keyed BLAKE2b is a pseudorandom function: in counter mode it is a stream cipher, and the tag covers its output.
        """
        box = _mask(self._keys[self._signer], data, context)
        return box + self.tag(box, context)

    def unseal(self, sealed: bytes, context: bytes) -> bytes | None:
        """Return what `seal` was given, or None for anything that no live key sealed in this context."""
        box, tag = sealed[:-TAG_BYTES], sealed[-TAG_BYTES:]
        if not self.verify(box, context, tag):
            return None
        return _mask(self._keys[tag[:KEY_ID_BYTES]], box, context)

    def __repr__(self) -> str:
        return f"Secret({len(self._keys)} keys)"


class Gate:
    """Seals the datagrams of one agent and opens those that reach it.

    Tag or signature covers time, body and *destination*, so a datagram can be neither reflected nor sent on to a third
    agent. Without secret and certificate, datagrams are only marked with the version of the wire format. A datagram of
    the last SKEW_MS can be replayed once after our restart; every request is idempotent, so that changes nothing.

    Args:
        secret: the cluster's.
        own_address: where others reach us.
        skew_ms: how far clocks may differ.
        notary: signs in place of the secret if our certificate names our place, and lets signed ones in.
    """

    def __init__(
        self, secret: Secret | None, own_address: str, *, skew_ms: int = SKEW_MS, notary: Notary | None = None
    ) -> None:
        self._secret = secret
        self._skew_ms = skew_ms
        self._address = own_address
        self._context = _context(own_address)
        self._seen: set[bytes] = set()
        self._seen_before: set[bytes] = set()
        self._turned_ms: int | None = None
        self._toll = Toll()
        #: May be changed; for what comes and goes from then on.
        self.notary = notary
        #: How far the clock of whoever sealed the last datagram is ahead of ours, if that is why it was not opened.
        self.apart_ms: int | None = None
        #: Why the last datagram was not opened, if it looks like one of an agent that is set otherwise.
        self.unlike: str | None = None
        #: Whose certificate the last one that was opened was signed with, if it was.
        self._bearer: Subject | None = None

    def seal(self, body: bytes, to_address: str, now_ms: int) -> bytes:
        """Return the datagram that carries `body` to the agent at `to_address`."""
        if self.notary is not None and self.notary.certificate:
            return sign(self.notary, body, to_address, now_ms)
        if self._secret is None:
            return PLAIN + body
        time = now_ms.to_bytes(_TIME_BYTES)
        return SEALED + time + self._secret.tag(time + body, _context(to_address)) + body

    def open(self, datagram: bytes, now_ms: int, host: str = "") -> bytes | None:
        """Return the body, or None for anything not sealed for us (see `unlike`), out of time (`apart_ms`) or seen.

        `host`: the IP address that it came from.
        """
        self.apart_ms = self.unlike = self._bearer = None
        if datagram[:1] == SIGNED:
            return self._open_signed(datagram, now_ms, host)
        if self._secret is None:
            if self.notary is not None and self.notary.certificate:
                self.unlike = _UNLIKE_UNSIGNED if datagram[:1] in (PLAIN, SEALED) else None
                return None
            self.unlike = _UNLIKE_OPEN if datagram[:1] == SEALED and len(datagram) >= _SEALED_HEAD else None
            return datagram[1:] if datagram[:1] == PLAIN else None
        if datagram[:1] != SEALED or len(datagram) < _SEALED_HEAD:
            self.unlike = _UNLIKE_SEALED if datagram[:1] == PLAIN else None
            return None
        time, tag = datagram[1 : 1 + _TIME_BYTES], datagram[1 + _TIME_BYTES : _SEALED_HEAD]
        body = datagram[_SEALED_HEAD:]
        if not self._secret.verify(time + body, self._context, tag):
            self.unlike = _UNLIKE_ADDRESS if self._secret.knows(tag) else _UNLIKE_SECRET
            return None
        return body if self._is_in_time(int.from_bytes(time), now_ms) and self._first_sight(tag, now_ms) else None

    def speaks_for(self, sender: Contact) -> bool:
        """Tell whether whoever sent the datagram that was opened last may say that it is this agent."""
        return self._bearer is None or self._bearer.names(sender.address)

    def _open_signed(self, datagram: bytes, now_ms: int, host: str) -> bytes | None:
        found = read_signed(datagram)
        if self.notary is None or found is None:
            self.unlike = _UNLIKE_SIGNED if found is not None else None
            return None
        sight = found.sight(self._address)
        if sight in self._seen or sight in self._seen_before or not self._toll.admits(host, now_ms):
            return None
        bearer = self.notary.bearer(found.certificate, now_ms)
        if bearer is None or host not in bearer.hosts or not bearer.places:
            self.unlike = _UNLIKE_CERTIFICATE
        elif not self.notary.is_signed(found.certificate, found.message(self._address), found.signature):
            self.unlike = _UNLIKE_ADDRESS
        elif self._is_in_time(found.at_ms, now_ms) and self._first_sight(sight, now_ms):
            self._bearer = bearer
            return found.body
        self._toll.forged(host)
        return None

    def _is_in_time(self, at_ms: int, now_ms: int) -> bool:
        if abs(at_ms - now_ms) <= self._skew_ms:
            return True
        self.apart_ms = at_ms - now_ms
        return False

    def _first_sight(self, tag: bytes, now_ms: int) -> bool:
        # Sent at t, a datagram is in time until t + skew and may arrive from t - skew on: remembering it for two
        # skews is enough, and two generations turned at that pace hold it at least so long, at O(1) a datagram.
        if self._turned_ms is None:
            self._turned_ms = now_ms
        elif abs(now_ms - self._turned_ms) >= 2 * self._skew_ms:  # set back, too, or the window would fill up
            self._seen_before = self._seen
            self._seen = set()
            self._turned_ms = now_ms
        if tag in self._seen or tag in self._seen_before or len(self._seen) >= SEEN_MAX:
            return False
        self._seen.add(tag)
        return True


def _context(address: str) -> bytes:
    return b"elf datagram to " + address.encode()


def _key_id(key: bytes) -> bytes:
    return hashlib.blake2b(b"", digest_size=KEY_ID_BYTES, key=key, person=b"elf key id").digest()


def _mac(key: bytes, data: bytes, context: bytes) -> bytes:
    digest = hashlib.blake2b(len(context).to_bytes(4) + context, digest_size=MAC_BYTES, key=key, person=b"elf tag")
    digest.update(data)
    return digest.digest()


def _mask(key: bytes, data: bytes, context: bytes) -> bytes:
    stream = b"".join(
        hashlib.blake2b(block.to_bytes(4) + context, key=key, person=b"elf seal").digest()
        for block in range(-(-len(data) // hashlib.blake2b.MAX_DIGEST_SIZE))
    )
    return (int.from_bytes(data) ^ int.from_bytes(stream[: len(data)])).to_bytes(len(data))
