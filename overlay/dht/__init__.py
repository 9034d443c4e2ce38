"""The DHT: kademlia's protocol and table, subclassed where they fail us (OVERLAY section 1)."""

from overlay.dht.auth import Secret
from overlay.dht.pace import DhtTimes
from overlay.dht.protocol import Counters
from overlay.dht.server import Dht

__all__ = ["Counters", "Dht", "DhtTimes", "Secret"]
