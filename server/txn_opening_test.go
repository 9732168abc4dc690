package server

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/coordinator/txnshard"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// openingBackend opens a partition of one topic while a coordinator is asked.
type openingBackend struct {
	Backend
	id   projections.TopicID
	open atomic.Bool
}

func (b *openingBackend) Partition(id projections.TopicID, index int32) (*partition.Partition, error) {
	if id == b.id && !b.open.Load() {
		return nil, kerr.NotLeaderForPartition
	}
	return b.Backend.Partition(id, index)
}

func (b *openingBackend) JoinTxn(_ context.Context, a txnshard.Add, _ bool) ([]error, error) {
	b.open.Store(true)
	return make([]error, len(a.Partitions)), nil
}

// A partition that is opened while the coordinator is asked about others was not asked about:
// its batch is to come again, and is no error of the producer.
func TestPartitionOpensWhileACoordinatorIsAsked(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("a", 1)
	b := &openingBackend{Backend: broker{n.broker}, id: c.create("b", 1)}
	c = dial(t, serveAlso(t, b, n.server.clusterID)[0])
	wantCodes(t, "begin", c.txn(12, "a", txnBatch(1, 0, 0, "x"), "b", txnBatch(1, 0, 0, "x")), 0, kerr.NotLeaderForPartition.Code)
	wantCodes(t, "again", c.txn(12, "b", txnBatch(1, 0, 0, "x")), 0)
}
