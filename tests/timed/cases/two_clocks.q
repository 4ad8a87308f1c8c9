E<> Hare.A and Tortoise.B
E<> Hare.B and Tortoise.A
E<> Hare.A and Tortoise.B and Hare.x < 3
E<> Hare.A and Tortoise.B and Hare.x > 4
A[] Hare.x == Tortoise.x
A<> Hare.B and Tortoise.B
