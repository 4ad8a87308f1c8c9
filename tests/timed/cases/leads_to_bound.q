P.Wait --> P.Done
P.Wait --> (P.Done and x <= 8)
P.Wait --> (P.Done and x < 8)
P.Idle --> P.Wait
P.Wait and x > 5 --> P.Done
P.Done --> P.Idle
P.Wait --> (P.Done and x < 4)
