package server

// DescribeLogDirs, key 35, versions 1 to 5.
//
// One directory, the volume's, with the partitions that this broker leads and what their
// logs take of it; a null list asks for all. Partitions led by others, not there, or not
// open yet are left out. From version 4 on the volume's size and what may still be
// written, which all brokers share. Nothing is ever a future log, or cordoned.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
)

var describeLogDirsAPI = api{key: kmsg.DescribeLogDirs, min: 1, max: 5, wide: true, access: onCluster(acl.Describe), start: (*Server).describeLogDirs}

func (s *Server) describeLogDirs(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.DescribeLogDirsRequest)
	if r.refused != nil {
		resp := kmsg.NewPtrDescribeLogDirsResponse()
		resp.ErrorCode = s.failure(kmsg.DescribeLogDirs, r.refused)
		return now(resp)
	}
	return later(func(ctx context.Context) (kmsg.Response, error) {
		dir := kmsg.NewDescribeLogDirsResponseDir()
		dir.Dir, dir.TotalBytes, dir.UsableBytes = s.cfg.LogDir, -1, -1
		if r.version >= 4 {
			dir.ErrorCode = s.failure(kmsg.DescribeLogDirs, s.measure(ctx, &dir))
		}
		view := s.backend.View()
		if req.Topics == nil {
			for _, t := range view.Topics() {
				if !r.room(topicBytes(t)) {
					break
				}
				s.addSizes(&dir, t, nil)
			}
		}
		for i := range req.Topics {
			if t := view.Topic(req.Topics[i].Topic); t != nil {
				s.addSizes(&dir, t, append([]int32{}, distinct(req.Topics[i].Partitions, itself)...))
			}
		}
		resp := kmsg.NewPtrDescribeLogDirsResponse()
		resp.Dirs = append(resp.Dirs, dir)
		return resp, nil
	})
}

// measure asks the volume for its size, as long as it takes to be answered but no longer
// than anybody waits.
func (s *Server) measure(ctx context.Context, dir *kmsg.DescribeLogDirsResponseDir) error {
	ctx, cancel := context.WithTimeout(ctx, volumeWait)
	defer cancel()
	type size struct{ total, usable int64 }
	got, err := substrate.Do(ctx, s.disk, func() (size, error) {
		total, usable, err := s.backend.Disk()
		return size{total, usable}, err
	}, nil)
	if err == nil {
		dir.TotalBytes, dir.UsableBytes = got.total, got.usable
	}
	return err
}

// addSizes adds a topic's partitions that are served here, of those that are named or,
// for nil, of all.
func (s *Server) addSizes(dir *kmsg.DescribeLogDirsResponseDir, t *projections.Topic, indexes []int32) {
	if indexes == nil {
		for i := range t.Partitions {
			indexes = append(indexes, int32(i))
		}
	}
	out := kmsg.NewDescribeLogDirsResponseDirTopic()
	out.Topic = t.Name
	for _, i := range indexes {
		if p, err := s.backend.Partition(t.ID, i); err == nil {
			o := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
			o.Partition, o.Size = i, p.Size()
			out.Partitions = append(out.Partitions, o)
		}
	}
	if len(out.Partitions) > 0 {
		dir.Topics = append(dir.Topics, out)
	}
}
