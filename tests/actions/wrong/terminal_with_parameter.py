from veristream.actions import *

class Node(Role, count=2):
    done: bool = False

    @action
    def finish(self):
        self.done = True

    @terminal
    def over(self):
        return self.done
