package server

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/server/acl"
)

// fetchAllowed is what is known of who may fetch what. Partitions of a topic mostly stand
// together, so that the last decision does for the next one.
type fetchAllowed struct {
	follower bool  // the request is a replica's
	all      error // why nothing may be fetched at all
	last     string
	denied   error // the topic that is called last
}

// authorize has the audit log tell, once for each request, of what is fetched, and decides on
// replicas, whom only the brokers may send.
func (c *fetchCall) authorize() {
	if c.asker.subject == nil {
		return
	}
	if c.req.ReplicaID >= 0 || c.req.ReplicaState.ID >= 0 {
		if c.allowed.follower = true; !c.asker.mayCluster(acl.ClusterAction) {
			c.allowed.all = kerr.TopicAuthorizationFailed // as Kafka tells replicas
		}
		return
	}
	view := c.s.backend.View()
	for i := range c.from {
		f := &c.from[i]
		if i > 0 && f.id == c.from[i-1].id && f.name == c.from[i-1].name {
			continue
		}
		name := f.name
		if t := view.TopicByID(f.id); t != nil {
			name = t.Name
		}
		if name != "" {
			c.asker.may(acl.Read, acl.Topic, name)
		}
	}
}

// denied is why a topic may not be fetched from, or nil.
func (c *fetchCall) denied(topic string) error {
	a := &c.allowed
	switch {
	case c.asker.subject == nil, a.all != nil, a.follower:
		return a.all
	case topic == a.last && topic != "":
		return a.denied
	}
	a.last, a.denied = topic, nil
	if !c.asker.subject.Allows(acl.Read, acl.Topic, topic) {
		a.denied = kerr.TopicAuthorizationFailed
	}
	return a.denied
}

// unknownOrDenied is what is told of a name that is nobody's: not even that to whom may not
// read it.
func (c *fetchCall) unknownOrDenied(topic string) error {
	if err := c.denied(topic); err != nil {
		return err
	}
	return kerr.UnknownTopicOrPartition
}
