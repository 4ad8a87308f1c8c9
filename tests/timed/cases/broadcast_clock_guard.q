E<> Sender.Done and Receiver.Idle and x < 3
E<> Sender.Done and Receiver.Idle and x >= 3
E<> Sender.Done and Receiver.Got and x == 3
E<> Sender.Done and Receiver.Got and x < 3
