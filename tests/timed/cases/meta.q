A[] Receiver.Got imply got == 4 or got == 6 or got == 8
E<> got == 6
sup: got
