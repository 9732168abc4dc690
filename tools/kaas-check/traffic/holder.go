package traffic

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/tools/kaas-check/history"
)

// Holder has something held all the time: each for a while, and then something else. What is
// lost is a violation.
type Holder struct {
	env    *Env
	proc   int32
	cancel context.CancelFunc
	wg     sync.WaitGroup
	held   atomic.Int64 // to the end
}

// Holder is for clusters whose brokers have ClockSets.
func (e *Env) Holder() *Holder { return &Holder{env: e} }

const (
	holdFor  = 30 * time.Second
	holdTime = 45 * time.Second // to begin, and to end
)

// Start implements Traffic.
func (h *Holder) Start() error {
	h.proc = h.env.Log.Proc("holder", history.Other)
	var ctx context.Context
	ctx, h.cancel = context.WithCancel(context.Background())
	h.wg.Go(func() {
		for n := 1; ctx.Err() == nil; n++ {
			if !h.once(ctx, fmt.Sprintf("held-%d", n)) {
				sleep.For(ctx, time.Second)
			}
		}
	})
	return nil
}

// once begins something, and ends it when its time or the run's is over.
func (h *Holder) once(ctx context.Context, name string) bool {
	begin, cancel := context.WithTimeout(ctx, holdTime)
	defer cancel()
	held, err := h.env.Hold(begin, name)
	if err != nil {
		return false // the cluster is in trouble
	}
	began := h.env.Log.Now()
	sleep.For(ctx, holdFor)
	end, cancel := context.WithTimeout(context.Background(), holdTime)
	defer cancel()
	lost, unknown := held.End(end)
	lasted := time.Duration(h.env.Log.Now() - began).Round(time.Second)
	switch {
	case lost != nil:
		h.env.Log.Note(h.proc, -1, history.Failed, fmt.Sprintf("%s was lost within %v: %v", name, lasted, lost))
	case unknown == nil:
		h.held.Add(1)
		h.env.Log.Note(h.proc, -1, history.OK, fmt.Sprintf("%s was held for %v", name, lasted))
	}
	return lost == nil && unknown == nil
}

// Stop implements Traffic.
func (h *Holder) Stop(context.Context) {
	h.cancel()
	h.wg.Wait()
}

// Told is a line of what was held.
func (h *Holder) Told() string {
	return fmt.Sprintf("sessions, a transaction, an offset and a record were held %d times for %v", h.held.Load(), holdFor)
}
