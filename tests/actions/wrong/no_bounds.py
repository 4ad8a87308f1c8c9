from veristream.actions import *

x: int = 0
