A[] P.B imply found == 19
A[] P.B imply steps == 8
A[] P.B imply last == 4
