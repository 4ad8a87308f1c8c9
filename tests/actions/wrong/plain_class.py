from veristream.actions import *

class Message:
    number: Int[0, 3] = 0
