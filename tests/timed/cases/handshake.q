A[] Receiver.Got imply v == 12
E<> Receiver.Got
