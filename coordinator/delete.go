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
	slots := (*b.slots.Load())[id]
	done := make(chan error, 1)
	if !b.spawn(func() { done <- b.publishDeletion(b.run, id) }) {
		return clientError(b.whyEnded())
	}
	select {
	case err := <-done:
		if err != nil {
			return clientError(fmt.Errorf("delete topic %s: %w", id, err))
		}
	case <-ctx.Done():
		return clientError(fmt.Errorf("delete topic %s: %w", id, ctx.Err()))
	}
	if err := awaitEnded(ctx, slots); err != nil {
		return clientError(fmt.Errorf("topic %s is deleted, but not closed: %w", id, err))
	}
	return nil
}

func (b *Broker) publishDeletion(ctx context.Context, id projections.TopicID) error {
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

// removeLocked starts the removal of a deleted topic's files, once.
func (b *Broker) removeLocked(id projections.TopicID, name string, slots []*slot) {
	if b.mu.removing[id] {
		return
	}
	b.mu.removing[id] = b.spawnLocked(func() { b.remove(id, name, slots) })
}

// remove drives a deleted topic to being gone (rule 2): files, then the note of
// it in the view. What it does not finish, the next process does.
func (b *Broker) remove(id projections.TopicID, name string, slots []*slot) {
	if awaitEnded(b.run, slots) != nil || !b.removeDir(id, name) {
		return
	}
	var p pace
	for {
		err := b.publish(b.run, "files of topic "+name+" removed", func(c *projections.Cluster) ([]metalog.Event, error) {
			if _, there := c.Removing()[id]; !there {
				return nil, nil
			}
			return projections.NewEvents(&projections.TopicRemoved{ID: id, Name: name})
		})
		if err == nil || !p.wait(b.run) {
			break
		}
	}
	b.mu.Lock()
	delete(b.mu.removing, id)
	b.mu.Unlock()
}

// removeDir removes a topic's directory under either of its names. It reports
// false if the broker leaves first.
func (b *Broker) removeDir(id projections.TopicID, name string) bool {
	var p pace
	for {
		err := b.tryRemoveDir(id)
		if err == nil {
			return true
		}
		if b.run.Err() == nil {
			b.log.Warn("files of a deleted topic cannot be removed yet", "topic", name, "id", id, "err", err)
		}
		if !p.wait(b.run) {
			return false
		}
	}
}

// tryRemoveDir tries for a while, then makes room for the removal of others.
func (b *Broker) tryRemoveDir(id projections.TopicID) error {
	back, ok := place(b.run, b.removals)
	if !ok {
		return b.run.Err()
	}
	defer back()
	ctx, cancel := context.WithTimeout(b.run, settle)
	defer cancel()
	return partition.DeleteTopicDir(ctx, b.v, id)
}

// discard removes a directory that this process has built and that was refused.
func (b *Broker) discard(id projections.TopicID, name string) {
	b.spawn(func() { b.removeDir(id, name) })
}

// sweepLeftovers finishes, at the start, what earlier processes left in topics/:
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
				b.log.Warn("leftover cannot be removed; the next start tries again", "name", e.Name, "err", err)
			}
		}
	}
}

func (b *Broker) removeLeftover(dir string, e substrate.DirEntry) error {
	name := path.Join(dir, e.Name)
	switch {
	case e.Dir && strings.HasPrefix(e.Name, substrate.DeletedPrefix):
		return b.v.RemoveTree(name)
	case e.Dir:
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
