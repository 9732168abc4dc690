// Package traffic is the load of kaas-check: producers, readers, observers and what
// makes, deletes and trims topics, consumer groups, and transactions. Each is a Traffic that writes what it
// does and sees into the history. A further kind is one more type and one more line in
// Writers, Readers, Groups, Transactors or Copiers.
//
// Nothing of it gives up because the cluster is in trouble: an operation has an outcome
// and the next one follows. Rates are bounded, so that a history fits in memory.
package traffic

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"kaas.dev/kaas/tools/kaas-check/history"
)

// Traffic is one kind of load.
type Traffic interface {
	// Start begins, and returns.
	Start() error
	// Stop ends: producers first wait until all is answered, and readers until they are at the
	// end, or ctx ends. It returns when nothing of it runs any more.
	Stop(ctx context.Context)
}

// Topic is a topic that lasts for the run.
type Topic struct {
	Name       string
	Partitions int32
	Trimmed    bool // records are deleted from its start
	Configs    map[string]string
	Txns       Share
}

// Share is what transactions have to do with a topic.
type Share int

// The shares.
const (
	Some   Share = iota // others write to it, too
	All                 // nothing else writes to it, and copiers read it
	Copies              // it is written to by copiers
)

// Env is what every Traffic works in.
type Env struct {
	Seeds   []string // where clients connect first
	Dial    Dial     // nil is as everybody does
	Log     *history.Recorder
	Topics  []Topic
	Rate    int           // records a second of each producer
	Seed    int64         // of what is random
	Session time.Duration // of members of groups; 0 is as usual
	asked   *atomic.Int64 // questions who coordinates
}

// New is an Env of a run.
func New(e Env) *Env {
	e.asked = new(atomic.Int64)
	return &e
}

// with is the same with only those topics that are wanted.
func (e *Env) with(want func(Topic) bool) *Env {
	some := *e
	some.Topics = slices.DeleteFunc(slices.Clone(e.Topics), func(t Topic) bool { return !want(t) })
	return &some
}

// plainly is the same without the topics that only transactions write to.
func (e *Env) plainly() *Env { return e.with(func(t Topic) bool { return t.Txns == Some }) }

// Dial connects to a broker.
type Dial func(ctx context.Context, network, addr string) (net.Conn, error)

// Topics are those of a run.
func Topics(txns bool) []Topic {
	small := map[string]string{"segment.bytes": "1048576"}
	all := []Topic{
		{Name: "steady", Partitions: 4, Configs: small},
		{Name: "trimmed", Partitions: 2, Configs: small, Trimmed: true},
	}
	if txns {
		all = append(all, Topic{Name: "source", Partitions: 2, Configs: small, Txns: All}, Topic{Name: "copies", Partitions: 2, Configs: small, Txns: Copies})
	}
	return all
}

// Writers and Readers are the traffic of every run. Writers are stopped first.
func (e *Env) Writers() []Traffic {
	e = e.plainly()
	return []Traffic{
		&idempotent{env: e, name: "idempotent producer 1"},
		&idempotent{env: e, name: "idempotent producer 2"},
		&plain{env: e, name: "plain producer 1", acks: -1},
		&plain{env: e, name: "plain producer 2", acks: -1},
		&plain{env: e, name: "acks=1 producer", acks: 1},
		&trimmer{env: e},
		&churn{env: e},
	}
}

// Crowd is so many idempotent producers more.
func (e *Env) Crowd(n int) (out []Traffic) {
	for i := range n {
		out = append(out, e.plainly().Producer(fmt.Sprintf("idempotent producer %d of a crowd", i+1)))
	}
	return out
}

// Producer is an idempotent producer to all topics, and no more.
func (e *Env) Producer(name string) Traffic { return &idempotent{env: e, name: name} }

// Readers is the traffic that only looks.
func (e *Env) Readers() []Traffic {
	all := []Traffic{
		&tail{env: e, name: "tail reader 1"},
		&tail{env: e, name: "tail reader 2"},
		&reread{env: e, name: "re-reader"},
		&observer{env: e},
		&views{env: e},
	}
	if slices.ContainsFunc(e.Topics, func(t Topic) bool { return t.Txns == All }) {
		all = append(all, &tail{env: e, name: "tail reader of what is committed", committed: true}, &reread{env: e, name: "re-reader of what is committed", committed: true})
	}
	return all
}

// maker makes a client: client, or raw.
type maker func(opts ...kgo.Opt) (*kgo.Client, error)

