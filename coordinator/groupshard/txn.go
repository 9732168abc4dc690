package groupshard

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/projections/groups"
)

// Producer is a transactional producer in one of its epochs.
type Producer struct {
	ID    int64
	Epoch int16
}

// TxnGuard stands for one question to a producer's coordinator, whether this shard is part of
// its transaction. It is broken by an end of that producer's transaction that comes before the
// answer is used: what would be staged then, nobody would end (KIP-890).
type TxnGuard struct {
	epoch  int16
	broken bool
}

// epochRaising is the transaction version from which on an end has a higher epoch than what
// it ends. The producer's next transaction has the end's.
const epochRaising = 2

// ends reports whether an end in an epoch may be that of a transaction in another.
func ends(end, txn int16, version int8) bool {
	return txn < end || txn == end && version < epochRaising
}

// Guard is to be taken before the coordinator is asked, and released in the end.
func (s *Shard) Guard(p Producer) (g *TxnGuard, release func()) {
	g = &TxnGuard{epoch: p.Epoch}
	producer := p.ID
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.guards[producer] == nil {
		s.mu.guards[producer] = map[*TxnGuard]bool{}
	}
	s.mu.guards[producer][g] = true
	return g, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		g.broken = true // a commit that nobody waits for any more may still be in the queue
		delete(s.mu.guards[producer], g)
		if len(s.mu.guards[producer]) == 0 {
			delete(s.mu.guards, producer)
		}
	}
}

// CommitTxn stages offsets, which the end of the producer's transaction commits or drops
// (TxnOffsetCommit, KIP-98, KIP-447). Errors are kerr's; a guard that is broken is
// kerr.InvalidTxnState.
func (s *Shard) CommitTxn(ctx context.Context, c Commit, p Producer, guard *TxnGuard) error {
	return s.publish(ctx, "offsets staged", func(st *groups.Shard) ([]groups.Fact, error) {
		g := st.Group(c.Group)
		if err := s.mayCommit(g, c, true); err != nil {
			return nil, err
		}
		if g != nil {
			if old, ok := g.Pending[p.ID]; ok && old.Epoch > p.Epoch {
				return nil, fmt.Errorf("%w: producer %d has epoch %d by now", kerr.InvalidProducerEpoch, p.ID, old.Epoch)
			}
		}
		if len(c.Topics) == 0 {
			return nil, nil
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if guard.broken {
			return nil, fmt.Errorf("%w: the transaction of producer %d has ended meanwhile", kerr.InvalidTxnState, p.ID)
		}
		s.stagedLocked(p.ID, c.Group)
		return []groups.Fact{groups.Stage(g, c.Group, p.ID, p.Epoch, s.nowMs(), c.Topics)}, nil
	})
}

// stagedLocked notes a group in which the producer may have staged offsets.
func (s *Shard) stagedLocked(producer int64, group string) {
	gs := s.mu.staged[producer]
	if gs == nil {
		gs = map[string]bool{}
		s.mu.staged[producer] = gs
	}
	gs[group] = true
}

// EndTxn ends what the producer has staged in any group of the shard, as a transaction
// marker of the epoch and of a transaction version does in a partition: of an earlier epoch it
// means nothing. To do it once more does nothing, though the next transaction has begun.
func (s *Shard) EndTxn(ctx context.Context, p Producer, commit bool, version int8) error {
	err := s.publish(ctx, "transaction ended", func(st *groups.Shard) (fs []groups.Fact, _ error) {
		s.breakGuards(p, version)
		for _, id := range s.stagedIn(st, p.ID) {
			if ends(p.Epoch, st.Group(id).Pending[p.ID].Epoch, version) {
				fs = append(fs, &groups.TxnOffsetsEnded{Group: id, Producer: p.ID, Committed: commit, Time: s.nowMs()})
			}
		}
		return fs, nil
	})
	if err != nil {
		return err
	}
	// What is ended by now is forgotten, where the stream orders it among what is staged.
	return s.publish(ctx, "transaction ended", func(st *groups.Shard) ([]groups.Fact, error) {
		s.stagedIn(st, p.ID)
		return nil, nil
	})
}

// breakGuards is called where the stream orders an end.
func (s *Shard) breakGuards(p Producer, version int8) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for g := range s.mu.guards[p.ID] {
		g.broken = g.broken || ends(p.Epoch, g.epoch, version)
	}
}

// stagedIn returns the groups in which the producer has staged offsets, in order, and forgets
// the others. It is called where the stream orders it.
func (s *Shard) stagedIn(st *groups.Shard, producer int64) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	gs := s.mu.staged[producer]
	for id := range gs {
		if g := st.Group(id); g == nil || len(g.Pending[producer].Offsets) == 0 {
			delete(gs, id)
		}
	}
	if len(gs) == 0 {
		delete(s.mu.staged, producer)
	}
	return slices.Sorted(maps.Keys(gs))
}
