"""What the checks of outgoing calls need: targets, a ledger of connections, and callers in processes of their own."""
