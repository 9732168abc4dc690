package traffic

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/tools/kaas-check/history"
)

// reader reads partitions into the history, from where it is told.
type reader struct {
	env    *Env
	proc   int32
	cl     *kgo.Client
	places []place
	next   map[int32]int64 // by part, what comes after the last record
}

func (e *Env) reader(client maker, proc int32, places []place, committed bool, from func(place) int64) (*reader, error) {
	r := &reader{env: e, proc: proc, places: places, next: map[int32]int64{}}
	at := map[string]map[int32]kgo.Offset{}
	for _, p := range places {
		if at[p.topic] == nil {
			at[p.topic] = map[int32]kgo.Offset{}
		}
		at[p.topic][p.index] = kgo.NewOffset().At(from(p))
	}
	level := kgo.ReadUncommitted()
	if committed {
		level = kgo.ReadCommitted()
	}
	var err error
	r.cl, err = client(kgo.ConsumePartitions(at), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(200*time.Millisecond), kgo.FetchMaxPartitionBytes(256<<10), kgo.FetchIsolationLevel(level), kgo.KeepControlRecords())
	return r, err
}

// valueOf is the value of a record, or of a marker.
func valueOf(r *kgo.Record) uint64 {
	if !r.Attrs.IsControl() {
		return decode(r.Value)
	}
	if k := r.Key; len(k) == 4 && k[0] == 0 && k[1] == 0 && k[2] == 0 && k[3] <= 1 {
		return history.Marker(r.ProducerID, r.ProducerEpoch, k[3] == 1)
	}
	return 0
}

// poll takes one answer.
func (r *reader) poll(ctx context.Context) {
	invoke := r.env.Log.Now()
	fs := r.cl.PollFetches(ctx)
	fs.EachError(func(topic string, index int32, err error) {
		var loss *kgo.ErrDataLoss
		if at, ok := find(r.places, topic, index); ok && errors.As(err, &loss) {
			r.env.Log.Note(r.proc, at.part, history.Failed, "is told of lost data: "+err.Error())
		}
	})
	fs.EachPartition(func(f kgo.FetchTopicPartition) {
		at, ok := find(r.places, f.Topic, f.Partition)
		if !ok || len(f.Records) == 0 {
			return
		}
		recs := make([]history.Record, len(f.Records))
		for i, rec := range f.Records {
			recs[i] = history.Record{Offset: rec.Offset, Value: valueOf(rec), Epoch: rec.LeaderEpoch}
		}
		r.next[at.part] = recs[len(recs)-1].Offset + 1
		r.env.Log.Read(r.proc, at.part, invoke, recs)
	})
}

// readTo polls until all ends are reached, or ctx ends.
func (r *reader) readTo(ctx context.Context, ends map[int32]int64) {
	for ctx.Err() == nil {
		behind := false
		for part, end := range ends {
			behind = behind || r.next[part] < end
		}
		if !behind {
			return
		}
		r.poll(ctx)
	}
}

// bounds asks for the log start and the end of partitions, or the last stable offset, until all
// are told or ctx ends, and notes them for a process.
func (e *Env) bounds(ctx context.Context, cl *kgo.Client, proc int32, places []place, end history.Field) (starts, ends map[int32]int64, ok bool) {
	starts, ends = map[int32]int64{}, map[int32]int64{}
	for _, p := range places {
		for _, ask := range []struct {
			field history.Field
			into  map[int32]int64
		}{{history.LogStart, starts}, {end, ends}} {
			if ask.into[p.part], ok = e.listed(ctx, cl, proc, p, ask.field); !ok {
				return starts, ends, false
			}
		}
	}
	return starts, ends, true
}

// listed asks for an offset until it is told or ctx ends.
func (e *Env) listed(ctx context.Context, cl *kgo.Client, proc int32, p place, field history.Field) (int64, bool) {
	adm := kadm.NewClient(cl)
	list := adm.ListStartOffsets
	switch field {
	case history.End:
		list = adm.ListEndOffsets
	case history.Stable:
		list = adm.ListCommittedOffsets
	}
	for {
		invoke := e.Log.Now()
		once, cancel := context.WithTimeout(ctx, 5*time.Second)
		offsets, err := list(once, p.topic)
		cancel()
		if err == nil {
			if o, ok := offsets.Lookup(p.topic, p.index); ok && o.Err == nil {
				e.Log.Observe(proc, p.part, field, o.Offset, o.LeaderEpoch, invoke)
				return o.Offset, true
			}
		}
		if !sleep.For(ctx, 50*time.Millisecond) {
			return 0, false
		}
	}
}

