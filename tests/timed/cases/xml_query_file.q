//This file was written by hand

/*
B comes
*/
A<> P.B

// but not before 2
E<> P.B and \
x < 2

sup{P.A}: x
