package main

import (
	"bytes"
	"fmt"
	"math"
	"net"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// symbols replaces what two brokers cannot have in common: IDs that they make, ports, times,
// directories, and the wording of messages. The same ID is the same symbol everywhere, so that
// it can still be told whether two answers mean the same thing.
type symbols struct {
	port        int64
	firstEpoch  int64  // the leader epoch of a new partition
	firstMember int64  // the epoch of the first member of a consumer group
	address     string // of the broker
	dir         string // of the brokers
	cluster     string
	began       time.Time

	ids       map[[16]byte]string
	names     map[string]int // how many topics of a name have been seen
	members   map[string]string
	producers map[int64]string
	sessions  map[int64]string
}

func newSymbols(address, dir string, began time.Time) *symbols {
	_, port, _ := net.SplitHostPort(address)
	n, _ := strconv.ParseInt(port, 10, 64)
	return &symbols{
		port: n, address: address, dir: dir, began: began,
		ids: map[[16]byte]string{}, names: map[string]int{}, members: map[string]string{}, producers: map[int64]string{}, sessions: map[int64]string{},
	}
}

// learn finds the names of topics beside their IDs, wherever they stand in an answer, so that
// it does not matter in which order IDs are met.
func (s *symbols) learn(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			s.learn(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			s.learn(v.Index(i))
		}
	case reflect.Struct:
		if id, name := v.FieldByName("TopicID"), topicName(v); id.IsValid() && name != "" {
			if id, ok := id.Interface().([16]byte); ok {
				s.name(id, name)
			}
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				s.learn(v.Field(i))
			}
		}
	}
}

func topicName(v reflect.Value) string {
	for _, f := range []string{"Topic", "TopicName"} {
		switch name := v.FieldByName(f); {
		case !name.IsValid():
		case name.Kind() == reflect.String:
			return name.String()
		case name.Kind() == reflect.Pointer && !name.IsNil() && name.Elem().Kind() == reflect.String:
			return name.Elem().String()
		}
	}
	return ""
}

func (s *symbols) name(id [16]byte, topic string) {
	if s.ids[id] != "" || id == ([16]byte{}) {
		return
	}
	s.names[topic]++
	s.ids[id] = fmt.Sprintf("<id of %s>", topic)
	if n := s.names[topic]; n > 1 {
		s.ids[id] = fmt.Sprintf("<id %d of %s>", n, topic)
	}
}

func (s *symbols) id(id [16]byte) string {
	if id == ([16]byte{}) {
		return "0"
	}
	if s.ids[id] == "" {
		if id[0] == foreignID || bytes.Equal(id[:15], make([]byte, 15)) { // one that a script has made up
			return fmt.Sprintf("%x", id)
		}
		s.ids[id] = fmt.Sprintf("<id %d>", len(s.ids)+1)
	}
	return s.ids[id]
}

// foreignID begins the topic IDs that scripts make up.
const foreignID = 0xf0

var (
	// madeID is the ID that a broker makes, at the end of a member's ID.
	madeID    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	madeShort = regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`)
	messages  = regexp.MustCompile(`(Message|Documentation)$`)
)

func (s *symbols) text(name, v string) string {
	switch {
	case messages.MatchString(name) && v != "":
		return "<text>"
	case v != "" && v == s.cluster:
		return "<cluster>"
	case name == "Dir" || name == "LogDir":
		return "<directory>"
	case strings.HasPrefix(v, ownMember):
		return strconv.Quote(v)
	case strings.Contains(v, s.address):
		return strconv.Quote(strings.ReplaceAll(v, s.address, "<address>"))
	case strings.Contains(v, s.dir):
		return "<directory>"
	case madeID.MatchString(v):
		at := madeID.FindStringIndex(v)[0]
		return v[:at] + s.symbol(s.members, v[at:], "member")
	case madeShort.MatchString(v) && name == "MemberID":
		return s.symbol(s.members, v, "member")
	}
	return strconv.Quote(v)
}

// ownMember begins the IDs of members that scripts make up.
const ownMember = "own-"

func (s *symbols) symbol(in map[string]string, v, kind string) string {
	if in[v] == "" {
		in[v] = fmt.Sprintf("<%s %d>", kind, len(in)+1)
	}
	return in[v]
}

// near is how far a time may be from the clock to be taken for the present.
const near = 2 * time.Hour

func (s *symbols) number(name string, v int64) string {
	now := s.began.UnixMilli()
	switch {
	case name == "Port" && v == s.port:
		return "<port>"
	case name == "ProducerID" && v >= 0 && v < foreignProducer:
		return symbolOf(s.producers, v, "producer")
	case leaderEpochs[name] && v >= s.firstEpoch:
		return strconv.FormatInt(v-s.firstEpoch, 10)
	case memberEpochs[name] && v >= s.firstMember:
		return strconv.FormatInt(v-s.firstMember+1, 10)
	case name == "SessionID" && v > 100:
		return symbolOf(s.sessions, v, "session")
	case name == "BrokerEpoch" && v > 0:
		return "<epoch>"
	case name == "FinalizedFeaturesEpoch" && v >= 0:
		return "<epoch>"
	case (name == "TotalBytes" || name == "UsableBytes") && v > 0:
		return "<bytes>"
	case v > now-near.Milliseconds() && v < now+near.Milliseconds():
		return "<now>"
	case v == math.MaxInt64:
		return "max"
	}
	return strconv.FormatInt(v, 10)
}

// leaderEpochs are the fields that hold one. They are told from a new partition's on.
var leaderEpochs = map[string]bool{"LeaderEpoch": true, "PartitionLeaderEpoch": true, "CurrentLeaderEpoch": true, "CoordinatorEpoch": true}

// memberEpochs are those of a consumer group and of what is in it.
var memberEpochs = map[string]bool{"MemberEpoch": true, "Epoch": true, "AssignmentEpoch": true, "GenerationIDOrMemberEpoch": true}

// foreignProducer is the first of the producer IDs that scripts make up.
const foreignProducer = 1 << 40

func symbolOf(in map[int64]string, v int64, kind string) string {
	if in[v] == "" {
		in[v] = fmt.Sprintf("<%s %d>", kind, len(in)+1)
	}
	return in[v]
}
