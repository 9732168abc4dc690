package server

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What one request makes is bounded, over all of its topics, and a request that would make more
// makes nothing, whomever it asks. The codes are those of Apache Kafka 4.4.
func TestTooManyPartitions(t *testing.T) {
	n := startNode(t, t.TempDir(), "num.partitions=10000")
	first := dial(t, n.Addr())
	first.create("there.is", 1)
	first.create("grows", 2)
	follower := dial(t, startFollower(t, n, "num.partitions=10000").addr)
	topic := func(name string, partitions int32, configs ...string) kmsg.CreateTopicsRequestTopic {
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, partitions, 1
		for _, value := range configs {
			rt.Configs = append(rt.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: "retention.ms", Value: &value})
		}
		return rt
	}
	for what, tc := range map[string]struct {
		topics []kmsg.CreateTopicsRequestTopic
		codes  []int16
	}{
		"as many as may be":              {[]kmsg.CreateTopicsRequestTopic{topic("a", 9000, "1000"), topic("b", 997), topic("there.is", 1)}, []int16{0, 0, 36}},
		"one more, by a configuration":   {[]kmsg.CreateTopicsRequestTopic{topic("a", 9000, "1000"), topic("b", 998)}, []int16{44, 44}},
		"in one topic":                   {[]kmsg.CreateTopicsRequestTopic{topic("a", 9999)}, []int16{0}},
		"one more in one topic":          {[]kmsg.CreateTopicsRequestTopic{topic("a", 10_000)}, []int16{44}},
		"the broker's number":            {[]kmsg.CreateTopicsRequestTopic{topic("a", 1), topic("b", -1)}, []int16{44, 44}},
		"a sum that does not fit":        {[]kmsg.CreateTopicsRequestTopic{topic("a", 1<<31-1), topic("b", 1<<31-1), topic("c", 2)}, []int16{44, 44, 44}},
		"of a topic that is there":       {[]kmsg.CreateTopicsRequestTopic{topic("there.is", 10_001), topic("a", 1)}, []int16{44, 44}},
		"of what stands twice":           {[]kmsg.CreateTopicsRequestTopic{topic("a", 1), topic("b", 9000), topic("b", 9000)}, []int16{0, 42}},
		"of what cannot be made anyway":  {[]kmsg.CreateTopicsRequestTopic{topic("a", 9000), topic("a b", 1000)}, []int16{0, 17}},
		"beside what is no number of it": {[]kmsg.CreateTopicsRequestTopic{topic("a", 9999), topic("b", -2), topic("c", 0)}, []int16{0, 37, 37}},
	} {
		for _, c := range []*client{first, follower} {
			for _, only := range []bool{true, false} {
				if !only && !slices.Contains(tc.codes, 44) {
					continue // these many would be made
				}
				req := kmsg.NewPtrCreateTopicsRequest()
				req.Version, req.TimeoutMillis, req.ValidateOnly, req.Topics = 7, 10_000, only, tc.topics
				var codes []int16
				for _, rt := range c.ask(req).(*kmsg.CreateTopicsResponse).Topics {
					if codes = append(codes, rt.ErrorCode); rt.ErrorCode != 0 && or(rt.ErrorMessage, "") == "" {
						t.Errorf("%s: no message", what)
					}
				}
				if !slices.Equal(codes, tc.codes) {
					t.Errorf("%s: %v, want %v", what, codes, tc.codes)
				}
			}
		}
	}
	for what, tc := range map[string]struct {
		topics []kmsg.CreatePartitionsRequestTopic
		codes  []int16
	}{
		"as many as may be": {[]kmsg.CreatePartitionsRequestTopic{growTo("grows", 9002), growTo("there.is", 1001), growTo("none", 50_000)}, []int16{0, 0, 3}},
		"one more":          {[]kmsg.CreatePartitionsRequestTopic{growTo("grows", 9002), growTo("there.is", 1002), growTo("none", 5)}, []int16{44, 44, 44}},
		"twice":             {[]kmsg.CreatePartitionsRequestTopic{growTo("grows", 20_000), growTo("grows", 20_000), growTo("there.is", 0)}, []int16{42, 37}},
	} {
		for _, c := range []*client{first, follower} {
			for _, only := range []bool{true, false} {
				if !only && slices.Contains(tc.codes, 0) {
					continue
				}
				var codes []int16
				for _, rt := range c.growAll(only, tc.topics...) {
					codes = append(codes, rt.ErrorCode)
				}
				if !slices.Equal(codes, tc.codes) {
					t.Errorf("growth, %s: %v, want %v", what, codes, tc.codes)
				}
			}
		}
	}
	for _, c := range []*client{first, follower} {
		if got := c.ask(metadataReq(9, true, "by-itself")).(*kmsg.MetadataResponse).Topics[0]; got.ErrorCode != 3 {
			t.Errorf("a topic that would be made by itself: %+v", got)
		}
	}
	all := kmsg.NewPtrMetadataRequest()
	all.Version = 9
	got := map[string]int{}
	for _, rt := range first.ask(all).(*kmsg.MetadataResponse).Topics {
		got[*rt.Topic] = len(rt.Partitions)
	}
	if len(got) != 2 || got["grows"] != 2 || got["there.is"] != 1 {
		t.Errorf("there are %v", got)
	}
}
