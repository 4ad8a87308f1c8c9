E<> Receiver(0).L and Receiver(1).R
E<> Receiver(0).R and Receiver(1).R and v == 2
E<> Receiver(0).L and Receiver(1).A
sup: v
