A[] R.B imply R.got == 1
E<> R.B
