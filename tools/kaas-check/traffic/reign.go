package traffic

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/tools/kaas-check/history"
)

// Reign wants one controller to stay, in one term, from the first time that it is told of to the
// last. Another is a violation.
type Reign struct {
	env    *Env
	proc   int32
	cl     *kgo.Client
	cancel context.CancelFunc
	wg     sync.WaitGroup
	last   Term // the newest that anybody has told
	asked  int
}

// Reign is for runs whose faults leave the controller in office.
func (e *Env) Reign() *Reign { return &Reign{env: e} }

// ReignSets are the settings of brokers with which a controller loses its office, and a broker
// what it leads, to nothing that is shorter than a minute: a clock's step is longer, and what a
// busy machine or its disk keeps them waiting for is not.
func ReignSets() []string {
	return []string{"controller.lease.duration.ms=60000", "controller.lease.renew.deadline.ms=50000", "broker.session.timeout.ms=60000", "storage.stall.timeout.ms=60000"}
}

// Term is a term of a controller.
type Term struct {
	Node  int32
	Epoch int32 // of the cluster's stream; each term has a higher one
}

func (t Term) String() string { return fmt.Sprintf("broker %d in term %d", t.Node, t.Epoch) }

// AskTerm asks one broker for the controller's term, as it knows it.
func AskTerm(ctx context.Context, b *kgo.Broker) (Term, error) {
	req, t := kmsg.NewPtrDescribeQuorumRequest(), kmsg.NewDescribeQuorumRequestTopic()
	t.Topic = "__cluster_metadata"
	t.Partitions = append(t.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, t)
	got, err := b.Request(ctx, req)
	if err != nil {
		return Term{}, err
	}
	resp := got.(*kmsg.DescribeQuorumResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return Term{}, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return Term{}, fmt.Errorf("describe quorum: %+v", resp)
	}
	p := &resp.Topics[0].Partitions[0]
	return Term{p.LeaderID, p.LeaderEpoch}, kerr.ErrorForCode(p.ErrorCode)
}

// Start implements Traffic.
func (r *Reign) Start() (err error) {
	if r.cl, err = r.env.client(); err != nil {
		return err
	}
	r.proc = r.env.Log.Proc("watcher of the controller", history.Observer)
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	r.wg.Go(func() {
		for sleep.For(ctx, 2*loosely) {
			for _, b := range r.cl.SeedBrokers() {
				once, cancel := context.WithTimeout(ctx, askTime)
				if t, err := AskTerm(once, b); err == nil {
					r.hear(t)
				}
				cancel()
			}
		}
	})
	return nil
}

// hear takes what a broker has told. One may be later than another to know.
func (r *Reign) hear(t Term) {
	r.asked++
	if t.Epoch <= r.last.Epoch && r.asked > 1 {
		return
	}
	if r.asked > 1 {
		r.env.Log.Note(r.proc, -1, history.Failed, fmt.Sprintf("the controller was %v, and is %v", r.last, t))
	}
	r.last = t
}

// Stop implements Traffic.
func (r *Reign) Stop(context.Context) {
	r.cancel()
	r.wg.Wait()
	r.cl.Close()
}

// Told is a line of it, when it has stopped.
func (r *Reign) Told() string {
	return fmt.Sprintf("the controller was %v in the end; asked %d times", r.last, r.asked)
}
