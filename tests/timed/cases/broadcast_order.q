E<> v == 121
E<> v == 112
A[] Sender.Done imply v == 121
A[] One.Got == Two.Got
