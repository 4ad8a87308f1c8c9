from veristream.actions import *

class Node(Role, count=2, symmetric=True):
    done: bool = False

    @action
    def finish(self):
        require(self.id == 0)
        self.done = True
