package coordinator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
)

const (
	metaDir   = "meta"
	topicsDir = "topics"
)

func clusterStream(v *substrate.Volume) string { return path.Join(v.MetaDir(), "cluster") }

// Start makes this process the broker of the volume and returns when that is
// committed; the partitions are opened in the background. It waits for nobody: an
// older process with the same node ID is fenced. Another node ID is an error that
// wraps ErrOtherNode, and then nothing was changed. A volume that is full is waited
// for, see Options.Waiting. ctx bounds the start alone.
func Start(ctx context.Context, v *substrate.Volume, opt Options) (*Broker, error) {
	return waitForRoom(ctx, v, opt, startOnce)
}

func startOnce(ctx context.Context, v *substrate.Volume, opt Options) (*Broker, error) {
	b := newBroker(v, opt)
	if err := b.refuseOthers(ctx); err != nil {
		b.abort(ctx)
		return nil, err
	}
	if err := b.start(ctx); err != nil {
		b.abort(ctx)
		return nil, fmt.Errorf("start broker %d on %s: %w", b.opt.NodeID, dirOf(v), err)
	}
	return b, nil
}

func (b *Broker) start(ctx context.Context) error {
	b.listenForFull()
	b.makeRoom()
	if err := b.withRoom(func() error { return attempts(ctx, b.makeDirs) }); err != nil {
		return err
	}
	var ctl, data *substrate.Session
	var w *clusterWriter
	steps := []func() (err error){
		func() (err error) { ctl, err = b.openSession(substrate.RoleController); return err },
		func() (err error) { data, err = b.openSession(substrate.RoleData); return err },
		func() (err error) { w, err = b.claimNew(ctx, ctl); return err },
	}
	for _, step := range steps {
		if err := b.withRoom(func() error { return attempts(ctx, step) }); err != nil {
			return err
		}
	}
	err := b.withRoom(func() error {
		return attempts(ctx, func() error {
			_, err := w.Publish(ctx, fmt.Sprintf("broker %d started", b.opt.NodeID), b.takeOver)
			return err
		})
	})
	if err != nil {
		return errors.Join(err, w.Abandon(ctx))
	}
	b.mu.Lock()
	b.mu.lead = newLead(ctl, w)
	b.mu.Unlock()
	b.setTenure(&tenure{s: data})
	b.show(w)
	b.spawn(b.control)
	b.spawn(b.watchData)
	b.spawn(b.watchSpace)
	b.spawn(b.sweepLeftovers)
	b.spawn(b.clean)
	return nil
}

// abort undoes a start that failed: what it put on the volume is inert.
func (b *Broker) abort(ctx context.Context) {
	b.end(nil)
	b.giveUp()
	for _, s := range b.sessions() {
		_ = s.Close(ctx) // waits for a Check in flight, no longer than ctx
	}
}

// refuseOthers looks at the volume before anything is changed.
func (b *Broker) refuseOthers(ctx context.Context) error {
	there, err := exists(b.v, metaDir, b.v.ID, path.Base(b.stream))
	if err != nil {
		return fmt.Errorf("read %s: %w", dirOf(b.v), err)
	}
	if !there {
		return b.refuseOrphans()
	}
	snap, _, err := metalog.ReadState(ctx, b.v, b.stream, projections.ClusterSchema())
	if err != nil {
		return fmt.Errorf("read %s: %w", dirOf(b.v), err)
	}
	return b.refuseIn(snap.State)
}

func (b *Broker) refuseIn(c *projections.Cluster) error {
	for _, other := range c.Brokers() {
		if other.ID != b.opt.NodeID {
			return &OtherNodeError{Dir: dirOf(b.v), NodeID: b.opt.NodeID, Registered: other.ID}
		}
	}
	return nil
}

// refuseOrphans refuses to begin a cluster where topics lie: their metadata is
// lost, and a new stream would hide that.
func (b *Broker) refuseOrphans() error {
	if there, err := exists(b.v, topicsDir); err != nil || !there {
		return err
	}
	es, err := b.v.ListFresh(topicsDir)
	if err != nil {
		return fmt.Errorf("read %s: %w", dirOf(b.v), err)
	}
	for _, e := range es {
		if _, err := projections.ParseTopicID(e.Name); err == nil {
			return fmt.Errorf("%s: %s is missing, but %s/%s is there: refusing to begin a new cluster over an old one",
				dirOf(b.v), b.stream, topicsDir, e.Name)
		}
	}
	return nil
}

// exists reports, by listings alone, whether the path of these names is there.
func exists(v *substrate.Volume, names ...string) (bool, error) {
	dir := "."
	for _, name := range names {
		es, err := v.ListFresh(dir)
		if err != nil {
			return false, err
		}
		if !slices.ContainsFunc(es, func(e substrate.DirEntry) bool { return e.Name == name }) {
			return false, nil
		}
		dir = path.Join(dir, name)
	}
	return true, nil
}

// makeDirs makes what every broker finds there. Each step is idempotent (rule 2).
func (b *Broker) makeDirs() error {
	for _, dir := range []string{metaDir, b.v.MetaDir(), topicsDir} {
		if err := b.v.EnsureDir(dir); err != nil {
			return err
		}
	}
	return metalog.Ensure(b.v, b.stream, projections.ClusterSchema(), "cluster begun", b.opt.Now())
}

// openSession opens a session that Stop closes, on the volume that it was when the
// process began.
func (b *Broker) openSession(role string) (*substrate.Session, error) {
	now, err := substrate.ReadVolume(b.v.FS)
	if err != nil {
		return nil, err
	}
	if now.ID != b.v.ID {
		return nil, fmt.Errorf("%s belongs to cluster %s now, not to %s", dirOf(b.v), now.ID, b.v.ID)
	}
	s, err := b.v.OpenSession(substrate.Identity{Role: role, NodeID: b.opt.NodeID, Host: b.opt.Host,
		PID: os.Getpid(), Started: b.opt.Now()})
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.sessions = append(b.mu.sessions, s)
	return s, nil
}

func (b *Broker) sessions() []*substrate.Session {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.mu.sessions)
}

// claimNew claims the stream for a newcomer: above whatever is there, until it has it.
func (b *Broker) claimNew(ctx context.Context, s *substrate.Session) (*clusterWriter, error) {
	for e := substrate.Epoch(0); ; {
		next, err := metalog.NextEpoch(b.v, b.stream)
		if err != nil {
			return nil, err
		}
		e = max(e+1, next)
		w, err := b.claim(ctx, s, e)
		if err == nil || !errors.Is(err, substrate.ErrEpochTaken) || ctx.Err() != nil {
			return w, err
		}
	}
}

// takeOver registers the broker and gives it every partition under a new epoch. It
// looks once more for others, who may have come since refuseOthers.
func (b *Broker) takeOver(c *projections.Cluster) ([]metalog.Event, error) {
	if err := b.refuseIn(c); err != nil {
		return nil, err
	}
	old, _ := c.Broker(b.opt.NodeID)
	fs := []projections.Fact{&projections.BrokerRegistered{ID: b.opt.NodeID, Epoch: old.Epoch + 1,
		Host: b.opt.Host, Listeners: b.opt.Listeners, Rack: b.opt.Rack}}
	for _, t := range c.Topics() {
		for i, p := range t.Partitions {
			fs = append(fs, &projections.PartitionLeaderChanged{TopicID: t.ID, Partition: int32(i), Leader: b.opt.NodeID, Epoch: p.Epoch + 1})
		}
	}
	return projections.NewEvents(fs...)
}
