from veristream.actions import *

class Node(Role, number=3):
    pass
