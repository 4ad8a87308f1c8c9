from veristream.actions import *

class Kind(Enum):
    PING = 0
    PONG = 1


table: Map[Kind, Int[0, 3]] = {Kind.PING: 1}
