last == 1 --> got == 1
last == 2 --> got == 2
A<> got == 2
A<> got > 0
A[] not deadlock
last == 1 --> got == 2
