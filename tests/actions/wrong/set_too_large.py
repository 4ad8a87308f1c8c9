from veristream.actions import *

seen: Set[Int[0, 99]] = set()
