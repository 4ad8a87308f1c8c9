"""What is signed: keys, records, batches, blocks, transactions, receipts, the genesis, and their bytes."""
