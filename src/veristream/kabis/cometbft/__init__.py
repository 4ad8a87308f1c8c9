"""CometBFT as the validation channel: its nodes order, our ledger runs inside them as their application."""
