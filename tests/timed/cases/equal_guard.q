A[] Kept.B imply Kept.x >= 5
A<> Kept.B
E<> Free.B
A<> Free.B
E<> Free.A and Free.x > 5
E<> Kept.B and Kept.x == 5
