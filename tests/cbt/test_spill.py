"""The spill store is a dict of bytes that is right or says that it is not, whatever happens to its files."""

import contextlib
import errno
import gc
import os
import pathlib
import resource
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from elf.cbt.spill import Ref, SpillCorrupt, SpillError, SpillFull, SpillStore, sweep
from elf.cbt.spill_block import HEADER_BYTES

SEGMENT_BYTES = 4 * (HEADER_BYTES + 20)
payload = st.binary(max_size=40) | st.sampled_from([b"", b"same", bytes(20)]) | st.binary(min_size=300, max_size=400)


@contextlib.contextmanager
def full_disk(after: int) -> Iterator[None]:
    """Let the next `after` bytes be written, then refuse."""
    real, left = os.pwritev, after

    def pwritev(descriptor: int, parts: list[memoryview], place: int) -> int:
        nonlocal left
        if left <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        data = b"".join(parts)[:left]
        left -= len(data)
        return real(descriptor, [data], place)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwritev", pwritev)
        yield


def files(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(folder.glob("*.spill"))


class Store(RuleBasedStateMachine):
    """Writes, reads, frees, compactions and failed writes in any order, against a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.scratch.name) / "spill"
        self.store = SpillStore(self.folder, segment_bytes=SEGMENT_BYTES)
        self.model: dict[Ref, bytes] = {}
        self.freed: list[Ref] = []

    @rule(data=payload)
    def write(self, data: bytes) -> None:
        ref = self.store.write(data)
        assert ref.length == len(data)
        assert ref not in self.model and ref not in self.freed
        self.model[ref] = data

    @rule(data=payload, after=st.integers(0, 60))
    def write_on_a_full_disk(self, data: bytes, after: int) -> None:
        before = self.store.statistics()
        with full_disk(after):
            if after >= HEADER_BYTES + len(data):
                self.model[self.store.write(data)] = data
                return
            with pytest.raises(SpillFull, match="No space left"):
                self.store.write(data)
        assert self.store.statistics() == before

    @precondition(lambda self: bool(self.model))
    @rule(choice=st.data())
    def free(self, choice: st.DataObject) -> None:
        ref = choice.draw(st.sampled_from(sorted(self.model)))
        self.store.free(ref)
        del self.model[ref]
        self.freed.append(ref)

    @rule(bytes_max=st.sampled_from([1, 100, 1 << 20]), fail=st.booleans())
    def compact(self, bytes_max: int, fail: bool) -> None:
        before = self.store.statistics()

        def move(old: Ref, new: Ref) -> None:
            assert self.store.read(old) == self.store.read(new) == self.model[old]
            if fail:
                raise InterruptedError
            self.model[new] = self.model.pop(old)
            self.freed.append(old)

        try:
            moved = self.store.compact(move, bytes_max=bytes_max)
        except InterruptedError:
            return
        after = self.store.statistics()
        assert after.live_bytes == before.live_bytes
        # A block may stand behind the bound, but no second one.
        assert moved <= bytes_max + HEADER_BYTES + 400
        if moved == 0:
            assert 2 * after.garbage_bytes < after.disk_bytes or after.disk_bytes == 0

    @rule()
    def compact_fully(self) -> None:
        def move(old: Ref, new: Ref) -> None:
            self.model[new] = self.model.pop(old)

        while self.store.compact(move):
            pass
        statistics = self.store.statistics()
        assert statistics.disk_bytes < 2 * statistics.live_bytes or statistics.disk_bytes == 0

    @invariant()
    def content_is_the_models(self) -> None:
        for ref, data in self.model.items():
            assert self.store.read(ref) == data
        for ref in self.freed:
            with pytest.raises(SpillCorrupt, match="stale"):
                self.store.read(ref)
            with pytest.raises(ValueError, match="not a live block"):
                self.store.free(ref)

    @invariant()
    def account_is_the_disks(self) -> None:
        statistics = self.store.statistics()
        assert statistics.blocks == len(self.model)
        assert statistics.live_bytes == sum(HEADER_BYTES + len(data) for data in self.model.values())
        assert statistics.live_bytes + statistics.garbage_bytes == statistics.disk_bytes
        assert statistics.disk_bytes == sum(path.stat().st_size for path in files(self.folder))
        assert statistics.segments == len(files(self.folder)) == len({ref.segment for ref in self.model})

    def teardown(self) -> None:
        self.store.close()
        assert not self.folder.exists() or not list(self.folder.iterdir())
        self.scratch.cleanup()


TestStore = Store.TestCase
TestStore.settings = settings(max_examples=60, stateful_step_count=30)


class Damage(RuleBasedStateMachine):
    """Every damaged block is reported, every other one is served, and writing goes on."""

    @initialize(blocks=st.lists(payload, min_size=1, max_size=12), dead=st.sets(st.integers(0, 11)))
    def fill(self, blocks: list[bytes], dead: set[int]) -> None:
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.scratch.name)
        self.store = SpillStore(self.folder, segment_bytes=SEGMENT_BYTES)
        refs = [self.store.write(data) for data in blocks]
        for index in dead & set(range(len(refs))):
            self.store.free(refs[index])
        self.model = {ref: data for i, (ref, data) in enumerate(zip(refs, blocks, strict=True)) if i not in dead}
        self.right = {ref: self.on_disk(ref) for ref in self.model}

    def path(self, ref: Ref) -> pathlib.Path:
        (path,) = [p for p in [*files(self.folder), None] if p is None or p.stem.endswith(f"-{ref.segment:08d}")][:1]
        return path or self.folder / "missing"

    def on_disk(self, ref: Ref) -> bytes:
        try:
            return self.path(ref).read_bytes()[ref.offset : ref.offset + ref.disk_bytes]
        except FileNotFoundError:
            return b"missing"

    @precondition(lambda self: bool(files(self.folder)))
    @rule(choice=st.data(), bits=st.integers(1, 255))
    def flip(self, choice: st.DataObject, bits: int) -> None:
        path = choice.draw(st.sampled_from(files(self.folder)))
        data = bytearray(path.read_bytes())
        if data:
            data[choice.draw(st.integers(0, len(data) - 1))] ^= bits
        path.write_bytes(data)

    @precondition(lambda self: bool(files(self.folder)))
    @rule(choice=st.data())
    def truncate(self, choice: st.DataObject) -> None:
        path = choice.draw(st.sampled_from(files(self.folder)))
        os.truncate(path, choice.draw(st.integers(0, path.stat().st_size)))

    @precondition(lambda self: bool(files(self.folder)))
    @rule(choice=st.data(), zeros=st.integers(1, 64))
    def zero(self, choice: st.DataObject, zeros: int) -> None:
        path = choice.draw(st.sampled_from(files(self.folder)))
        data = bytearray(path.read_bytes())
        start = choice.draw(st.integers(0, len(data)))
        data[start : start + zeros] = bytes(len(data[start : start + zeros]))
        path.write_bytes(data)

    @precondition(lambda self: bool(files(self.folder)))
    @rule(choice=st.data())
    def delete(self, choice: st.DataObject) -> None:
        choice.draw(st.sampled_from(files(self.folder))).unlink()

    @precondition(lambda self: len(files(self.folder)) > 1)
    @rule(choice=st.data())
    def swap_files(self, choice: st.DataObject) -> None:
        one, two = choice.draw(st.permutations(files(self.folder)))[:2]
        one.rename(self.folder / "swap")
        two.rename(one)
        (self.folder / "swap").rename(two)

    @precondition(lambda self: len(self.model) > 1)
    @rule(choice=st.data())
    def swap_blocks(self, choice: st.DataObject) -> None:
        one, two = choice.draw(st.permutations(sorted(self.model)))[:2]
        bytes_one, bytes_two = self.on_disk(one), self.on_disk(two)
        for ref, data in ((one, bytes_two), (two, bytes_one)):
            if self.path(ref).exists():
                whole = bytearray(self.path(ref).read_bytes())
                whole[ref.offset : ref.offset + len(data)] = data
                self.path(ref).write_bytes(whole)

    @rule()
    def remove_the_folder(self) -> None:
        for path in self.folder.iterdir():
            path.unlink()
        self.folder.rmdir()
        self.write(b"again")

    @rule(data=payload)
    def write(self, data: bytes) -> None:
        # A file that somebody else made larger holds old bytes where this block goes: it is overwritten, not trusted.
        ref = self.store.write(data)
        self.model[ref] = data
        self.right[ref] = self.on_disk(ref)

    @rule()
    def compact(self) -> None:
        def move(old: Ref, new: Ref) -> None:
            assert self.on_disk(old) == self.right.pop(old)
            self.model[new] = self.model.pop(old)
            self.right[new] = self.on_disk(new)

        damaged = any(self.on_disk(ref) != right for ref, right in self.right.items())
        try:
            while self.store.compact(move):
                pass
        except SpillCorrupt:
            assert damaged

    @rule(choice=st.data())
    def free(self, choice: st.DataObject) -> None:
        if self.model:
            ref = choice.draw(st.sampled_from(sorted(self.model)))
            self.store.free(ref)
            del self.model[ref], self.right[ref]

    @invariant()
    def only_what_is_damaged_is_missing(self) -> None:
        for ref, data in getattr(self, "model", {}).items():
            if self.on_disk(ref) == self.right[ref]:
                assert self.store.read(ref) == data
            else:
                with pytest.raises(SpillCorrupt, match=f"-{ref.segment:08d}.spill at {ref.offset}: "):
                    self.store.read(ref)

    def teardown(self) -> None:
        self.store.close()
        assert not files(self.folder)
        self.scratch.cleanup()


TestDamage = Damage.TestCase
TestDamage.settings = settings(max_examples=100, stateful_step_count=12)


@given(st.binary(min_size=1, max_size=200), st.data())
def test_any_flipped_bit_is_found(data: bytes, choice: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(SpillStore(pathlib.Path(folder))) as store:
        refs = [store.write(part) for part in (b"before", data, b"behind")]
        (path,) = files(pathlib.Path(folder))
        whole = bytearray(path.read_bytes())
        place = choice.draw(st.integers(refs[1].offset, refs[2].offset - 1))
        whole[place] ^= 1 << choice.draw(st.integers(0, 7))
        path.write_bytes(whole)
        assert [store.read(refs[0]), store.read(refs[2])] == [b"before", b"behind"]
        with pytest.raises(SpillCorrupt):
            store.read(refs[1])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "the file is missing"),
        (lambda path: os.truncate(path, HEADER_BYTES + 2), "ends after 34 of 36 bytes"),
        (lambda path: os.truncate(path, 0), "ends after 0 of 36 bytes"),
        (lambda path: path.write_bytes(bytes(36)), "no block begins here"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1] + b"X"), "another checksum"),
        (lambda path: path.write_bytes(path.read_bytes().replace(b"CBTs", b"CBTsX")[:36]), "another store"),
        (lambda path: (path.unlink(), path.symlink_to("/dev/zero")), "symbolic links"),
        (lambda path: (path.unlink(), path.mkdir()), "directory"),
    ],
)
def test_the_message_says_what_is_wrong(
    tmp_path: pathlib.Path, damage: Callable[[pathlib.Path], object], message: str
) -> None:
    store = SpillStore(tmp_path)
    ref = store.write(b"data")
    (path,) = files(tmp_path)
    damage(path)
    with pytest.raises(SpillCorrupt, match=message) as info:
        store.read(ref)
    assert f"{path} at 0: " in str(info.value)
    if path.is_dir():
        path.rmdir()
    store.close()


def test_a_block_of_another_place_or_store_is_told(tmp_path: pathlib.Path) -> None:
    with contextlib.closing(SpillStore(tmp_path / "a")) as one, contextlib.closing(SpillStore(tmp_path / "b")) as two:
        first, second, foreign = one.write(b"same"), one.write(b"same"), two.write(b"same")
        (mine,), (theirs,) = files(tmp_path / "a"), files(tmp_path / "b")
        whole = mine.read_bytes()
        mine.write_bytes(whole[second.offset :] + whole[: second.offset])
        with pytest.raises(SpillCorrupt, match=f"at 0: the block of segment 0, offset {second.offset}, 4 bytes"):
            one.read(first)
        mine.write_bytes(theirs.read_bytes() + whole[second.offset :])
        with pytest.raises(SpillCorrupt, match="the block of another store"):
            one.read(first)
        assert [one.read(second), two.read(foreign)] == [b"same", b"same"]
        with pytest.raises(SpillCorrupt, match="stale ref"):
            one.read(first._replace(checksum=first.checksum ^ 1))


def test_nothing_is_made_before_the_first_write_and_all_is_owner_only(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "deep" / "spill"
    store = SpillStore(folder)
    assert not folder.parent.exists()
    assert store.statistics() == (0, 0, 0, 0, 0)
    store.write(b"data")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()] == [0o600, 0o600]
    store.close()
    store.close()
    assert list(folder.iterdir()) == []
    with pytest.raises(SpillError, match="closed"):
        store.write(b"data")


def test_a_closed_store_forgives_free_and_refuses_read(tmp_path: pathlib.Path) -> None:
    store = SpillStore(tmp_path)
    ref = store.write(b"data")
    store.close()
    store.free(ref)
    with pytest.raises(SpillCorrupt, match="stale"):
        store.read(ref)


def test_a_store_that_nobody_holds_is_gone(tmp_path: pathlib.Path) -> None:
    store = SpillStore(tmp_path)
    store.write(b"data")
    del store
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_links_and_folders_open_to_all_are_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(SpillFull, match="symbolic link"):
        SpillStore(tmp_path / "link").write(b"data")
    (tmp_path / "real").chmod(0o777)
    with pytest.raises(SpillFull, match="any user"):
        SpillStore(tmp_path / "real").write(b"data")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SpillFull, match="file cannot be made"):
        SpillStore(tmp_path / "file").write(b"data")
    assert list((tmp_path / "real").iterdir()) == []


def test_a_link_in_place_of_a_segment_is_not_written_through(tmp_path: pathlib.Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    store = SpillStore(tmp_path / "spill")
    store.write(b"data")
    (path,) = files(store.folder)
    path.unlink()
    path.symlink_to(victim)
    with pytest.raises(SpillFull):
        store.write(b"data")
    assert victim.read_bytes() == b"precious"
    store.close()
    assert victim.read_bytes() == b"precious"


def test_a_file_size_limit_is_a_full_disk(tmp_path: pathlib.Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    store = SpillStore(tmp_path)
    kept = store.write(bytes(1000))
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, hard))
    try:
        with pytest.raises(SpillFull, match="File too large"):
            store.write(bytes(5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert files(tmp_path)[0].stat().st_size == store.statistics().disk_bytes == kept.disk_bytes
    after = store.write(b"after")
    assert (store.read(kept), store.read(after)) == (bytes(1000), b"after")
    store.close()


def test_a_full_disk_stops_compaction_without_loss(tmp_path: pathlib.Path) -> None:
    store = SpillStore(tmp_path)
    refs = [store.write(bytes([i]) * 100) for i in range(9)]
    for ref in refs[:5]:
        store.free(ref)
    moved: dict[Ref, Ref] = {}
    with full_disk(150), pytest.raises(SpillFull):
        store.compact(moved.__setitem__)
    assert list(moved) == refs[5:6]
    while store.compact(moved.__setitem__):
        pass
    assert [store.read(moved.get(ref, ref)) for ref in refs[5:]] == [bytes([i]) * 100 for i in range(5, 9)]
    assert len(files(tmp_path)) == 1
    store.close()


def test_a_corrupt_block_stops_compaction_once(tmp_path: pathlib.Path) -> None:
    store = SpillStore(tmp_path)
    refs = [store.write(bytes([i]) * 100) for i in range(4)]
    store.free(refs[0])
    store.free(refs[1])
    whole = bytearray(files(tmp_path)[0].read_bytes())
    whole[-1] ^= 1
    files(tmp_path)[0].write_bytes(whole)
    moved: dict[Ref, Ref] = {}
    with pytest.raises(SpillCorrupt):
        store.compact(moved.__setitem__)
    assert store.compact(moved.__setitem__) == 0
    assert store.read(moved[refs[2]]) == bytes([2]) * 100
    store.free(refs[3])
    assert store.statistics().garbage_bytes == 0
    store.close()


def test_passing_troubles_are_not_corruption(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SpillStore(tmp_path)
    ref = store.write(b"data")

    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with pytest.raises(SpillError, match="Too many open files") as info:
            store.read(ref)
        assert not isinstance(info.value, SpillCorrupt)
    assert store.read(ref) == b"data"
    store.close()


CHILD = """
import pathlib, sys
from elf.cbt.spill import SpillStore
store = SpillStore(pathlib.Path(sys.argv[1]), segment_bytes=100)
refs = [store.write(bytes([i]) * 90) for i in range(3)]
print("written", flush=True)
sys.stdin.readline()
print([store.read(ref) == bytes([i]) * 90 for i, ref in enumerate(refs)], flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def child(tmp_path: pathlib.Path) -> Iterator[subprocess.Popen[str]]:
    root = pathlib.Path(__file__).parents[2]
    command = [sys.executable, "-c", CHILD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        yield process
        process.kill()


def test_files_of_the_living_stay_and_of_the_killed_go(tmp_path: pathlib.Path, child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None and child.stdout is not None
    (tmp_path / "0123456789abcdef-00000000.spill").write_bytes(b"without a lock: not known to be ours")
    theirs = set(files(tmp_path))
    mine = SpillStore(tmp_path)
    ref = mine.write(b"mine")
    assert theirs < set(files(tmp_path))
    child.stdin.write("go\n")
    child.stdin.flush()
    assert child.stdout.readline() == "[True, True, True]\n"

    child.kill()
    child.wait()
    with contextlib.closing(SpillStore(tmp_path)) as late:
        late.write(b"late")
        assert len(files(tmp_path)) == 3
    assert mine.read(ref) == b"mine"
    assert sweep(tmp_path) == 0
    mine.close()
    assert [path.name for path in tmp_path.iterdir()] == ["0123456789abcdef-00000000.spill"]


def test_an_ordinary_end_removes_the_files(tmp_path: pathlib.Path, child: subprocess.Popen[str]) -> None:
    child.communicate("go\nend\n")
    assert child.returncode == 0
    assert list(tmp_path.iterdir()) == []
    assert sweep(tmp_path / "nowhere") == 0


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_leaves_the_files(tmp_path: pathlib.Path) -> None:
    store = SpillStore(tmp_path)
    ref = store.write(b"data")
    child = os.fork()
    if child == 0:  # pragma: no cover
        store.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert store.read(ref) == b"data"
    store.close()


def test_threads_write_and_read_at_once(tmp_path: pathlib.Path) -> None:
    store = SpillStore(tmp_path, segment_bytes=50_000)
    wrong: list[object] = []

    def work(worker: int) -> None:
        try:
            mine = {}
            for index in range(100):
                data = bytes([worker, index]) * (index * 37 % 3000)
                mine[store.write(data)] = data
                wrong.extend(ref for ref, data in list(mine.items())[-5:] if store.read(ref) != data)
            wrong.extend(ref for ref, data in mine.items() if store.read(ref) != data)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    statistics = store.statistics()
    assert statistics.blocks == 600
    assert statistics.garbage_bytes == 0
    assert statistics.disk_bytes == sum(path.stat().st_size for path in files(tmp_path))
    store.close()


def test_short_writes_are_continued(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwritev

    def pwritev(descriptor: int, parts: list[memoryview], place: int) -> int:
        return real(descriptor, [b"".join(parts)[:7]], place)

    monkeypatch.setattr(os, "pwritev", pwritev)
    with contextlib.closing(SpillStore(tmp_path)) as store:
        refs = {store.write(data): data for data in (b"", b"short", bytes(range(100)))}
        assert [store.read(ref) for ref in refs] == list(refs.values())


def test_what_is_mostly_alive_is_not_moved(tmp_path: pathlib.Path) -> None:
    with contextlib.closing(SpillStore(tmp_path)) as store:
        refs = [store.write(bytes(100)) for _ in range(5)]
        moved: dict[Ref, Ref] = {}
        store.free(refs[0])
        store.free(refs[1])
        assert store.compact(moved.__setitem__) == 0
        store.free(refs[2])
        assert store.compact(moved.__setitem__) == 2 * refs[0].disk_bytes
        assert list(moved) == refs[3:]
