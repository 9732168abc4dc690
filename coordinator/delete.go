package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// DeleteTopic deletes a topic and returns when its partitions are closed. Its
// files are removed later, by a loop that survives restarts: TopicDeleted keeps
// the ID in the view until TopicRemoved says that nothing is left.
//
// The error wraps kerr.UnknownTopicID if there is no such topic, and
// kerr.RequestTimedOut with ctx, when the topic may be gone nevertheless.
func (b *Broker) DeleteTopic(ctx context.Context, id projections.TopicID) error {
	var pos substrate.Position
	err := b.await(ctx, "delete topic "+id.String(), func() (err error) {
		pos, err = b.publishDeletion(b.run, id)
		return err
	})
	if err != nil {
		return err
	}
	c := b.ctl.Load()
	if c == nil {
		// The next controller sees to the rest; that it is closed everywhere is not for us to say.
		return clientError(fmt.Errorf("topic %s is deleted, but not closed: %w", id, context.DeadlineExceeded))
	}
	if err := c.awaitClosed(ctx, id, pos); err != nil {
		return clientError(fmt.Errorf("topic %s is deleted, but not closed: %w", id, err))
	}
	return nil
}

func (b *Broker) publishDeletion(ctx context.Context, id projections.TopicID) (substrate.Position, error) {
	mine := false
	return b.publish(ctx, "topic "+b.nameOf(id)+" deleted", func(c *projections.Cluster) ([]metalog.Event, error) {
		t := c.TopicByID(id)
		if t == nil {
			if mine { // an earlier epoch of the stream had it published
				return nil, nil
			}
			return nil, fmt.Errorf("%w: %s", kerr.UnknownTopicID, id)
		}
		mine = true
		return projections.NewEvents(&projections.TopicDeleted{ID: id, Name: t.Name})
	})
}

// removeDeleted starts the removal of deleted topics' files, once each.
func (c *controller) removeDeleted(view *projections.Cluster) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, name := range view.Removing() {
		if !c.mu.removing[id] {
			c.mu.removing[id] = true
			c.spawnLocked(func() { c.remove(id, name) })
		}
	}
}

// remove drives a deleted topic to being gone (rule 2): every broker has closed it, its
// files are removed, and then the note of it in the view. What it does not finish, the
// next controller does.
func (c *controller) remove(id projections.TopicID, name string) {
	b := c.b
	// A volume that has come back from a snapshot may have the topic alive.
	mayRemove := func(ctx context.Context) error {
		if l := b.leading(); l != nil {
			return l.s.Check(ctx)
		}
		return errNotController
	}
	if c.awaitClosed(c.ctx, id, b.Shown()) != nil || !b.removeDir(c.ctx, id, name, mayRemove) {
		return
	}
	var p pace
	for {
		_, err := b.publish(c.ctx, "files of topic "+name+" removed", func(c *projections.Cluster) ([]metalog.Event, error) {
			if _, there := c.Removing()[id]; !there {
				return nil, nil
			}
			return projections.NewEvents(&projections.TopicRemoved{ID: id, Name: name})
		})
		if err == nil || !p.wait(c.ctx) {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.removing, id)
}

// removeDir removes a topic's directory under either of its names, whenever may says that it
// may. It reports false if the broker leaves first.
func (b *Broker) removeDir(ctx context.Context, id projections.TopicID, name string, may func(context.Context) error) bool {
	var p pace
	for {
		err := b.tryRemoveDir(id, may)
		if err == nil {
			return true
		}
		if ctx.Err() == nil {
			b.log.Warn("files of a deleted topic cannot be removed yet", "topic", name, "id", id, "err", err)
		}
		if !p.wait(ctx) {
			return false
		}
	}
}

// tryRemoveDir tries for a while, then makes room for the removal of others.
func (b *Broker) tryRemoveDir(id projections.TopicID, may func(context.Context) error) error {
	back, ok := takePlace(b.run, b.removals)
	if !ok {
		return b.run.Err()
	}
	defer back()
	ctx, cancel := context.WithTimeout(b.run, settle)
	defer cancel()
	once, end := context.WithCancel(ctx)
	end() // one try at a time, each after a look
	var p pace
	for {
		err := may(ctx)
		if err == nil {
			err = partition.DeleteTopicDir(once, b.v, id)
		}
		if err == nil || !p.wait(ctx) {
			return err
		}
	}
}

// discard removes a directory that this process has built and that was refused.
func (b *Broker) discard(id projections.TopicID, name string) {
	b.spawn(func() { b.removeDir(b.run, id, name, func(context.Context) error { return nil }) })
}

// sweepLeftovers finishes, at the begin of a term, what earlier processes left in topics/:
// trees on their way out, and what a sealed session had begun to build. A name
// that it does not know is left alone, and so is a topic that no metadata names.
func (b *Broker) sweepLeftovers() {
	es, err := b.v.ListFresh(topicsDir)
	if err != nil {
		b.log.Warn("leftovers cannot be listed", "dir", topicsDir, "err", err)
		return
	}
	for _, e := range es {
		if b.run.Err() != nil {
			return
		}
		if strings.HasPrefix(e.Name, substrate.DeletedPrefix) || b.orphaned(e.Name) {
			if err := b.removeLeftover(topicsDir, e); err != nil {
				b.log.Warn("leftover cannot be removed; the next controller tries again", "name", e.Name, "err", err)
			}
		}
	}
}

func (b *Broker) removeLeftover(dir string, e substrate.DirEntry) error {
	name := path.Join(dir, e.Name)
	switch {
	case e.Dir && strings.HasPrefix(e.Name, substrate.DeletedPrefix):
		return b.v.RemoveTree(name)
	case e.Dir: // whoever built it may be about to rename it into place
		return b.v.Discard(name)
	}
	if err := b.v.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// orphaned reports a temporary name whose session is sealed, so that what is built under
// it is published by nobody. Its process may still rename it into place: see Discard.
func (b *Broker) orphaned(name string) bool {
	rest, ok := strings.CutPrefix(name, "~new~")
	session, _, ok2 := strings.Cut(rest, "~")
	if !ok || !ok2 {
		return false
	}
	for _, s := range b.sessions() {
		if s.ID() == session {
			return false
		}
	}
	if living, err := b.v.Unsealed(session); err != nil || living {
		return false
	}
	return b.v.Seal(b.run, session) == nil // a look proves nothing; this does
}
