sup{Short.A and Long.A}: t
sup{Short.B and Long.A}: t
E<> Short.A and t > 3
A<> Short.B and Long.B
E<> Short.B and t < 2
