package e2e

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// txnCoordinators are those of transactional IDs as one broker tells them; nil if it does not
// know them all.
func (c *cluster) txnCoordinators(as int32, ids ...string) (brokers []int32, err error) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorType, req.CoordinatorKeys = 1, ids
	resp, err := c.ask(as, req)
	if err != nil {
		return nil, err
	}
	by := map[string]int32{}
	for _, found := range resp.(*kmsg.FindCoordinatorResponse).Coordinators {
		if found.ErrorCode == 0 {
			by[found.Key] = found.NodeID
		}
	}
	for _, id := range ids {
		b, ok := by[id]
		if !ok {
			return nil, nil
		}
		brokers = append(brokers, b)
	}
	return brokers, nil
}

// txnCoordinator is that of a transactional ID, as broker 1 has it.
func (c *cluster) txnCoordinator(id string) (broker int32) {
	c.t.Helper()
	c.await("the transactional ID "+id+" has a coordinator", func() bool {
		ids, err := c.txnCoordinators(1, id)
		if err != nil || len(ids) != 1 || ids[0] <= 0 {
			return false
		}
		broker = ids[0]
		return true
	})
	return broker
}