// Groups are the consumer groups of a run. They are stopped after the writers: they come to
// the end then.
func (e *Env) Groups() []Traffic {
	e = e.plainly()
	return []Traffic{
		&group{env: e, name: "cooperative", balancer: kgo.CooperativeStickyBalancer()},
		&group{env: e, name: "eager", balancer: kgo.RangeBalancer()},
		&group{env: e, name: "uniform", balancer: kgo.StickyBalancer(), next: true},
		&group{env: e, name: "range", balancer: kgo.RangeBalancer(), next: true},
	}
}

// client makes a client that sees trouble soon and tries again soon.
func (e *Env) client(opts ...kgo.Opt) (*kgo.Client, error) {
	return e.clientBy(e.Dial, opts...)
}

// clientBy makes one that connects in another way.
func (e *Env) clientBy(dial Dial, opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(e.options(dial, opts...)...)
}

func (e *Env) options(dial Dial, opts ...kgo.Opt) []kgo.Opt {
	if dial != nil {
		opts = append(opts, kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, dialTime)
			defer cancel()
			return dial(ctx, network, addr)
		}))
	} else {
		opts = append(opts, kgo.DialTimeout(dialTime))
	}
	return append([]kgo.Opt{
		kgo.SeedBrokers(e.Seeds...), kgo.AlwaysRetryEOF(), // a broker may be killed as it answers its first request
		kgo.RequestTimeoutOverhead(3 * time.Second), kgo.ProduceRequestTimeout(5 * time.Second),
		kgo.MetadataMinAge(100 * time.Millisecond), kgo.MetadataMaxAge(5 * time.Second),
		kgo.RetryBackoffFn(func(n int) time.Duration { return min(500, 50*time.Duration(n)) * time.Millisecond }),
	}, opts...)
}

const dialTime = 2 * time.Second

// Controller asks who is controller; -1 is nobody.
func (e *Env) Controller(ctx context.Context) (int32, error) {
	cl, err := e.client()
	if err != nil {
		return -1, err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	resp, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, cl)
	if err != nil {
		return -1, err
	}
	return resp.ControllerID, nil
}

// raw makes a client whose requests name topics, not their IDs.
func (e *Env) raw(opts ...kgo.Opt) (*kgo.Client, error) {
	v := kversion.Stable()
	v.SetMaxKeyVersion(0, 12) // Produce
	v.SetMaxKeyVersion(1, 12) // Fetch
	v.SetMaxKeyVersion(9, 9)  // OffsetFetch
	return e.client(append(opts, kgo.MaxVersions(v))...)
}

// MakeTopics makes the topics that last for the run.
func (e *Env) MakeTopics(ctx context.Context) error {
	cl, err := e.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	adm.SetTimeoutMillis(60_000) // a busy machine may need more than the usual 15 s until a topic serves
	for _, t := range e.Topics {
		configs := map[string]*string{}
		for k, v := range t.Configs {
			configs[k] = &v
		}
		if _, err := adm.CreateTopic(ctx, t.Partitions, 1, configs, t.Name); err != nil {
			return fmt.Errorf("make topic %s: %w", t.Name, err)
		}
	}
	return nil
}

// place is a partition and its index in the history.
type place struct {
	topic string
	index int32
	part  int32
}

// places are the partitions of the topics that last.
func (e *Env) places(want func(Topic) bool) (out []place) {
	for _, t := range e.Topics {
		if want != nil && !want(t) {
			continue
		}
		for i := range t.Partitions {
			out = append(out, place{t.Name, i, e.Log.Part(history.Part{Topic: t.Name, Index: i})})
		}
	}
	return out
}

func find(ps []place, topic string, index int32) (place, bool) {
	i := slices.IndexFunc(ps, func(p place) bool { return p.topic == topic && p.index == index })
	if i < 0 {
		return place{}, false
	}
	return ps[i], true
}

// repeats is how often a value is in a record, so that a torn one is seen.
const repeats = 6

func encode(v uint64) []byte { return []byte(strings.Repeat(fmt.Sprintf("%016x", v), repeats)) }

// decode is the value of a record, or 0 where it is none of ours.
func decode(b []byte) uint64 {
	if len(b) != 16*repeats {
		return 0
	}
	var raw [8]byte
	if _, err := hex.Decode(raw[:], b[:16]); err != nil {
		return 0
	}
	var v uint64
	for _, c := range raw {
		v = v<<8 | uint64(c)
	}
	if string(encode(v)) != string(b) {
		return 0
	}
	return v
}
