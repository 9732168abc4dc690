package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// liveTxns asks for all transactional IDs, or for one.
func liveTxns(ctx context.Context, cl brokers, id string) (out []txnState, err error) {
	var ids []string
	if id != "" {
		ids = []string{id}
	}
	described, err := cl.DescribeTransactions(ctx, ids...)
	errs := []error{err}
	for _, t := range described.Sorted() {
		switch {
		case id != "" && errors.Is(t.Err, kerr.TransactionalIDNotFound):
			return nil, nil
		case t.Err != nil:
			errs = append(errs, fmt.Errorf("transactional ID %q: %w", t.TxnID, t.Err))
			continue
		}
		s := txnState{place: place{Coordinator: &t.Coordinator}, ID: t.TxnID, State: t.State, ProducerID: t.ProducerID, Epoch: t.ProducerEpoch,
			TimeoutMs: t.TimeoutMillis, Partitions: partitionLists(t.Topics)}
		if t.StartTimestamp >= 0 {
			s.Started = new(at(t.StartTimestamp))
		}
		out = append(out, s)
	}
	return out, errors.Join(errs...)
}
