A[] not deadlock or P(0).Sent and P(1).Heard or P(0).Heard and P(1).Sent
E<> P(0).Sent and P(1).Sent
E<> P(0).Heard and P(1).Heard
