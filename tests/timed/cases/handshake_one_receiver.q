E<> Receiver(0).Got
E<> Receiver(1).Got
E<> Receiver(0).Got and Receiver(1).Got
A[] not deadlock
