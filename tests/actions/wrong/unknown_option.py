from veristream.actions import *

@action(fairness="weak")
def step():
    pass
