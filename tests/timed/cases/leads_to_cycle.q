P(0).In --> P(0).Out
P(0).In --> P(1).In
A[] not (P(0).In and P(1).In)
P(0).In --> turn == 1
A[] not deadlock
