package server

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"net"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
	"kaas.dev/kaas/server/auth"
)

// inGroupTurn answers a request to a group's coordinator once all earlier ones of its
// connection are answered, as Kafka does: a commit that is sent before a member leaves is
// made before it leaves. At a stop it is answered at once.
func (s *Server) inGroupTurn(r *request, answer func(context.Context) kmsg.Response) (reply, error) {
	return inTurn(r, func(ctx context.Context) kmsg.Response {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.serving, cancel)()
		return answer(ctx)
	})
}

// shardOf is the shard that coordinates a group, if it is served here. Some requests are
// about no group in particular, and pass for "".
func (s *Server) shardOf(group string) (groupShard, error) {
	if group == "" {
		return nil, kerr.InvalidGroupID
	}
	return s.toWrite(group)
}

// memberShard is shardOf for a member of the group, or who wants to be one.
func (s *Server) memberShard(r *request, group string) (groupShard, error) {
	if err := r.deniedGroup(acl.Read, group); err != nil {
		return nil, err
	}
	return s.shardOf(group)
}

// maxString is the longest string that every version of every response can hold: flexible
// versions would take longer ones, which the others could then not tell.
const maxString = math.MaxInt16

// toWrite is the shard of a group that may come to be by the request.
func (s *Server) toWrite(group string) (groupShard, error) {
	if len(group) > maxString {
		return nil, kerr.InvalidGroupID
	}
	return s.backend.GroupShard(group)
}

// groupFailure is failure in the words of a coordinator: its clients take the codes of a
// partition that is elsewhere, or stuck, for fatal.
func (s *Server) groupFailure(key kmsg.Key, err error) int16 {
	code := codeOf(err)
	s.logCause(key, code, err)
	switch {
	case code == kerr.NotLeaderForPartition.Code, code == kerr.KafkaStorageError.Code:
		code = kerr.NotCoordinator.Code
	case code == kerr.RequestTimedOut.Code && key == kmsg.OffsetFetch: // old consumers know no other
		code = kerr.NotCoordinator.Code
	case code == kerr.RequestTimedOut.Code:
		code = kerr.CoordinatorNotAvailable.Code
	}
	if code != 0 {
		s.metrics.failed(key, code)
	}
	return code
}

// groupTold is groupFailure with what is told beside it.
func (s *Server) groupTold(key kmsg.Key, err error) (int16, *string) {
	code := s.groupFailure(key, err)
	if inner[code] {
		return code, ownWords(code)
	}
	return code, message(err)
}

// host is a client's address as Kafka tells it.
func (r *request) host() string {
	if a, ok := r.conn.nc.RemoteAddr().(*net.TCPAddr); ok {
		return "/" + a.IP.String()
	}
	return "/" + r.conn.nc.RemoteAddr().String()
}

// tenant is whose share of what is shared a request takes: the principal's, or, of those who
// have not said who they are, all's who come from the same address.
func (r *request) tenant() string {
	if r.principal == auth.Anonymous {
		return r.from.String()
	}
	return r.principal.String()
}

// or is a string that may be missing.
func or(s *string, missing string) string {
	if s == nil {
		return missing
	}
	return *s
}

// sortedPartitions are a topic's partitions in order.
func sortedPartitions[V any](m map[int32]V) []int32 {
	out := make([]int32, 0, len(m))
	for p := range m {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

// sortedTopics are the living topics of a map by name. What is deleted is left out.
func sortedTopics[V any](view *projections.Cluster, m map[projections.TopicID]V) []*projections.Topic {
	out := make([]*projections.Topic, 0, len(m))
	for id := range m {
		if t := view.TopicByID(id); t != nil {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b *projections.Topic) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// hasPartition reports whether a topic has that partition.
func hasPartition(t *projections.Topic, index int32) bool {
	return index >= 0 && int(index) < len(t.Partitions)
}

func compareIDs(a, b projections.TopicID) int { return bytes.Compare(a[:], b[:]) }
