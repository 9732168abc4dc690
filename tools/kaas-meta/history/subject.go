package history

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/projections/txns"
)

// Subject is what an event is about.
type Subject struct {
	Topics    []projections.TopicID
	TopicName string // where the event tells the name of its topic
	Partition int32  // -1 where it is not about one
	Brokers   []int32
	Groups    []string
	Producers []int64
	Txns      []string
	Users     []string
	// All says that the event is about the whole state, or that this build does not know
	// what it is about.
	All bool
}

func subjectOf(fact any) Subject {
	s := Subject{Partition: -1}
	broker := func(id int32) {
		if id >= 0 {
			s.Brokers = append(s.Brokers, id)
		}
	}
	switch e := fact.(type) {
	case *projections.BrokerRegistered:
		broker(e.ID)
	case *projections.BrokerFenced:
		broker(e.ID)
	case *projections.BrokerUnfenced:
		broker(e.ID)
	case *projections.BrokerUnregistered:
		broker(e.ID)
	case *projections.ControllerChanged:
		broker(e.Node)
	case *projections.TopicCreated:
		s.Topics, s.TopicName = []projections.TopicID{e.ID}, e.Name
	case *projections.TopicDeleted:
		s.Topics, s.TopicName = []projections.TopicID{e.ID}, e.Name
	case *projections.TopicRemoved:
		s.Topics, s.TopicName = []projections.TopicID{e.ID}, e.Name
	case *projections.PartitionsAdded:
		s.Topics, s.TopicName = []projections.TopicID{e.TopicID}, e.Topic
	case *projections.PartitionLeaderChanged:
		s.Topics, s.Partition = []projections.TopicID{e.TopicID}, e.Partition
		broker(e.Leader)
	case *projections.ShardOwnerChanged:
		broker(e.Owner)
	case *projections.ShardsMade, *projections.ProducerFencesExpired, *projections.QuotasChanged:
	case *projections.ACLsCreated:
		s.acls(e.ACLs)
	case *projections.ACLsDeleted:
		s.acls(e.ACLs)
	case *projections.ProducerIDsAllocated:
		broker(e.Broker)
	case *projections.ProducerFenced:
		s.Producers = []int64{e.ProducerID}
	case *projections.ScramCredentialSet:
		s.Users = []string{e.User}
	case *projections.ScramCredentialRemoved:
		s.Users = []string{e.User}
	case *projections.ConfigChanged:
		s.config(e)
	case *txns.TxnChanged:
		s.txn(&e.Txn)
	case *txns.TxnRemoved:
		s.Txns = []string{e.ID}
	default:
		s.group(fact)
	}
	return s
}

func (s *Subject) config(e *projections.ConfigChanged) {
	switch e.Resource {
	case projections.ResourceTopic:
		s.Topics, s.TopicName = []projections.TopicID{e.TopicID}, e.Name
	case projections.ResourceGroup:
		s.Groups = []string{e.Name}
	case projections.ResourceBroker:
		if id, err := strconv.ParseInt(e.Name, 10, 32); err == nil {
			s.Brokers = []int32{int32(id)}
		}
	}
}

// acls names the groups and transactional IDs that ACLs name; topics are told by ID.
func (s *Subject) acls(acls []projections.ACL) {
	for _, a := range acls {
		switch {
		case a.Pattern != projections.ACLLiteral:
		case a.Resource == projections.ACLGroup:
			s.Groups = append(s.Groups, a.Name)
		case a.Resource == projections.ACLTransactionalID:
			s.Txns = append(s.Txns, a.Name)
		}
	}
}

func (s *Subject) txn(t *txns.Txn) {
	s.Txns, s.Producers = []string{t.ID}, []int64{t.ProducerID}
	for _, p := range t.Partitions {
		if !slices.Contains(s.Topics, p.Topic) {
			s.Topics = append(s.Topics, p.Topic)
		}
	}
}

