"""An archive at a URL: as much of `pathlib` as its readers need, over fsspec, and what a copy of it is written with.

fsspec, and the package of a scheme (s3fs for s3://, ...), are imported where a URL is opened and nowhere else: agents
and readers of folders need neither. Credentials come from where such packages look for them (environment, profiles,
roles), never from the URL, which is shown to people. Listings are never cached: readers rely on seeing what is new.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any, TypeVar
from urllib.parse import urlsplit

from elf.agents.archive.layout import ArchiveError
from elf.agents.settings.urls import BUCKETS, PACKAGES, check_url

_T = TypeVar("_T")
#: Where a file appears when it has been sent as a whole, and a rename would send it once more.
_OBJECT_STORES = {*BUCKETS, "abfs", "abfss", "az"}
#: How the name of a file begins that is being written; hidden from readers, as all that begins with `_`.
NEW = "_new-"


class StoreError(ArchiveError, OSError):
    """A store cannot be used, or does not answer now."""


def open_url(url: str) -> Remote:
    """Return the folder at a URL; nothing is asked of the store yet.

    Raises:
        StoreError: the URL is wrong, or a package is missing; one sentence that names what to install.
    """
    try:
        check_url(url)
    except ValueError as error:
        shown = url if "credentials" not in str(error) else f"{urlsplit(url).scheme}://..."
        raise StoreError(f"{shown} is {error}") from None
    scheme = urlsplit(url).scheme
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise StoreError(
            f"{url}: URLs need fsspec, which is not installed; install it with: pip install 'elf-stream[url]'"
        ) from None
    try:
        store, root = url_to_fs(url, use_listings_cache=False)
    except ImportError as error:
        package = PACKAGES.get(scheme)
        advice = f"install it with: pip install {package}" if package else str(error)
        raise StoreError(f"{url}: the package for {scheme}:// is not installed; {advice}") from None
    except ValueError as error:
        raise StoreError(f"{url}: {error}") from None
    except Exception as error:  # each package has its own
        raise StoreError(f"{url}: {_reason(error)}") from error
    return Remote(store, str(root).rstrip("/"), url.rstrip("/"))


@dataclasses.dataclass(frozen=True)
class Remote:
    """A folder or file at a URL; see `elf.agents.archive.place.Place`.

    All methods that ask the store raise FileNotFoundError or StoreError.

    Args:
        store: the file system of fsspec.
        root: the archive's folder, as the store names it.
        url: the archive's folder, as it was written.
        inner: path below it.
    """

    store: Any = dataclasses.field(compare=False, repr=False)
    root: str = dataclasses.field(compare=False, repr=False)
    url: str
    inner: PurePosixPath = dataclasses.field(default_factory=PurePosixPath)

    def __str__(self) -> str:
        return f"{self.url}/{self.inner}" if self.inner.name else self.url

    def __lt__(self, other: Remote) -> bool:
        return (self.url, self.inner) < (other.url, other.inner)

    def __truediv__(self, name: str) -> Remote:
        return dataclasses.replace(self, inner=self.inner / name)

    @property
    def name(self) -> str:
        """The last part."""
        return self.inner.name

    @property
    def stem(self) -> str:
        """The last part without its ending."""
        return self.inner.stem

    def with_name(self, name: str) -> Remote:
        """Return the place beside it with this name."""
        return dataclasses.replace(self, inner=self.inner.with_name(name))

    def relative_to(self, other: Remote) -> PurePosixPath:
        """Return the path from `other`, which is above it, to here."""
        return self.inner.relative_to(other.inner)

    def resolve(self) -> Remote:
        """Return itself: a store has no links."""
        return self

    def glob(self, pattern: str) -> Iterator[Remote]:
        """Yield what is below and fits; one listing for each folder on the way."""
        head, _, rest = pattern.partition("/")
        for name in self._names():
            if fnmatchcase(name, head):
                if rest:
                    yield from (self / name).glob(rest)
                else:
                    yield self / name

    def exists(self) -> bool:
        """Tell whether there is anything."""
        return bool(self._ask(lambda: self.store.exists(self._path)))

    def is_dir(self) -> bool:
        """Tell whether it is a folder: for stores without folders, whether anything is below."""
        return bool(self._ask(lambda: self.store.isdir(self._path)))

    def read_bytes(self) -> bytes:
        """Read a whole file."""
        return bytes(self._ask(lambda: self.store.cat_file(self._path)))

    def write_bytes(self, data: bytes) -> None:
        """Write a whole file: readers see all of it or nothing, whenever it is cut short."""
        try:
            self._ask(lambda: self._write(data))
        except (FileNotFoundError, NotADirectoryError) as error:  # of a bucket that is not there
            raise StoreError(f"{self}: {_reason(error)}") from error

    def _write(self, data: bytes) -> None:
        if self._protocols & _OBJECT_STORES:
            self.store.pipe_file(self._path, data)
            return
        hidden = self.with_name(NEW + self.name)
        self.store.makedirs(self._path.rpartition("/")[0], exist_ok=True)
        self.store.pipe_file(hidden._path, data)
        self.store.mv(hidden._path, self._path)

    def unlink(self) -> None:
        """Remove a file, unless it is gone."""
        with contextlib.suppress(FileNotFoundError):
            self._ask(lambda: self.store.rm_file(self._path))

    def sizes(self) -> dict[str, int]:
        """List all files below, however deep: path from here -> bytes. One listing of the store for a thousand."""
        try:
            found = self._ask(lambda: self.store.find(self._path, detail=True))
        except (FileNotFoundError, NotADirectoryError):
            return {}
        above = f"{self._path}/"
        return {path.removeprefix(above): int(info["size"]) for path, info in found.items() if path.startswith(above)}

    @property
    def _protocols(self) -> set[str]:
        known = self.store.protocol
        return {known} if isinstance(known, str) else set(known)

    @property
    def _path(self) -> str:
        return f"{self.root}/{self.inner}" if self.inner.name else self.root

    def _names(self) -> list[str]:
        try:
            paths = self._ask(lambda: self.store.ls(self._path, detail=False))
        except (FileNotFoundError, NotADirectoryError):
            return []
        # Of a file, some stores list the file itself.
        found = [str(path).rstrip("/") for path in paths]
        return [path.rpartition("/")[2] for path in found if path.rpartition("/")[0] == self._path]

    def _ask(self, question: Callable[[], _T]) -> _T:
        try:
            return question()
        except (FileNotFoundError, NotADirectoryError):
            raise
        except Exception as error:  # a store's package has errors of its own, for credentials, say
            raise StoreError(f"{self}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
