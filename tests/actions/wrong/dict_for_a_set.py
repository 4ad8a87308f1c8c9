from veristream.actions import *

seen: Set[Int[0, 3]] = {}
