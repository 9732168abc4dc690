package coordinator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"

	"kaas.dev/kaas/coordinator/election"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
)

const (
	metaDir   = "meta"
	topicsDir = "topics"
)

func clusterStream(v *substrate.Volume) string { return path.Join(v.MetaDir(), "cluster") }

// Start makes this process a broker of the volume's cluster and returns when it is
// registered there; its partitions are opened in the background. An older process with
// the same node ID is fenced. A volume that is full is waited for, see Options.Waiting.
// ctx bounds the start alone.
func Start(ctx context.Context, v *substrate.Volume, opt Options) (*Broker, error) {
	return waitForRoom(ctx, v, opt, startOnce)
}

func startOnce(ctx context.Context, v *substrate.Volume, opt Options) (*Broker, error) {
	b := newBroker(v, opt)
	if err := b.start(ctx); err != nil {
		b.abort(ctx)
		return nil, fmt.Errorf("start broker %d on %s: %w", b.opt.NodeID, dirOf(v), err)
	}
	return b, nil
}

func (b *Broker) start(ctx context.Context) error {
	b.listenForFull()
	b.makeRoom()
	if err := b.refuseDamage(ctx); err != nil {
		return err
	}
	if err := b.withRoom(func() error { return attempts(ctx, b.makeDirs) }); err != nil {
		return err
	}
	var data *substrate.Session
	err := b.withRoom(func() error {
		return attempts(ctx, func() (err error) { data, err = b.openSession(substrate.RoleData); return err })
	})
	if err != nil {
		return err
	}
	b.setTenure(&tenure{s: data})
	if b.opt.Lock == nil {
		b.opt.Lock = election.NewVolumeLock(b.v, strconv.Itoa(int(b.opt.NodeID)))
	}
	for _, f := range []func(){b.follow, b.campaign, b.agent, b.stayNearController, b.watchData, b.watchSpace, b.probeVolume, b.clean} {
		b.spawn(f)
	}
	return b.awaitRegistered(ctx)
}

// awaitRegistered waits until the view shows this process, or something says that it
// cannot.
func (b *Broker) awaitRegistered(ctx context.Context) error {
	err := b.awaitView(ctx, func() bool {
		// The controller's own word comes a little later than the stream's.
		mine := b.View().Controller() == b.opt.NodeID && !b.IsController()
		return b.unstarted.Load() != nil || b.registered.Load() != 0 && !mine
	})
	if why := b.unstarted.Load(); why != nil && b.registered.Load() == 0 {
		return *why
	}
	return err
}

// failStart has a start that waits return err, where no waiting mends it.
func (b *Broker) failStart(err error) {
	if b.registered.Load() != 0 || !lasting(err) {
		return
	}
	b.unstarted.CompareAndSwap(nil, &err)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.movedLocked()
}

// abort undoes a start that failed: what it put on the volume is inert.
func (b *Broker) abort(ctx context.Context) {
	b.end(nil)
	b.giveUp()
	_ = waitFor(ctx, &b.wg)
	for _, s := range b.sessions() {
		_ = s.Close(ctx) // waits for a Check in flight, no longer than ctx
	}
	b.peers.Close()
}

// refuseDamage looks at the volume before anything is changed.
func (b *Broker) refuseDamage(ctx context.Context) error {
	there, err := exists(b.v, metaDir, b.v.ID, path.Base(b.stream))
	if err != nil {
		return err
	}
	if !there {
		return b.refuseOrphans()
	}
	snap, _, err := metalog.ReadState(ctx, b.v, b.stream, projections.ClusterSchema())
	if err != nil {
		if isDamage(err) {
			return err
		}
		return nil // others pass, or are met again
	}
	return b.refuseOlder(ctx, snap)
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
		if _, err := projections.ParseTopicID(e.Name); err != nil {
			continue
		}
		// Another broker may have begun the cluster since.
		if there, err := exists(b.v, metaDir, b.v.ID, path.Base(b.stream)); err != nil || there {
			return err
		}
		return fmt.Errorf("%s: %s is missing, but %s/%s is there: refusing to begin a new cluster over an old one",
			dirOf(b.v), b.stream, topicsDir, e.Name)
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
//
// The volume's ID is verified when the session is there: who replaces the ID seals all
// sessions that are there after that. So either this one is sealed, or its process has
// seen the new ID. To look before as well spares a session that nobody would use.
func (b *Broker) openSession(role string) (*substrate.Session, error) {
	if err := b.sameVolume(); err != nil {
		return nil, err
	}
	s, err := b.v.OpenSession(substrate.Identity{Role: role, NodeID: b.opt.NodeID, Host: b.opt.Host,
		PID: os.Getpid(), Started: b.opt.Now()})
	if err != nil {
		return nil, err
	}
	if err := b.sameVolume(); err != nil {
		return nil, errors.Join(err, s.Close(b.hard))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.sessions = append(b.mu.sessions, s)
	return s, nil
}

// sameVolume ends a broker whose volume has another ID by now: kaas-meta has restored it.
// Whatever this process knows is of the old one, and to stand for controller, again and
// again in vain, would only keep those of the new one waiting.
func (b *Broker) sameVolume() error {
	now, err := substrate.ReadVolume(b.v.FS)
	if err != nil || now.ID == b.v.ID {
		return err
	}
	err = fmt.Errorf("%w: %s belongs to cluster %s now, not to %s: it was restored", substrate.ErrFenced, dirOf(b.v), now.ID, b.v.ID)
	b.end(err)
	return err
}

func (b *Broker) sessions() []*substrate.Session {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.mu.sessions)
}
