package server

// DeleteGroups, key 42, versions 0 to 3.
//
// Groups without members, with their offsets: NON_EMPTY_GROUP for one that has any,
// GROUP_ID_NOT_FOUND for one that is not there. A group that stands twice is deleted once.

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/acl"
)

var deleteGroupsAPI = api{key: kmsg.DeleteGroups, min: 0, max: 3, access: checks(right{acl.Delete, acl.Group}), start: (*Server).deleteGroups}

func (s *Server) deleteGroups(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.DeleteGroupsRequest)
	return s.inGroupTurn(r, func(ctx context.Context) kmsg.Response {
		names := slices.Clone(req.Groups)
		slices.Sort(names)
		names = slices.Compact(names)
		resp := kmsg.NewPtrDeleteGroupsResponse()
		resp.Groups = make([]kmsg.DeleteGroupsResponseGroup, len(names))
		inParallel(len(names), func(i int) {
			out := &resp.Groups[i]
			out.Default()
			err := orElse(r.deniedGroup(acl.Delete, names[i]), func() error { return s.deleteGroup(ctx, names[i]) })
			code, words := s.groupTold(kmsg.DeleteGroups, err)
			out.Group, out.ErrorCode, out.ErrorMessage = names[i], code, r.bounded(words)
		})
		return resp
	})
}

func (s *Server) deleteGroup(ctx context.Context, group string) error {
	shard, err := s.backend.GroupShard(group)
	if err != nil {
		return err
	}
	return shard.Delete(ctx, group)
}
