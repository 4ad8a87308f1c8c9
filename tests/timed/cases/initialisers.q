E<> a == 13
A[] b[1] == 2 and b[2] == 10
A[] P.A imply e.key == 20 and e.value[1] == 8
A[] P.B imply e.key == 10 and e.value[1] == 6 and b[0] == 6
