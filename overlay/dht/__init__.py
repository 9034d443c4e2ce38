"""The DHT: kademlia's protocol and table, subclassed where they fail us (OVERLAY section 1)."""

from elf.overlay.dht.auth import Secret
from elf.overlay.dht.pace import DhtTimes
from elf.overlay.dht.protocol import Counters
from elf.overlay.dht.server import Dht, DhtSettings

__all__ = ["Counters", "Dht", "DhtSettings", "DhtTimes", "Secret"]
