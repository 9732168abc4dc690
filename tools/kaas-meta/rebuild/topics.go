package rebuild

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/txns"
)

const topicsDir = "topics"

// topicDirs lists the topics there are in topics/, by ID.
func (r *run) topicDirs() (out []projections.TopicID, err error) {
	es, err := r.v.ListFresh(topicsDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range es {
		id, err := projections.ParseTopicID(e.Name)
		switch {
		case err == nil && e.Dir:
			out = append(out, id)
		case strings.HasPrefix(e.Name, substrate.DeletedPrefix) && e.Dir:
			r.out.note("%s was being removed, and still is: brokers finish it", path.Join(topicsDir, e.Name))
		}
	}
	return out, nil
}

// partitionsOf lists the partitions of a topic that have a directory, by number.
func (r *run) partitionsOf(id projections.TopicID) (out []txns.Partition, err error) {
	es, err := r.v.ListFresh(partition.TopicDir(id))
	if err != nil {
		return nil, err
	}
	for _, e := range es {
		n, err := strconv.ParseInt(e.Name, 10, 32)
		if err == nil && e.Dir && n >= 0 && strconv.Itoa(int(n)) == e.Name {
			out = append(out, txns.Partition{Topic: id, Index: int32(n)})
		}
	}
	slices.SortFunc(out, txns.Partition.Compare)
	return out, nil
}
