E<> Sender.C
A[] Receiver.B == (Sender.B or Sender.C)
E<> Receiver.B and Sender.A
