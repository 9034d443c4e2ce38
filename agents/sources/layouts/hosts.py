"""Addresses and host names as logs hold them. Pure; the kernel's twin (`native/hosts.c`)."""

from __future__ import annotations

_DIGIT = frozenset(b"0123456789")
_HEX = frozenset(b"0123456789abcdefABCDEF")
_LETTER = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_NAME = _LETTER | _DIGIT | frozenset(b"_")
_INNER = _NAME | frozenset(b".-")
_SOCKET = b"unix:"
#: Letters, and marks that are in no name, address, list, or quote.
_FORGED = _LETTER | frozenset(b"!#$&*+;<=>?@\\^`|~")


def is_ipv4(text: bytes) -> bool:
    """Tell whether a text is four numbers up to 255, without leading zeros."""
    parts = text.split(b".")
    return len(parts) == 4 and all(
        1 <= len(part) <= 3 and _DIGIT.issuperset(part) and int(part) <= 255 and (part == b"0" or part[0] != 48)
        for part in parts
    )


def is_ipv6(text: bytes) -> bool:
    """Tell whether a text is an address of RFC 4291, with a zone (`%eth0`) or without."""
    text, percent, zone = text.partition(b"%")
    if percent and not zone:
        return False
    if b"." in text:
        head, _, tail = text.rpartition(b":")
        if not head or not is_ipv4(tail):
            return False
        # It stands for two groups.
        text = head + b":0:0"
    halves = text.split(b"::")
    if len(halves) > 2:
        return False
    groups = [group for half in halves if half for group in half.split(b":")]
    if not all(1 <= len(group) <= 4 and _HEX.issuperset(group) for group in groups):
        return False
    return len(groups) == 8 if len(halves) == 1 else len(groups) <= 7


def is_ip(text: bytes) -> bool:
    """Tell whether a text is an address, in brackets or not."""
    if text.startswith(b"[") and text.endswith(b"]"):
        return is_ipv6(text[1:-1])
    return is_ipv4(text) or is_ipv6(text)


def is_name(text: bytes) -> bool:
    """Tell whether a text is a host's name: letters, of which there is one, digits, `_`, `-` and `.`."""
    return (
        bool(text)
        and text[0] in _NAME
        and (text[-1] in _NAME or text[-1] == 46)
        and _INNER.issuperset(text)
        and not _LETTER.isdisjoint(text)
    )


def is_full_name(text: bytes) -> bool:
    """Tell whether a text is `localhost`, or a host's name with a dot whose last label is no number."""
    label = text.rpartition(b".")[2]
    return text == b"localhost" or (is_name(text) and b"." in text and not (label and _DIGIT.issuperset(label)))


def is_peer(text: bytes) -> bool:
    """Tell whether a text is what proxies write of who was asked, or asked them: an address or name, or with a port."""
    if is_ip(text) or text.startswith(_SOCKET) or text in (b"unknown", b"localhost"):
        return True
    return is_authority(text)


def is_authority(text: bytes) -> bool:
    """Tell whether a text is an address or name and a port."""
    head, colon, port = text.rpartition(b":")
    return bool(colon) and is_port(port) and (is_ip(head) or is_name(head))


def is_port(text: bytes) -> bool:
    """Tell whether a text is one to five digits."""
    return 1 <= len(text) <= 5 and _DIGIT.issuperset(text)


def is_hidden(text: bytes) -> bool:
    """Tell whether a text is an identifier of RFC 7239 that stands for an address: `_` and letters, digits, `._-`."""
    return len(text) > 1 and text[0] == 95 and _INNER.issuperset(text)


def is_upstream(text: bytes) -> bool:
    """Tell whether a text is who was asked: as `is_peer`, behind a scheme or not, or the name of a group of servers."""
    scheme, mark, rest = text.partition(b"://")
    if mark and scheme and _LETTER.issuperset(scheme):
        text = rest
    return is_peer(text) or is_name(text)


def is_no_host(text: bytes) -> bool:
    """Tell whether a text is what only a client that may choose it writes for its address.

    It has a byte that no host's name has, and nothing that could be a part of an address: no digit, dot, or colon.
    """
    return bool(text) and _FORGED.issuperset(text) and not _LETTER.issuperset(text)


def is_socket(text: bytes) -> bool:
    """Tell whether a text is what servers write for who came by a Unix socket."""
    return text == _SOCKET
