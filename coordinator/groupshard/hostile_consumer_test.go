package groupshard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/coordinator/groupshard/consumer"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
)

func hostileBeat(group, member string, names int) consumer.HeartbeatRequest {
	r := consumer.HeartbeatRequest{GroupID: group, Version: 1, MemberID: member, ClientID: "c", Host: "/10.0.0.1", RebalanceTimeout: time.Minute,
		Topics: []string{}, Owned: []groups.TopicPartitions{}}
	for i := range names { // of 32 KiB each: few, for each of them is looked up
		r.Topics = append(r.Topics, fmt.Sprint(member, i, strings.Repeat("t", 32<<10)))
	}
	return r
}

// Members of the next-generation protocol that subscribe to a lot take no more than a group may
// have, and all groups of a shard no more than it may. Who is there goes on.
func TestHostileSubscriptions(t *testing.T) {
	sh := newBench(t).owner(1)
	beat := func(group, member string, names int) error {
		_, err := sh.ConsumerHeartbeat(t.Context(), hostileBeat(group, member, names))
		return err
	}
	if err := beat("normal", "n", 1); err != nil {
		t.Fatal(err)
	}
	var err error
	for i := 0; i < 60 && err == nil; i++ {
		err = beat("g", fmt.Sprint("m", i), 1<<5)
	}
	if !errors.Is(err, kerr.GroupMaxSizeReached) {
		t.Errorf("one group: %v", err)
	}
	for err = nil; err == nil; { // a member that grows is one more
		err = beat("grows", "m", 1<<5)
		if err == nil {
			err = beat("grows", "m", 33<<5)
		}
	}
	if !errors.Is(err, kerr.GroupMaxSizeReached) {
		t.Errorf("a member that grows: %v", err)
	}
	err = nil
	for i := 0; i < 100 && err == nil; i++ {
		err = beat(fmt.Sprint("g", i), "m", 1<<5)
	}
	if !errors.Is(err, kerr.CoordinatorNotAvailable) {
		t.Errorf("all groups: %v", err)
	}
	sum := int64(0)
	for g := range sh.w.Committed().State.Groups() {
		sum += consumer.Bytes(g.Consumer)
	}
	sh.mu.Lock()
	if sum != sh.mu.shares.total || sum > mostLive {
		t.Errorf("groups have %d bytes, counted are %d", sum, sh.mu.shares.total)
	}
	sh.mu.Unlock()
	go1 := hostileBeat("normal", "n", 1)
	go1.MemberEpoch, go1.Topics, go1.Owned = 1, nil, nil
	if _, err := sh.ConsumerHeartbeat(t.Context(), go1); err != nil {
		t.Errorf("a member that is there: %v", err)
	}
	leave := hostileBeat("g", "m0", 0)
	leave.MemberEpoch = -1
	if _, err := sh.ConsumerHeartbeat(t.Context(), leave); err != nil {
		t.Fatal(err)
	}
	if err := beat("g", "again", 28); err != nil {
		t.Errorf("when somebody has left: %v", err)
	}
}

// A pattern that is large, or would be once it is compiled, is none that a group can have, and
// patterns that members had before are not remembered without end.
func TestHostilePatterns(t *testing.T) {
	sh := newBench(t).owner(1)
	beat := func(pattern string) error {
		r := hostileBeat("g", "m", 0)
		r.Topics, r.Regex = nil, &pattern
		_, err := sh.ConsumerHeartbeat(t.Context(), r)
		return err
	}
	for what, p := range map[string]string{"long": strings.Repeat("x", 1<<20), "many when compiled": "(" + strings.Repeat("a?", 3000) + "){900}", "nested": "((a{30}b?){30}c?){1000}"} {
		began := time.Now()
		if err := beat(p); !errors.Is(err, kerr.InvalidRegularExpression) {
			t.Errorf("%s: %v", what, err)
		}
		t.Logf("%s: %v", what, time.Since(began))
	}
	got := grown(func() {
		for i := range 300 { // long, and little once they are compiled
			if err := beat("[" + strings.Repeat("x", 60<<10) + "]" + fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
	})
	if t.Logf("300 patterns: %d KiB", got>>10); got > 10<<20 {
		t.Errorf("%d MiB of patterns are kept", got>>20)
	}
}

// holding describes a topic to nobody before it is let go on.
type holding struct {
	begun, hold chan struct{}
	once        *sync.Once
}

func (h holding) Who() any { return h }

func (h holding) Describes(string) bool {
	h.once.Do(func() { close(h.begun) })
	<-h.hold
	return true
}

// While patterns are matched, which takes as long as there are topics, the other groups of the
// shard go on: also what has to be committed.
func TestPatternsKeepNobodyWaiting(t *testing.T) {
	b := newBench(t)
	b.topic("t", 1)
	h := holding{make(chan struct{}), make(chan struct{}), &sync.Once{}}
	b.conf.Consumer.Describer = func(m *groups.ConsumerMember) consumer.Describer { return h }
	sh := b.owner(1)
	slow := hostileBeat("slow", "m", 0)
	pattern := "t.*"
	slow.Topics, slow.Regex, slow.Principal = nil, &pattern, "User:slow"
	done := make(chan error, 1)
	go func() {
		_, err := sh.ConsumerHeartbeat(context.Background(), slow)
		done <- err
	}()
	<-h.begun
	other := hostileBeat("g", "m", 1)
	if a, err := sh.ConsumerHeartbeat(t.Context(), other); err != nil || a.MemberEpoch == 0 {
		t.Errorf("another group meanwhile: %+v, %v", a, err)
	}
	other.Topics, other.Regex = nil, &pattern
	if _, err := sh.ConsumerHeartbeat(t.Context(), other); err != nil {
		t.Errorf("another pattern meanwhile: %v", err)
	}
	close(h.hold)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if g := sh.group("slow"); g == nil || len(g.Consumer.Members) != 1 || len(g.Consumer.Target["m"]) != 1 {
		t.Errorf("the group is %+v", g)
	}
}

// What is decided while the shard waits matches nothing: topics that have come meanwhile are
// matched first, and who cannot keep up with them is to try again.
func TestPatternsAreMatchedBefore(t *testing.T) {
	b := newBench(t)
	b.topic("t", 1)
	old := b.view
	b.topic("t2", 1)
	sh := b.owner(1)
	views := 0 // that are old
	sh.opt.View = func() *projections.Cluster {
		if views--; views >= 0 && views%2 == 0 {
			return old
		}
		return b.view
	}
	beat := func(changes int) error {
		r := hostileBeat(fmt.Sprint("g", changes), "m", 0)
		pattern := fmt.Sprintf("t.*|x%d", changes)
		r.Topics, r.Regex = nil, &pattern
		views = changes
		_, err := sh.ConsumerHeartbeat(t.Context(), r)
		return err
	}
	if err := beat(5); err != nil {
		t.Error(err)
	} else if got := len(sh.group("g5").Consumer.Target["m"]); got != 2 {
		t.Errorf("%d topics of 2", got)
	}
	if err := beat(1000); !errors.Is(err, kerr.CoordinatorNotAvailable) {
		t.Errorf("topics that change without end: %v", err)
	}
}
