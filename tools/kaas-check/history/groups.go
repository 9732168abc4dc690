package history

// Processed takes down which records a member processed, those of one poll of one partition
// in the order it had them, begun at invoke and done at complete.
func (r *Recorder) Processed(proc, part int32, invoke, complete int64, offsets ...int64) {
	r.ProcessedIn(0, proc, part, invoke, complete, offsets...)
}

// ProcessedIn is Processed as part of a transaction: it counts if that is committed.
func (r *Recorder) ProcessedIn(txn, proc, part int32, invoke, complete int64, offsets ...int64) {
	for i := 0; i < len(offsets); {
		n := i + 1
		for n < len(offsets) && offsets[n] == offsets[n-1]+1 {
			n++
		}
		r.Add(Op{
			Kind: Process, Outcome: OK, Proc: proc, Part: part, Txn: txn, Epoch: -1, Count: int32(n - i),
			Invoke: invoke, Complete: complete, Offset: offsets[i],
		})
		i = n
	}
}

// Owned takes down that a member had a partition from a time to another. heartbeat is when
// the last one was sent that was answered well.
func (r *Recorder) Owned(proc, part int32, from, to, heartbeat int64, outcome Outcome) {
	r.Add(Op{
		Kind: Own, Outcome: outcome, Proc: proc, Part: part, Epoch: -1, Offset: -1,
		Invoke: from, Complete: to, Last: [2]int64{heartbeat, heartbeat},
	})
}
