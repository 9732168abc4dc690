package server

// AlterReplicaLogDirs, key 34, versions 1 and 2 (KIP-113).
//
// There is one directory, the volume's: whoever asks for another is told
// LOG_DIR_NOT_FOUND, and what is asked to be in it and is served here is there already. As
// in Kafka a partition that another broker leads is REPLICA_NOT_AVAILABLE. Each topic is
// answered once, and of a partition that stands twice the last counts.

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/acl"
)

var alterReplicaLogDirsAPI = api{key: kmsg.AlterReplicaLogDirs, min: 1, max: 2, access: onCluster(acl.Alter), start: (*Server).alterReplicaLogDirs}

func (s *Server) alterReplicaLogDirs(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.AlterReplicaLogDirsRequest)
	dirs := map[string]map[int32]string{}
	for _, d := range req.Dirs {
		for _, t := range d.Topics {
			if dirs[t.Topic] == nil {
				dirs[t.Topic] = map[int32]string{}
			}
			for _, p := range t.Partitions {
				dirs[t.Topic][p] = d.Dir
			}
		}
	}
	resp := kmsg.NewPtrAlterReplicaLogDirsResponse()
	for name, partitions := range dirs {
		out := kmsg.NewAlterReplicaLogDirsResponseTopic()
		out.Topic = name
		for _, p := range sortedPartitions(partitions) {
			o := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
			o.Partition, o.ErrorCode = p, s.failure(kmsg.AlterReplicaLogDirs, orElse(r.refused, func() error { return s.inDir(name, p, partitions[p]) }))
			out.Partitions = append(out.Partitions, o)
		}
		resp.Topics = append(resp.Topics, out)
	}
	slices.SortFunc(resp.Topics, func(a, b kmsg.AlterReplicaLogDirsResponseTopic) int { return cmp.Compare(a.Topic, b.Topic) })
	return now(resp)
}

// inDir is why a partition is not in a directory, or nil.
func (s *Server) inDir(topic string, index int32, dir string) error {
	if filepath.Clean(dir) != filepath.Clean(s.cfg.LogDir) {
		return kerr.LogDirNotFound
	}
	t := s.backend.View().Topic(topic)
	if t == nil {
		return kerr.UnknownTopicOrPartition
	}
	_, err := s.backend.Partition(t.ID, index)
	if errors.Is(err, kerr.NotLeaderForPartition) {
		return kerr.ReplicaNotAvailable
	}
	return err
}
