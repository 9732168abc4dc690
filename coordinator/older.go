package coordinator

import (
	"context"
	"fmt"
	"math"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// refuseOlder refuses to begin on a cluster stream that has lost its newest epoch: what is
// then decided on its state would contradict what has been acknowledged. An epoch that was
// emptied is seen as such. Of one that is gone nothing is left to see, but in what it has
// ruled: a partition has a leader epoch only after the stream has given it.
func (b *Broker) refuseOlder(ctx context.Context, s metalog.Snapshot[*projections.Cluster]) error {
	epochs, err := b.v.ListEpochs(b.stream)
	if err != nil {
		return nil // passes, or is met again
	}
	for _, e := range epochs {
		if e <= s.Pos.Epoch {
			continue
		}
		if _, err := b.v.ReadClaim(b.stream, e); isDamage(err) {
			return err
		}
	}
	suspects := b.ahead(s.State)
	if len(suspects) == 0 {
		return nil
	}
	// Brokers may be at work. What the stream has given out is in it before it is used, so a
	// state that is read after the use was seen has it.
	s, _, err = metalog.ReadState(ctx, b.v, b.stream, projections.ClusterSchema())
	if err != nil {
		return nil
	}
	for id, epoch := range suspects {
		given, _ := givenOut(s.State, id)
		if _, there := b.led(id, given); !there || given >= epoch {
			continue
		}
		return fmt.Errorf("%s: %s has leader epoch %d, but %s at %s has given out %d: the stream's newest epoch is lost, and nothing may go on from an older one (see kaas-meta verify)",
			dirOf(b.v), partition.TopicDir(id), epoch, b.stream, s.Pos, given)
	}
	return nil
}

// mostAsked bounds how many known topics a start looks at, one partition of each.
const mostAsked = 32

// ahead are topics that have had a leader which the cluster's state has not given them, each
// with that leader's epoch.
func (b *Broker) ahead(view *projections.Cluster) map[projections.TopicID]substrate.Epoch {
	es, err := b.v.ListFresh(topicsDir)
	if err != nil {
		return nil
	}
	out, asked := map[projections.TopicID]substrate.Epoch{}, 0
	for _, e := range es {
		id, err := projections.ParseTopicID(e.Name)
		if err != nil {
			continue
		}
		given, known := givenOut(view, id)
		if known {
			if asked++; asked > mostAsked {
				continue
			}
		}
		if epoch, there := b.led(id, given); there && epoch > given {
			out[id] = epoch
		}
	}
	return out
}

// givenOut is the leader epoch of a topic's first partition, and whether the topic is in the
// cluster's state. One that is being removed was given all that it has.
func givenOut(view *projections.Cluster, id projections.TopicID) (epoch substrate.Epoch, known bool) {
	if t := view.TopicByID(id); t != nil {
		return substrate.Epoch(t.Partitions[0].Epoch), true
	}
	if _, removing := view.Removing()[id]; removing {
		return math.MaxInt32, true
	}
	return 0, false
}

// led is the newest epoch above a given one in which a broker led a topic's first partition,
// or that one; false where the topic is on its way in or out. kaas-meta may have claimed
// epochs that nobody gave out.
func (b *Broker) led(id projections.TopicID, given substrate.Epoch) (substrate.Epoch, bool) {
	stream := partition.ManifestStream(id, 0)
	epochs, err := b.v.ListEpochs(stream)
	if err != nil || len(epochs) == 0 {
		return 0, false
	}
	for i := len(epochs) - 1; i >= 0 && epochs[i] > given; i-- {
		claim, err := b.v.ReadClaim(stream, epochs[i])
		if err != nil || claim.Session == "" {
			continue
		}
		if who, err := b.v.ReadIdentity(claim.Session); err == nil && who.Role == substrate.RoleData {
			return epochs[i], true
		}
	}
	return given, true
}
