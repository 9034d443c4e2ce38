"""A web shop with coupons on what sells best right now, as the elf agent beside it knows from all servers.

    elf publish job.toml
    python shop.py --agent http://127.0.0.1:4260 --port 8080

The agent has the newest top ten already when it is asked, so nobody waits for another machine: not the visitor, and
not the shop, whose pages need no question at all.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import html
from collections.abc import AsyncIterator, Mapping

from aiohttp import ClientError, ClientSession, ClientTimeout, web

from elf.demo.shop import catalogue

FEEDBACK = "/v1/jobs/shop/micro-promotion/feedback"
DISCOUNT_PERCENT = 15
#: How often the agent is asked whether there is anything new; it answers within a millisecond.
LOOK_S = 0.25


class Coupons:
    """The products that have a coupon now: the newest top ten that came to the agent.

    Args:
        agent: the URL of the agent beside this server.
    """

    def __init__(self, agent: str) -> None:
        self.products: list[str] = []
        #: The window that they were the best of, [start, end) in ms; None before there was one.
        self.window: tuple[int, int] | None = None
        self._url = agent + FEEDBACK
        self._tag = ""

    async def look(self, session: ClientSession) -> None:
        """Take what is new. While there is nothing, or no agent, the coupons stay as they are."""
        with contextlib.suppress(ClientError, TimeoutError):
            async with session.get(self._url, headers={"If-None-Match": self._tag}) as answer:
                if answer.status != 200:  # 304: nothing new; 404, 503: no job yet, no result yet
                    return
                result = await answer.json()
                self._tag = answer.headers["ETag"]
                self.products = [row["product"] for row in result["rows"]]
                self.window = result["window"]["start_ms"], result["window"]["end_ms"]

    async def follow(self) -> None:
        """Look again and again, until cancelled."""
        async with ClientSession(timeout=ClientTimeout(5)) as session:
            while True:
                await self.look(session)
                await asyncio.sleep(LOOK_S)


COUPONS: web.AppKey[Coupons] = web.AppKey("coupons")
PRICES: web.AppKey[Mapping[str, int]] = web.AppKey("prices")


async def show_product(request: web.Request) -> web.Response:
    """GET /product/{name}: a product's page, with what it costs now."""
    name = request.match_info["name"]
    cents = request.app[PRICES].get(name)
    if cents is None:
        raise web.HTTPNotFound
    price = f"{cents / 100:.2f}"
    if name in request.app[COUPONS].products:
        price = f"<s>{price}</s> {cents * (100 - DISCOUNT_PERCENT) / 10_000:.2f}, {DISCOUNT_PERCENT} % off today"
    return web.Response(text=f"<h1>{html.escape(name)}</h1><p>{price}</p>", content_type="text/html")


async def show_coupons(request: web.Request) -> web.Response:
    """GET /coupons: what is cheaper now, the best seller first, and when it sold so well."""
    coupons = request.app[COUPONS]
    return web.json_response({"window": coupons.window, "products": coupons.products})


async def _follow(app: web.Application) -> AsyncIterator[None]:
    following = asyncio.create_task(app[COUPONS].follow())
    yield
    following.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await following


def make_shop(agent: str, prices: Mapping[str, int]) -> web.Application:
    """Build the shop's web application beside one agent; prices in cents by product."""
    app = web.Application()
    app[COUPONS], app[PRICES] = Coupons(agent), prices
    app.add_routes([web.get("/product/{name}", show_product), web.get("/coupons", show_coupons)])
    app.cleanup_ctx.append(_follow)
    return app


def all_prices() -> dict[str, int]:
    """Return what everything costs, in cents by product."""
    return dict(catalogue().select("product", "price_cents").iter_rows())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m examples.micro_promotion.shop",
        allow_abbrev=False,
        description="A web shop with coupons on what sells best right now.",
    )
    parser.add_argument("--agent", default="http://127.0.0.1:4260", help="the agent beside this server")
    parser.add_argument("--port", type=int, default=8080)
    args = parser.parse_args()
    try:
        web.run_app(make_shop(args.agent, all_prices()), host="127.0.0.1", port=args.port)
    except OSError as error:
        raise SystemExit(f"the shop cannot have port {args.port}: {error.strerror}") from None
