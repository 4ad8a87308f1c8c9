E<> Receiver(0, 1).Got
E<> Receiver(1, 0).Got
A[] not (Receiver(0, 0).Got or Receiver(1, 1).Got)
