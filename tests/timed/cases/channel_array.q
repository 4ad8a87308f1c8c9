E<> Receiver(2).Got
A[] forall (i : int[0,2]) Receiver(i).Got imply sent == i
E<> Receiver(0).Got and Receiver(1).Got
