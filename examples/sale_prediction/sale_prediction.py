"""How a product may sell: what is bought together with it, and how popular all of that is right now.

The paper's third application (ELF, section 2.1; Figure 7): its master asks the two others. What is bought together,
product-bundling answers by `route`; what is popular, the windows of micro-promotion say, which it follows. Windows of
the same time are joined, never others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import elf

PROMOTION, BUNDLING = "shop/micro-promotion", "shop/product-bundling"
#: Windows of micro-promotion that are kept: the two masters close theirs one after the other.
KEPT = 4


def predict(product: str, clicks: int, together: Sequence[str], top: Mapping[str, int]) -> dict[str, Any]:
    """Return a prediction.

    Args:
        product: that is asked for.
        clicks: on it.
        together: what is bought together with it.
        top: the most popular products of the same time -> clicks.

    Returns:
        product, clicks, together, popular (which of the product and its peers are in the top), and outlook: their share
        of all clicks in the top, 0 to 1.
    """
    popular = sorted({product, *together} & top.keys(), key=lambda each: (-top[each], each))
    share = sum(top[each] for each in popular) / sum(top.values()) if popular else 0.0
    return {"product": product, "clicks": clicks, "together": sorted(together), "popular": popular, "outlook": share}


class Prediction(elf.Application):
    """Publishes the predictions of each window, and answers for one product.

    All of it follows from the newest windows and from what the others answer, so a new master has it after its first.
    """

    def __init__(self) -> None:
        #: Window's end -> product -> clicks.
        self.tops: dict[int, dict[str, int]] = {}
        #: The newest window of our own, and what is still asked of it.
        self.newest: elf.Result | None = None
        self.asked: set[str] = set()
        self.together: dict[str, list[str]] = {}
        self.troubles: dict[str, str] = {}
        self.predictions: dict[str, dict[str, Any]] = {}

    def on_start(self) -> None:
        """Follow what is popular."""
        if self.elf.role == "master":
            self.elf.subscribe(PROMOTION)

    def on_result(self, result: elf.Result) -> None:
        """Take what is popular in a window, or ask what goes with the products of a window of our own."""
        if result.window is None:
            return
        if result.job == PROMOTION:
            self.tops[result.window.end_ms] = {row["product"]: row["clicks"] for row in result.rows}
            for end_ms in sorted(self.tops)[:-KEPT]:
                del self.tops[end_ms]
            if self.newest is not None and result.window.end_ms == self._end_ms():
                self._publish()
        elif self.newest is None or result.window.end_ms >= self._end_ms():
            self.newest = result
            self.together = {}
            self.troubles = {}
            for row in result.rows:
                # One that is asked for already is answered soon.
                if row["product"] not in self.asked:
                    self.asked.add(row["product"])
                    self.elf.route(BUNDLING, row["product"])
            self._publish()

    def on_answer(self, answer: elf.Answer) -> None:
        """Take what goes with a product; what cannot be had is said in its place."""
        self.asked.discard(answer.query)
        if answer.error is None:
            self.together[answer.query] = answer.value["with"]
        else:
            self.troubles[answer.query] = answer.error
        self._publish()

    def on_route(self, asker: str, query: Any) -> Any:
        """Answer with a product's newest prediction."""
        if query not in self.predictions:
            others = f"there are {', '.join(sorted(self.predictions))}" if self.predictions else "there is none yet"
            raise ValueError(f"of {query!r} there is no prediction; {others}")
        return self.predictions[query]

    def _end_ms(self) -> int:
        assert self.newest is not None and self.newest.window is not None
        return self.newest.window.end_ms

    def _publish(self) -> None:
        """Publish the newest window's predictions once everything of it is there."""
        if self.newest is None:
            return
        top = self.tops.get(self._end_ms())
        products = {row["product"] for row in self.newest.rows}
        if top is None or products - self.together.keys() - self.troubles.keys():
            return
        found = [self._row(row["product"], row["clicks"], top) for row in self.newest.rows]
        self.predictions = {row["product"]: {**row, "end_ms": self._end_ms()} for row in found}
        self.elf.publish(found, of=self.newest)

    def _row(self, product: str, clicks: int, top: Mapping[str, int]) -> dict[str, Any]:
        if product in self.troubles:
            return {"product": product, "clicks": clicks, "trouble": self.troubles[product]}
        return predict(product, clicks, self.together[product], top)