// tail follows all partitions from their beginning to the end of the run.
type tail struct {
	env       *Env
	name      string
	committed bool // of isolation level read_committed
	r         *reader
	cancel    context.CancelFunc
	wg        sync.WaitGroup
}

func (t *tail) Start() (err error) {
	t.r, err = t.env.reader(t.env.client, t.env.Log.Join(history.Proc{Name: t.name, Role: history.Tail, Committed: t.committed}), t.env.places(nil), t.committed, func(place) int64 { return 0 })
	if err != nil {
		return err
	}
	var ctx context.Context
	ctx, t.cancel = context.WithCancel(context.Background())
	t.wg.Go(func() {
		for ctx.Err() == nil {
			t.r.poll(ctx)
		}
	})
	return nil
}

func (t *tail) Stop(ctx context.Context) {
	t.cancel()
	t.wg.Wait()
	if _, ends, ok := t.env.bounds(ctx, t.r.cl, t.r.proc, t.r.places, endFor(t.committed)); ok {
		t.r.readTo(ctx, ends)
	}
	t.r.cl.Close()
}

// endFor is up to where a reader of an isolation level reads.
func endFor(committed bool) history.Field {
	if committed {
		return history.Stable
	}
	return history.End
}

// reread reads all partitions from the log start to the end, again and again, each
// time as a new process.
type reread struct {
	env       *Env
	name      string
	committed bool
	cancel    context.CancelFunc
	wg        sync.WaitGroup
}

func (t *reread) Start() error {
	var ctx context.Context
	ctx, t.cancel = context.WithCancel(context.Background())
	t.wg.Go(func() {
		for n := 1; ctx.Err() == nil; n++ {
			began := time.Now()
			once, cancel := context.WithTimeout(ctx, time.Minute)
			_ = t.env.readAll(once, t.env.client, history.Proc{Name: fmt.Sprintf("%s, reading %d", t.name, n), Role: history.Reread, Committed: t.committed}, t.env.places(nil))
			cancel()
			sleep.For(ctx, max(2*time.Second, 3*time.Since(began)))
		}
	})
	return nil
}

func (t *reread) Stop(context.Context) {
	t.cancel()
	t.wg.Wait()
}

// readAll reads partitions from their log start to the end they have now, as a process
// of its own. An error says that it did not come to the end.
func (e *Env) readAll(ctx context.Context, client maker, as history.Proc, places []place) error {
	cl, err := client()
	if err != nil {
		return err
	}
	defer cl.Close()
	proc := e.Log.Join(as)
	starts, ends, ok := e.bounds(ctx, cl, proc, places, endFor(as.Committed))
	if !ok {
		return fmt.Errorf("%s: ask for the ends: %w", as.Name, context.Cause(ctx))
	}
	r, err := e.reader(client, proc, places, as.Committed, func(p place) int64 { return starts[p.part] })
	if err != nil {
		return err
	}
	defer r.cl.Close()
	for part, end := range ends {
		r.next[part] = starts[part]
		if starts[part] == end {
			delete(ends, part)
		}
	}
	r.readTo(ctx, ends)
	return ctx.Err()
}

// ReadFinally reads everything once more, after all that writes has ended.
func (e *Env) ReadFinally(ctx context.Context) error {
	return e.readAll(ctx, e.client, history.Proc{Name: "the final reading", Role: history.Final}, e.places(nil))
}

// ReadCommittedFinally reads all that is committed once more.
func (e *Env) ReadCommittedFinally(ctx context.Context) error {
	return e.readAll(ctx, e.client, history.Proc{Name: "the final reading of what is committed", Role: history.Final, Committed: true}, e.places(nil))
}

// AwaitStable waits until every transaction has ended that is open now, or ctx ends.
func (e *Env) AwaitStable(ctx context.Context) {
	cl, err := e.client()
	if err != nil {
		return
	}
	defer cl.Close()
	proc := e.Log.Proc("who waits for transactions", history.Observer)
	for _, p := range e.places(nil) {
		end, ok := e.listed(ctx, cl, proc, p, history.End)
		for ok {
			var stable int64
			if stable, ok = e.listed(ctx, cl, proc, p, history.Stable); stable >= end {
				break
			}
			ok = ok && sleep.For(ctx, 2*loosely)
		}
	}
}
