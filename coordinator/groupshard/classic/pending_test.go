package classic

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/projections/groups"
)

// Of more IDs than may be pending those are forgotten that would be first anyway.
func TestPendingIsBounded(t *testing.T) {
	var p pendings
	now := time.Unix(1e9, 0)
	long := strings.Repeat("x", 10_000)
	p.add("short-lived", now.Add(time.Second))
	for i := range 1000 {
		p.add(fmt.Sprint(long, i), now.Add(time.Minute+time.Duration(i)))
	}
	if p.has("short-lived") || p.has(long+"0") || !p.has(long+"999") || p.bytes > mostPending {
		t.Errorf("%d IDs of %d bytes", p.due.Len(), p.bytes)
	}
	p.add(long+"999", now) // again: it has another time
	if _, at, _ := p.due.First(); !at.Equal(now) || !p.expire(now) || p.has(long+"999") || p.expire(now) {
		t.Errorf("first at %v", at)
	}
	p.expire(now.Add(time.Hour))
	if p.bytes != 0 || p.due.Len() != 0 {
		t.Errorf("%d bytes of nothing", p.bytes)
	}
}

// A group is told to be full when its members' metadata is; who is in it may stay.
func TestMetadataIsBounded(t *testing.T) {
	w := newWorld(t)
	large := func(n int) []groups.Protocol {
		return []groups.Protocol{{Name: "range", Metadata: make([]byte, n)}}
	}
	first := w.join(JoinRequest{Protocols: large(20 << 20)})
	w.fails(w.join(JoinRequest{Protocols: large(20 << 20)}), kerr.GroupMaxSizeReached)
	second := w.join(JoinRequest{Protocols: large(1 << 20)})
	w.pass(2 * delay)
	id := w.joined(first).MemberID
	w.joined(second)
	w.fails(w.join(JoinRequest{MemberID: id, Protocols: large(40 << 20)}), kerr.GroupMaxSizeReached)
	w.waits(w.join(JoinRequest{MemberID: id, Protocols: large(30 << 20)}))
	if got := w.g.Bytes(); got < 31<<20 || got > 31<<20+10_000 {
		t.Errorf("%d bytes", got)
	}
	w.g.Close(w.now, kerr.NotCoordinator)
	if got := w.g.Bytes(); got != ownWeight {
		t.Errorf("closed, it has %d bytes", got)
	}
}
