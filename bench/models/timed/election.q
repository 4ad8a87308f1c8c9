A[] Node(N).wait imply Node(N).x <= WAIT
