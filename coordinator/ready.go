package coordinator

import (
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/projections"
)

// Ready reports whether every partition assigned to this broker is served.
func (b *Broker) Ready() bool { return b.NotReady() == nil }

// errOpening means that partitions wait for nothing but their turn.
var errOpening = errors.New("partitions are still being opened")

// errFenced means that the controller has not let this broker serve yet, or not again.
var errFenced = errors.New("this broker is fenced: the controller has not let it serve")

// told is how many partitions are named where many have the same trouble.
const told = 3

// NotReady is nil if every partition assigned to this broker is served. Its error is one
// line, and names the first of those that the volume keeps from it.
func (b *Broker) NotReady() error {
	if b.run.Err() != nil {
		return b.whyEnded()
	}
	if err := b.volumeAnswers(); err != nil {
		return err
	}
	if b.data.Load() == nil {
		return errOpening
	}
	if !b.serves(b.View()) {
		return errFenced
	}
	opening, offline, why := 0, 0, []string(nil)
	for _, kind := range servedKinds {
		eachSlot(b.slots.Load().shards[kind], func(s *slot) {
			if s.served() == nil {
				opening++
			}
		})
	}
	b.unserved(func(t *projections.Topic, index int32) {
		err := b.Offline(t.ID, index)
		switch {
		case err == nil:
			opening++
			return
		case len(why) < told:
			cause := strings.TrimPrefix(err.Error(), kerr.KafkaStorageError.Error()+": ")
			why = append(why, fmt.Sprintf("%s-%d: %s", t.Name, index, strings.ReplaceAll(cause, "\n", "; ")))
		}
		offline++
	})
	switch {
	case offline > 0:
		return fmt.Errorf("%d partitions are offline, %d still being opened: %s", offline, opening, strings.Join(why, "; "))
	case opening > 0:
		return errOpening
	}
	return nil
}

// unserved calls f for each partition assigned to this broker that is not served.
func (b *Broker) unserved(f func(t *projections.Topic, index int32)) {
	for _, t := range b.View().Topics() {
		for i, p := range t.Partitions {
			if p.Leader != b.opt.NodeID {
				continue
			}
			if b.slot(t.ID, int32(i)).served() == nil {
				f(t, int32(i))
			}
		}
	}
}
