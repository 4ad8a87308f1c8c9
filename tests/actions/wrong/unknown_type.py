from veristream.actions import *

class Phase(Enum):
    IDLE = 0


phase: Phose = Phase.IDLE
