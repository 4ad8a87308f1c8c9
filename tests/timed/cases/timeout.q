E<> Client.Served
E<> Client.Given_up
E<> Client.Served and S.Late
Client.Wait --> (Client.Served or Client.Given_up)
A[] S.Late imply Client.Given_up
E<> Client.Served and Client.x < 2
