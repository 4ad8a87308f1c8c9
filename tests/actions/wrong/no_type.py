from veristream.actions import *

queue = []
