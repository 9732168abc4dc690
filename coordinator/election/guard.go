package election

import (
	"context"
	"encoding/binary"
	"log/slog"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rl "k8s.io/client-go/tools/leaderelection/resourcelock"

	"kaas.dev/kaas/internal/sleep"
)

// guard is the lock as the library is shown it: bounded calls, none while unhealthy, no
// more renewals than needed. It is used by one goroutine, that of Run.
type guard struct {
	rl.Interface
	cfg    Config
	holder string // as last seen
	ailing bool   // the last call failed, or was not made
	looks
	campaign
}

// looks is what is known from looking at the record.
type looks struct {
	last   *rl.LeaderElectionRecord // that was seen; nil where what is there is not known
	raw    []byte                   // the library's view of last
	at     time.Time                // when it was seen
	series uint32                   // of looks without a long gap between them
}

// campaign is what is known of one campaign.
type campaign struct {
	stop    context.CancelFunc
	elected bool      // a record was put, so the library has Lead called
	mine    bool      // the last that was heard of the record is that it was put here
	terms   int       // transitions in it
	renewed time.Time // when
}

// Get implements resourcelock.Interface.
func (g *guard) Get(ctx context.Context) (*rl.LeaderElectionRecord, []byte, error) {
	r, raw, err := g.look(ctx)
	if err != nil {
		return nil, nil, err
	}
	g.mine = false // until it is put again: what is there may be of another process of this identity
	g.see(r.HolderIdentity)
	if g.othersHold(r) && g.cfg.Gone(r.HolderIdentity) {
		left := *r
		left.HolderIdentity = "" // as if it had been released
		r = &left
	}
	return r, raw, nil
}

// look gets the record. One that somebody deleted is as it was seen last: its holder
// makes it again, and if it does not, what was seen expires.
//
// Where nothing could be seen for so long that the holder, in the same state, could not
// renew either, its lease begins anew for this candidate: an outage of all is not the end
// of the holder, which comes back first.
func (g *guard) look(ctx context.Context) (r *rl.LeaderElectionRecord, raw []byte, err error) {
	began := time.Now()
	err = g.call(ctx, func(ctx context.Context) error { r, raw, err = g.Interface.Get(ctx); return err })
	switch {
	case err == nil:
		if r.LeaseDurationSeconds <= 0 {
			r.LeaseDurationSeconds = int(g.cfg.LeaseDuration / time.Second)
		}
	case apierrors.IsNotFound(err) && g.last != nil && g.othersHold(g.last):
		r, raw = g.last, g.raw
	default:
		return nil, nil, err
	}
	if began.Sub(g.at) > g.cfg.RenewDeadline {
		g.series++
	}
	g.last, g.raw, g.at = r, raw, time.Now()
	return r, binary.BigEndian.AppendUint32(slices.Clip(raw), g.series), nil
}

func (g *guard) othersHold(r *rl.LeaderElectionRecord) bool {
	return r.HolderIdentity != "" && r.HolderIdentity != g.Identity()
}

// see ends the campaign of who was elected and finds that somebody else is: the library
// would try until its deadline.
func (g *guard) see(holder string) {
	if g.elected && holder != g.Identity() {
		g.stop()
	}
	if holder != g.holder && holder != "" && holder != unknown {
		g.cfg.Log.Info("the election is held", "holder", holder)
	}
	g.holder = holder
}

// Create implements resourcelock.Interface.
func (g *guard) Create(ctx context.Context, r rl.LeaderElectionRecord) error {
	return g.put(ctx, r, g.Interface.Create)
}

// Update implements resourcelock.Interface. The library looks more often than RetryPeriod
// (see lookPeriod); a renewal waits for its time.
func (g *guard) Update(ctx context.Context, r rl.LeaderElectionRecord) error {
	if g.mine && !sleep.For(ctx, time.Until(g.renewed.Add(g.cfg.RetryPeriod))) {
		return ctx.Err()
	}
	r.RenewTime = metav1.Now() // the library's is from before the wait
	return g.put(ctx, r, g.Interface.Update)
}

func (g *guard) put(ctx context.Context, r rl.LeaderElectionRecord, put func(context.Context, rl.LeaderElectionRecord) error) error {
	g.last = nil
	if err := g.call(ctx, func(ctx context.Context) error { return put(ctx, r) }); err != nil {
		return err
	}
	g.elected, g.mine, g.terms, g.renewed, g.holder = true, true, r.LeaderTransitions, time.Now(), r.HolderIdentity
	return nil
}

// call makes a call if this process is well, for half the renew deadline at most, so
// that a renewal whose call hangs has time for a second. The end of the campaign does not
// cut it short: whoever releases the lock is to know what became of the last renewal.
func (g *guard) call(ctx context.Context, call func(context.Context) error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err := g.cfg.Healthy()
	if err == nil {
		ctx, cancel := g.bound(ctx)
		defer cancel()
		err = call(ctx)
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		g.tell(nil)
		return err
	}
	if ctx.Err() == nil {
		g.tell(err)
	}
	return err
}

// bound is a call's context: ctx without its cancellation, but with its deadline.
func (g *guard) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	end := time.Now().Add(g.cfg.RenewDeadline / 2)
	if d, ok := ctx.Deadline(); ok && d.Before(end) {
		end = d
	}
	return context.WithDeadline(context.WithoutCancel(ctx), end)
}

// tell logs when calls begin to fail, and when they work again.
func (g *guard) tell(err error) {
	switch {
	case err != nil && !g.ailing:
		g.cfg.Log.Warn("no part in the election", "lock", g.Describe(), slog.Any("err", err))
	case err == nil && g.ailing:
		g.cfg.Log.Info("part in the election again", "lock", g.Describe())
	}
	g.ailing = err != nil
}

// release puts a record of no holder after the one that was put here, if that is the
// newest, so that the next one need not wait. Nobody is looked for: another process of
// this identity keeps what it has renewed.
func (g *guard) release(ctx context.Context) {
	if !g.mine {
		return
	}
	ctx, cancel := g.bound(ctx)
	defer cancel()
	now := metav1.Now()
	err := g.Interface.Update(ctx, rl.LeaderElectionRecord{LeaseDurationSeconds: 1, LeaderTransitions: g.terms, AcquireTime: now, RenewTime: now})
	if err != nil {
		g.cfg.Log.Debug("the election was not released", "lock", g.Describe(), slog.Any("err", err))
		return
	}
	g.holder = ""
}
