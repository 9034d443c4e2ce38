"""How the URL of an archive is written. Imports nothing heavy: a configuration is checked before anything is opened."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.+")
#: What has to be installed for the schemes that Spark reads, too.
PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "abfss": "adlfs"}
PACKAGES |= {"hdfs": "pyarrow"}
#: Whose names have no user in them: what stands before an @ is a key.
BUCKETS = ("s3", "s3a", "gs", "gcs")


def is_url(text: str) -> bool:
    """Tell a URL from a path of this machine."""
    return _URL.fullmatch(text) is not None


def check_url(url: str) -> None:
    """Check how a URL of an archive is written; whether it can be reached is `remote.open_url`'s to find out.

    Raises:
        ValueError: it is none, or holds what must not be in it; the text does not repeat a secret.
    """
    if not is_url(url):
        raise ValueError("no URL; write it like s3://bucket/elf")
    parts = urlsplit(url)
    if parts.password is not None or (parts.scheme in BUCKETS and parts.username is not None):
        raise ValueError(
            "a URL with credentials, which logs and reports would show; leave them out, and give them where "
            f"{PACKAGES.get(parts.scheme, 'its package')} looks for them: environment, profile or role"
        )
    if parts.query or parts.fragment:
        raise ValueError("a URL with ? or #; use the scheme, the bucket or host, and the path only")
    if parts.scheme == "file" and parts.netloc:
        raise ValueError("a file URL with a host; write it with three slashes, file:///srv/elf")
