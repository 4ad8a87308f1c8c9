from veristream.actions import *

class Kind(Enum):
    PING = "ping"
