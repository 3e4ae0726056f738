"""The dispatcher: due schedules in, work out. Owns shards; decides every fire."""
