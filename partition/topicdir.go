package partition

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

// BuildTopic makes the topic's directory with all its partitions: built aside and
// renamed into place (rule 1), so that it is there whole or not at all. If it is there
// already, that is what was wanted (rule 2).
func BuildTopic(v *substrate.Volume, session string, id [16]byte, name string, partitions int, now time.Time) error {
	return BuildTopicAs(v, session, id, name, &About{Partitions: int32(partitions), Created: now.UnixMilli()}, now)
}

// BuildTopicAs is BuildTopic for a topic that something is set for.
func BuildTopicAs(v *substrate.Volume, session string, id [16]byte, name string, about *About, now time.Time) error {
	if err := v.EnsureDir(topicsDir); err != nil {
		return fmt.Errorf("build topic %s: %w", name, err)
	}
	if there, err := listed(v, topicsDir, hex.EncodeToString(id[:])); err != nil || there {
		return err
	}
	tmp := v.TempName(topicsDir, session)
	err := v.Mkdir(tmp)
	if err == nil {
		err = buildPartitions(v, tmp, id, name, about, now)
	}
	if err == nil {
		_, err = v.Place(tmp, TopicDir(id))
	} else {
		_ = v.RemoveTree(tmp) // best effort: a leftover goes with its session
	}
	if err != nil {
		return fmt.Errorf("build topic %s: %w", name, err)
	}
	return nil
}

func listed(v *substrate.Volume, dir, name string) (bool, error) {
	es, err := v.ListFresh(dir)
	if err != nil {
		return false, err
	}
	for _, e := range es {
		if e.Name == name {
			return true, nil
		}
	}
	return false, nil
}

// buildPartitions builds several at a time: each is a handful of fsyncs.
func buildPartitions(v *substrate.Volume, tmp string, id [16]byte, name string, about *About, now time.Time) error {
	var g errgroup.Group
	g.SetLimit(8)
	for i := range int(about.Partitions) {
		g.Go(func() error {
			return buildPartition(v, path.Join(tmp, strconv.Itoa(i)), id, name, int32(i), about, now)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return v.SyncDir(tmp)
}

func buildPartition(v *substrate.Volume, dir string, id [16]byte, name string, index int32, about *About, now time.Time) error {
	if err := v.Mkdir(dir); err != nil {
		return err
	}
	evs, err := encodeFacts(&PartitionCreated{TopicID: id, Topic: name, Partition: index, About: about})
	if err != nil {
		return err
	}
	if err := metalog.Build(v, path.Join(dir, metaDir), ManifestStream(id, index), ManifestSchema(), "topic created", now, evs...); err != nil {
		return err
	}
	return v.SyncDir(dir)
}

// BuildPartition makes one more partition of a topic that is in place: built beside its
// name and renamed to it. It is idempotent.
func BuildPartition(v *substrate.Volume, session string, id [16]byte, name string, index int32, now time.Time) error {
	dir := TopicDir(id)
	if there, err := listed(v, dir, strconv.Itoa(int(index))); err != nil || there {
		return err
	}
	tmp := v.TempName(dir, session)
	err := buildPartition(v, tmp, id, name, index, nil, now) // its first leader tells the manifest more
	if err == nil {
		_, err = v.Place(tmp, Dir(id, index))
	} else {
		_ = v.RemoveTree(tmp)
	}
	if err != nil {
		return fmt.Errorf("build partition %s-%d: %w", name, index, err)
	}
	return nil
}

// DeleteTopicDir renames the topic's directory away and removes it, trying until it is
// gone or ctx ends (rule 2): on NFS a file that some host still has open keeps its
// directory busy. Whoever had partitions open has ended them before.
func DeleteTopicDir(ctx context.Context, v *substrate.Volume, id [16]byte) error {
	hexID := hex.EncodeToString(id[:])
	away := path.Join(topicsDir, substrate.DeletedPrefix+hexID)
	for try := 0; ; try++ {
		err := deleteOnce(v, hexID, away)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("delete topic %s: %w: %w", hexID, ctx.Err(), err)
		}
		sleep.Before(ctx, try, mostPause)
	}
}

func deleteOnce(v *substrate.Volume, hexID, away string) error {
	there, err := listed(v, topicsDir, hexID)
	if err != nil {
		return err
	}
	// Renamed also where an old listing lacks it: the server knows better.
	err = v.Rename(path.Join(topicsDir, hexID), away)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !there:
	case err != nil:
		// Refused where an earlier try left its rest under that name: that goes first.
		if rerr := v.RemoveTree(away); rerr != nil {
			return rerr
		}
		return err
	}
	if err := v.RemoveTree(away); err != nil {
		return err
	}
	// Nobody looks for it again: after this it must not come back with a server's crash.
	return v.SyncDir(topicsDir)
}
