package server

// ElectLeaders, key 43, versions 0 to 2 (KIP-183, KIP-460).
//
// With one copy there is nothing to choose from: a partition whose leader lives needs no
// election, preferred or unclean (ELECTION_NOT_NEEDED), and one whose leader does not
// goes to the living broker that leads the fewest. Where none lives that is
// PREFERRED_LEADER_NOT_AVAILABLE, or ELIGIBLE_LEADERS_NOT_AVAILABLE if unclean. A null
// list means all partitions: the answer tells those that needed it, by topic, and lists all topics.

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
)

var electLeadersAPI = api{key: kmsg.ElectLeaders, min: 0, max: 2, forward: true, access: onCluster(acl.Alter), start: (*Server).electLeaders}

const electPreferred, electUnclean = 0, 1

func (s *Server) electLeaders(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.ElectLeadersRequest)
	return inTurn(r, func(ctx context.Context) kmsg.Response {
		ctx, cancel := adminTimeout(ctx, req.TimeoutMillis)
		defer cancel()
		err := r.refused
		if err == nil && req.ElectionType != electPreferred && req.ElectionType != electUnclean {
			err = fmt.Errorf("%w: election type %d is unknown", kerr.InvalidRequest, req.ElectionType)
		}
		view := s.backend.View()
		asked, topics := electable(view, req)
		if err != nil && req.Topics == nil {
			topics = nil
		}
		moves := make([]move, len(asked))
		for i := range moves {
			moves[i].err = err
		}
		if err == nil {
			moves = elect(view, req.ElectionType, asked)
		}
		resp := s.elected(r, topics, asked, s.moveAll(ctx, moves))
		if r.refused != nil || req.Topics == nil || len(req.Topics) > 0 {
			resp.ErrorCode = s.failure(kmsg.ElectLeaders, err)
		}
		return resp
	})
}

// elected is the answer that tells what became of each partition.
func (s *Server) elected(r *request, topics []string, asked []askedPartition, errs []error) *kmsg.ElectLeadersResponse {
	resp := kmsg.NewPtrElectLeadersResponse()
	resp.Topics = make([]kmsg.ElectLeadersResponseTopic, len(topics))
	for i := range topics {
		resp.Topics[i].Topic = topics[i]
	}
	for i, a := range asked {
		out := kmsg.NewElectLeadersResponseTopicPartition()
		out.Partition = a.index
		out.ErrorCode, out.ErrorMessage = s.failure(kmsg.ElectLeaders, errs[i]), r.message(errs[i])
		t := &resp.Topics[a.at]
		t.Partitions = append(t.Partitions, out)
	}
	return resp
}

// askedPartition is a partition as a request names it; its topic is nil where there is none.
type askedPartition struct {
	at    int // of its topic in the answer
	topic *projections.Topic
	index int32
}

func (a *askedPartition) known() bool {
	return a.topic != nil && a.index >= 0 && int(a.index) < len(a.topic.Partitions)
}

// needed reports that nobody who lives leads it.
func (a *askedPartition) needed(view *projections.Cluster) bool {
	return a.known() && !view.Alive(a.topic.Partitions[a.index].Leader)
}

// electable is what a request is about, of all partitions those that need it, and the topics
// that are told of.
func electable(view *projections.Cluster, req *kmsg.ElectLeadersRequest) (out []askedPartition, topics []string) {
	if req.Topics == nil {
		for _, t := range view.Topics() {
			for i := range t.Partitions {
				if a := (askedPartition{len(topics), t, int32(i)}); a.needed(view) {
					out = append(out, a)
				}
			}
			topics = append(topics, t.Name)
		}
	}
	for i := range req.Topics {
		t := view.Topic(req.Topics[i].Topic)
		for _, p := range req.Topics[i].Partitions {
			out = append(out, askedPartition{i, t, p})
		}
		topics = append(topics, req.Topics[i].Topic)
	}
	return out, topics
}

// elect chooses who is to lead.
func elect(view *projections.Cluster, kind int8, asked []askedPartition) []move {
	leads := map[int32]int{}
	for _, t := range view.Topics() {
		for _, p := range t.Partitions {
			leads[p.Leader]++
		}
	}
	out := make([]move, len(asked))
	for i := range asked {
		a := &asked[i]
		if !a.needed(view) {
			out[i].err = kerr.ElectionNotNeeded
			if !a.known() {
				out[i].err = kerr.UnknownTopicOrPartition
			}
			continue
		}
		switch to, ok := idlest(view, leads); {
		case !ok && kind == electUnclean:
			out[i].err = kerr.EligibleLeadersNotAvailable
		case !ok:
			out[i].err = kerr.PreferredLeaderNotAvailable
		default:
			leads[to]++
			out[i].LeaderMove = coordinator.LeaderMove{TopicID: a.topic.ID, Partition: a.index, From: a.topic.Partitions[a.index].Leader, To: to}
		}
	}
	return out
}

// idlest is the living broker that leads the fewest.
func idlest(view *projections.Cluster, leads map[int32]int) (id int32, ok bool) {
	for _, b := range view.Brokers() {
		if !b.Fenced && (!ok || leads[b.ID] < leads[id]) {
			id, ok = b.ID, true
		}
	}
	return id, ok
}

// move is a change of leader that is asked for, or why it is not made.
type move struct {
	coordinator.LeaderMove
	err  error
	done bool // it is so already
}

// moveAll makes the moves that may be made, and returns an error or nil for each.
func (s *Server) moveAll(ctx context.Context, moves []move) []error {
	errs := make([]error, len(moves))
	var at []int
	var out []coordinator.LeaderMove
	for i, m := range moves {
		if errs[i] = m.err; m.err == nil && !m.done {
			at, out = append(at, i), append(out, m.LeaderMove)
		}
	}
	if len(out) == 0 {
		return errs
	}
	for i, err := range s.backend.MoveLeaders(ctx, out) {
		errs[at[i]] = err
	}
	return errs
}
