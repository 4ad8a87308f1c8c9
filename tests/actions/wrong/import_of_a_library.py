from veristream.actions import *

import random
