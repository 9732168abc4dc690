package consumer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections/groups"
)

// embedded is the protocol type of consumers, whose protocols' metadata can be read.
const embedded = "consumer"

// subscription reads what a classic member subscribes to. All its protocols say the same.
func subscription(ps []groups.Protocol) (kmsg.ConsumerMemberMetadata, error) {
	meta := kmsg.NewConsumerMemberMetadata()
	if len(ps) == 0 {
		return meta, errors.New("no protocols")
	}
	if err := meta.ReadFrom(ps[0].Metadata); err != nil {
		return meta, fmt.Errorf("subscription of protocol %q: %w", ps[0].Name, err)
	}
	return meta, nil
}

// ownedBy is what a subscription says that the member owns, of the topics that there are.
// Members that cannot say own nothing: they give up everything to join.
func ownedBy(meta kmsg.ConsumerMemberMetadata, t Topics) []groups.TopicPartitions {
	out := []groups.TopicPartitions{}
	for _, o := range meta.OwnedPartitions {
		if topic := t.Topic(o.Topic); topic != nil {
			out = append(out, groups.TopicPartitions{Topic: topic.ID, Partitions: o.Partitions})
		}
	}
	return out
}

// pack is an assignment as a classic member reads it, in the version of its subscription.
func pack(a groups.Assignment, version int16, t Topics) []byte {
	out := kmsg.NewConsumerMemberAssignment()
	out.Version = version
	for id, ps := range a {
		if topic := t.TopicByID(id); topic != nil {
			out.Topics = append(out.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: topic.Name, Partitions: ps})
		}
	}
	slices.SortFunc(out.Topics, func(a, b kmsg.ConsumerMemberAssignmentTopic) int { return cmp.Compare(a.Topic, b.Topic) })
	return out.AppendTo(nil)
}

// unpack reads what pack writes, and what clients do.
func unpack(b []byte, t Topics) (groups.Assignment, error) {
	out := groups.Assignment{}
	if len(b) == 0 {
		return out, nil // has none yet
	}
	in := kmsg.NewConsumerMemberAssignment()
	if err := in.ReadFrom(b); err != nil {
		return nil, err
	}
	if len(in.UserData) > 0 {
		return nil, errors.New("an assignor of its own keeps data in the assignment")
	}
	for _, a := range in.Topics {
		if topic := t.Topic(a.Topic); topic != nil {
			ps := slices.Clone(a.Partitions)
			slices.Sort(ps)
			put(out, topic.ID, either(out[topic.ID], slices.Compact(ps)))
		}
	}
	return out, nil
}