func (s *Subject) group(fact any) {
	switch e := fact.(type) {
	case *groups.OffsetsCommitted:
		s.Groups = []string{e.Group}
		s.offsets(e.Topics)
	case *groups.OffsetsRemoved:
		s.Groups = []string{e.Group}
		for _, t := range e.Topics {
			s.Topics = append(s.Topics, t.Topic)
		}
	case *groups.TxnOffsetsStaged:
		s.Groups, s.Producers = []string{e.Group}, []int64{e.Producer}
		s.offsets(e.Topics)
	case *groups.TxnOffsetsEnded:
		s.Groups, s.Producers = []string{e.Group}, []int64{e.Producer}
	case *groups.ClassicGroupChanged:
		s.Groups = []string{e.Group}
	case *groups.ConsumerGroupChanged:
		s.Groups = []string{e.Group}
	case *groups.ConsumerMemberChanged:
		s.Groups = []string{e.Group}
	case *groups.ConsumerMemberLeft:
		s.Groups = []string{e.Group}
	case *groups.ConsumerTargetChanged:
		s.Groups = []string{e.Group}
	case *groups.GroupDeleted:
		s.Groups = []string{e.Group}
	default:
		s.All = true
	}
}

func (s *Subject) offsets(ts []groups.TopicOffsets) {
	for _, t := range ts {
		s.Topics = append(s.Topics, t.Topic)
	}
}

// picker chooses records by what is in them.
type picker struct {
	f      Filter
	topics map[projections.TopicID]bool // that were ever called as the filter says
}

// picker of the records from number from on. A topic's name is followed to its IDs: those
// that it had at the beginning, and those of topics made since.
func (s *Stream) picker(ctx context.Context, x *metalog.Index, f Filter, from int) (*picker, error) {
	p := &picker{f: f, topics: map[projections.TopicID]bool{}}
	if f.Topic == "" {
		return p, nil
	}
	if id, err := projections.ParseTopicID(f.Topic); err == nil {
		p.topics[id] = true
	}
	view, err := ReadCluster(ctx, s.v)
	if err != nil {
		return nil, fmt.Errorf("topic %q: %w", f.Topic, err)
	}
	p.learn(view)
	if s.Path == Cluster(s.v).Path && from > 0 {
		st, err := s.Before(ctx, x, from)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if c, ok := st.Fold.(*projections.Cluster); ok {
			p.learn(c)
		}
	}
	return p, nil
}

func (p *picker) learn(c *projections.Cluster) {
	if t := c.Topic(p.f.Topic); t != nil {
		p.topics[t.ID] = true
	}
	for id, name := range c.Removing() {
		if name == p.f.Topic {
			p.topics[id] = true
		}
	}
}

// wants reports whether a record is chosen: one of its events is of a chosen type and
// about all that was asked for.
func (p *picker) wants(r Record) bool {
	if !p.f.bySubject() || r.Err != nil {
		return true
	}
	found := false
	for i := range r.Events {
		ev := &r.Events[i]
		p.name(&ev.Subject)
		found = found || p.wantsEvent(ev)
	}
	only := p.f
	only.Broker = nil
	return found || p.f.Broker != nil && !only.bySubject() && r.Node == *p.f.Broker && !r.Plug
}

// name learns that a topic is called as the filter says.
func (p *picker) name(s *Subject) {
	if s.TopicName != "" && s.TopicName == p.f.Topic {
		for _, id := range s.Topics {
			p.topics[id] = true
		}
	}
}

func (p *picker) wantsEvent(ev *Event) bool {
	f, s := &p.f, &ev.Subject
	if len(f.Types) > 0 && !slices.Contains(f.Types, ev.Type) {
		return false
	}
	if s.All {
		return true
	}
	return (f.Topic == "" || slices.ContainsFunc(s.Topics, func(id projections.TopicID) bool { return p.topics[id] })) &&
		(f.Group == "" || slices.Contains(s.Groups, f.Group)) &&
		(f.Txn == "" || slices.Contains(s.Txns, f.Txn)) &&
		(f.User == "" || slices.Contains(s.Users, f.User)) &&
		(f.Broker == nil || slices.Contains(s.Brokers, *f.Broker)) &&
		(f.Producer == nil || slices.Contains(s.Producers, *f.Producer))
}
