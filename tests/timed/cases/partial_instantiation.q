E<> Seven(0).Done and Seven(1).A
A[] Seven(0).Done imply v[0] == 7
A[] Seven(1).Done imply v[1] == 8
A[] not Seven(1).Done imply v[1] == 0
