E<> deadlock and Wide.A and Narrow.D
E<> deadlock and Wide.A and Narrow.C and Narrow.y > 2
E<> deadlock and Narrow.C and Narrow.y <= 2
E<> deadlock and Wide.B and Narrow.C and Narrow.y <= 4 and Narrow.y > 2
