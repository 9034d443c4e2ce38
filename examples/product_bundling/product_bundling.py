"""What is bought together: the connected components of the orders of a sliding window, kept as windows slide.

The paper's second application (ELF, section 2.3; Figure 6). Counting edges is the job's, SQL on m trees; what SQL
cannot say, which products hang together over several edges, is this class's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import elf

Edge = tuple[str, str]


class Components:
    """The connected components of a graph whose edges come and go.

    A new edge joins two components: the smaller one's members change their component, so n members change log n times
    at most. Where edges leave, the components that they were in are searched anew, and no others.
    """

    def __init__(self) -> None:
        self.edges: set[Edge] = set()
        self._beside: dict[str, set[str]] = {}
        #: Member -> its component; the very same set for all members of one.
        self._of: dict[str, set[str]] = {}

    def update(self, edges: Iterable[Edge]) -> None:
        """Take the edges as they are now, each as (smaller, greater)."""
        now = set(edges)
        added, gone = now - self.edges, self.edges - now
        self.edges = now
        self._remove(gone)
        for one, other in added:
            for member in (one, other):
                self._beside.setdefault(member, set())
                self._of.setdefault(member, {member})
            self._beside[one].add(other)
            self._beside[other].add(one)
            self._join(self._of[one], self._of[other])

    def of(self, member: str) -> list[str]:
        """Return a member's component, sorted; nothing if it has no edge."""
        return sorted(self._of.get(member, ()))

    def all(self) -> list[list[str]]:
        """Return all components, each sorted, the largest first and equal ones by their members."""
        found = {id(component): component for component in self._of.values()}
        return sorted((sorted(component) for component in found.values()), key=lambda each: (-len(each), each))

    def _join(self, one: set[str], other: set[str]) -> None:
        if one is other:
            return
        small, large = sorted((one, other), key=len)
        large |= small
        for member in small:
            self._of[member] = large

    def _remove(self, edges: Iterable[Edge]) -> None:
        """Take edges out, and search the components anew that they were in."""
        touched = {id(component): component for edge in edges for component in (self._of[edge[0]],)}
        for one, other in edges:
            self._beside[one].discard(other)
            self._beside[other].discard(one)
        for component in touched.values():
            left = {member for member in component if self._beside[member]}
            for member in component - left:
                del self._of[member], self._beside[member]
            while left:
                found = self._reached(next(iter(left)))
                left -= found
                self._of.update(dict.fromkeys(found, found))

    def _reached(self, start: str) -> set[str]:
        found, pending = {start}, [start]
        while pending:
            new = self._beside[pending.pop()] - found
            found |= new
            pending += new
        return found


class Bundling(elf.Application):
    """Publishes the bundles of each window, and answers what goes with a product.

    A bundle is a component of the graph whose edges are the job's rows. All of it follows from the newest window, so a
    new master has it after its first.
    """

    def __init__(self) -> None:
        self.components = Components()
        self.end_ms = 0

    def on_result(self, result: elf.Result) -> None:
        """Bring the components to a window's edges; late orders of older windows change no bundle of today."""
        if result.window is None or result.window.end_ms < self.end_ms:
            return
        self.end_ms = result.window.end_ms
        self.components.update((row["a"], row["b"]) for row in result.rows)
        bundles = self.components.all()
        self.elf.publish([{"products": bundle, "size": len(bundle)} for bundle in bundles], of=result)

    def on_route(self, asker: str, query: Any) -> Any:
        """Answer which products are bought together with one: its bundle, and the window it is of."""
        if not isinstance(query, str):
            raise ValueError('the query is a product, such as "Tetris"')
        beside = [each for each in self.components.of(query) if each != query]
        return {"product": query, "with": beside, "end_ms": self.end_ms}
