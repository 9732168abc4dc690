package consumer

// Fact is an event of the shard's stream.
type Fact = any
