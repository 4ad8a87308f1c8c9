from veristream.actions import *

x: Int[0, 3]
