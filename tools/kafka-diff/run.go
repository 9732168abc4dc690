package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// script is a series of requests. It does the same on both sides: what it asks may depend on
// an answer only where that is an ID.
type script struct {
	name string
	run  func(*side)
}

// scripts are all but the odd ones, in order.
var scripts = slices.Concat(wireScripts, clusterScripts, topicScripts, configScripts, produceScripts, fetchScripts, offsetScripts,
	classicScripts, consumerScripts, groupScripts, txnScripts)

// meet tells both sides what both serve, and waits until their coordinators can be found, for
// Kafka makes what they need when they are first asked for.
func meet(sides [2]*side) error {
	var told [2]map[int16]versions
	for i, s := range sides {
		told[i] = map[int16]versions{}
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 4, clientID, "1"
		resp, ok := s.quiet(req).(*kmsg.ApiVersionsResponse)
		if !ok {
			return errors.New("no answer to ApiVersions")
		}
		for _, k := range resp.ApiKeys {
			told[i][k.ApiKey] = versions{k.MinVersion, k.MaxVersion}
		}
		s.cluster = s.clusterID()
		s.symbols.cluster = s.cluster
		s.awaitCoordinators()
	}
	defer sides[0].meetEpochs()
	defer sides[1].meetEpochs()
	common := map[int16]versions{}
	for key, a := range told[0] {
		if b, ok := told[1][key]; ok && kmsg.RequestForKey(key) != nil && min(a.max, b.max) >= max(a.min, b.min) {
			common[key] = versions{max(a.min, b.min), min(a.max, b.max)}
		}
	}
	if v, ok := common[kmsg.Produce.Int16()]; ok {
		v.min = 3 // less is told only for the sake of a client
		common[kmsg.Produce.Int16()] = v
	}
	sides[0].common, sides[1].common = common, common
	return nil
}

// meetEpochs learns the leader epoch of a new partition, and the epoch of a new group's member.
func (s *side) meetEpochs() {
	s.create("first", 1)
	if resp := s.metadata("first"); resp != nil {
		s.symbols.firstEpoch = int64(resp.Topics[0].Partitions[0].LeaderEpoch)
	}
	if resp, ok := s.quiet(pulse(1, "first", ownMember+"first", 0, subscribing("first"))).(*kmsg.ConsumerGroupHeartbeatResponse); ok {
		s.symbols.firstMember = int64(resp.MemberEpoch)
	}
}

// epoch is the leader epoch that is so many after a new partition's.
func (s *side) epoch(n int32) int32 {
	if n < 0 {
		return n
	}
	return n + int32(s.symbols.firstEpoch)
}

func (s *side) clusterID() string {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	resp, ok := s.quiet(req).(*kmsg.MetadataResponse)
	if !ok || resp.ClusterID == nil {
		return ""
	}
	return *resp.ClusterID
}

func (s *side) awaitCoordinators() {
	s.until("producer IDs", func() bool {
		resp, ok := s.quiet(kmsg.NewPtrInitProducerIDRequest()).(*kmsg.InitProducerIDResponse)
		return ok && resp.ErrorCode == 0
	})
	for kind := range int8(2) {
		for i := range 64 { // of every shard
			s.until("a coordinator", func() bool {
				req := kmsg.NewPtrFindCoordinatorRequest()
				req.Version, req.CoordinatorType, req.CoordinatorKey = 3, kind, fmt.Sprint("warm-", i)
				resp, ok := s.quiet(req).(*kmsg.FindCoordinatorResponse)
				return ok && resp.ErrorCode == 0
			})
		}
	}
}

// runAll runs the scripts, each on both sides at the same time.
func runAll(ctx context.Context, sides [2]*side, scripts []script, only *regexp.Regexp) error {
	for _, sc := range scripts {
		if !only.MatchString(sc.name) {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var wg sync.WaitGroup
		for _, s := range sides {
			wg.Go(func() { s.run(sc) })
		}
		wg.Wait()
	}
	return nil
}

// compareSteps compares what two sides have answered.
func compareSteps(kafka, kaas []step) (out []difference) {
	for i := range max(len(kafka), len(kaas)) {
		if i >= len(kafka) || i >= len(kaas) || kafka[i].label != kaas[i].label || kafka[i].api() != kaas[i].api() || kafka[i].script != kaas[i].script {
			d := difference{script: "all", step: fmt.Sprint("step ", i), api: "connection", path: "the scripts run apart", kafka: none, kaas: none}
			if i < len(kafka) {
				d.kafka = kafka[i].script + ": " + kafka[i].label + ": " + kafka[i].api()
			}
			if i < len(kaas) {
				d.kaas = kaas[i].script + ": " + kaas[i].label + ": " + kaas[i].api()
			}
			return append(out, d)
		}
		st := &kafka[i]
		differ("", st.answer, kaas[i].answer, func(path, a, b string) {
			out = append(out, difference{st.script, st.label, st.api(), path, a, b})
		})
	}
	return out
}

// unasked is what both serve and no script has asked for.
func unasked(s *side) (out []string) {
	asked := map[step]bool{}
	for _, st := range s.steps {
		asked[step{key: st.key, version: st.version}] = true
	}
	for key, r := range s.common {
		for v := r.min; v <= r.max; v++ {
			if !asked[step{key: key, version: v}] {
				out = append(out, (&step{key: key, version: v}).api())
			}
		}
	}
	slices.Sort(out)
	return out
}

func printSteps(out io.Writer, sides [2]*side) {
	for i := range min(len(sides[0].steps), len(sides[1].steps)) {
		a, b := &sides[0].steps[i], &sides[1].steps[i]
		fmt.Fprintf(out, "%s: %s: %s\n\tkafka %s\n", a.script, a.label, a.api(), a.answer.brief())
		if kaas := b.answer.brief(); kaas != a.answer.brief() {
			fmt.Fprintf(out, "\tkaas  %s\n", kaas)
		}
	}
}
