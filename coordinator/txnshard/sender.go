package txnshard

import (
	"context"
	"errors"
	"fmt"
)

// delivery is one transaction's end on its way to one broker.
type delivery struct {
	parts
	req    MarkerRequest
	done   chan struct{} // closed with what failed, and why, set
	failed parts
	err    error
}

// sendAtOnce is the most transactions of one request.
const sendAtOnce = 500

// send queues a delivery for a broker. What is queued while a request is under way goes with
// the next.
func (s *Shard) send(to int32, d *delivery) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, running := s.mu.queues[to]
	if !running && !s.spawnLocked(func() { s.sendAll(to) }) {
		return false
	}
	s.mu.queues[to] = append(q, d)
	return true
}

// sendAll is the goroutine of a broker while there is anything to send to it.
func (s *Shard) sendAll(to int32) {
	for {
		s.mu.Lock()
		q := s.mu.queues[to]
		batch := q[:min(len(q), sendAtOnce)]
		if len(batch) == 0 {
			delete(s.mu.queues, to)
			s.mu.Unlock()
			return
		}
		s.mu.queues[to] = q[len(batch):]
		s.mu.Unlock()
		s.sendBatch(to, batch)
	}
}

func (s *Shard) sendBatch(to int32, batch []*delivery) {
	reqs := make([]MarkerRequest, len(batch))
	for i, d := range batch {
		reqs[i] = d.req
	}
	results, err := s.write(to, reqs)
	if err == nil && len(results) != len(batch) {
		err = fmt.Errorf("broker %d answered for %d of %d transactions", to, len(results), len(batch))
	}
	for i, d := range batch {
		if err != nil {
			d.failed, d.err = d.parts, err
		} else {
			d.settle(results[i])
		}
		close(d.done)
	}
}

func (s *Shard) write(to int32, reqs []MarkerRequest) ([]MarkerResult, error) {
	broker, ok := s.opt.View().Broker(to)
	if !ok {
		return nil, errNoLeader
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.opt.MarkerTimeout)
	defer cancel()
	results, err := s.opt.Markers.Write(ctx, broker, reqs)
	if err != nil {
		return nil, fmt.Errorf("markers to broker %d: %w", to, err)
	}
	return results, nil
}

var errNoAnswer = errors.New("the broker did not answer for it")

// settle takes in a broker's answer. Only a part that it has one for has acknowledged.
func (d *delivery) settle(r MarkerResult) {
	for i, p := range d.partitions {
		if err := answerFor(r.Partitions, i); err != nil {
			d.failed.partitions = append(d.failed.partitions, p)
			d.err = fmt.Errorf("%s-%d: %w", p.Topic, p.Index, err)
		}
	}
	for i, g := range d.groups {
		if err := answerFor(r.Groups, i); err != nil {
			d.failed.groups = append(d.failed.groups, g)
			d.err = fmt.Errorf("groups-%d: %w", g, err)
		}
	}
}

func answerFor(errs []error, i int) error {
	if i >= len(errs) {
		return errNoAnswer
	}
	return errs[i]
}
