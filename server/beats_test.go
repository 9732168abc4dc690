package server

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The end of the connection that carried a broker's newest heartbeat is told, once, and
// that of an older one is not.
func TestHeartbeatConnections(t *testing.T) {
	n := startNode(t, t.TempDir())
	self, _ := n.broker.View().Broker(0)
	type loss struct {
		id    int32
		epoch int64
	}
	lost := make(chan loss, 10)
	addr := serveAlso(t, &another{Backend: broker{n.broker}, lost: func(id int32, epoch int64) { lost <- loss{id, epoch} }}, n.server.clusterID)[0]
	beat := func(c *client, epoch int64) int16 {
		req := kmsg.NewPtrBrokerHeartbeatRequest()
		req.Version, req.BrokerID, req.BrokerEpoch = 2, 0, epoch
		return c.ask(req).(*kmsg.BrokerHeartbeatResponse).ErrorCode
	}
	none := func(why string) {
		t.Helper()
		select {
		case l := <-lost:
			t.Fatalf("%s: %+v", why, l)
		case <-time.After(50 * time.Millisecond):
		}
	}
	await := func(why string) {
		t.Helper()
		select {
		case l := <-lost:
			if l != (loss{0, self.Epoch}) {
				t.Errorf("%s: %+v", why, l)
			}
		case <-time.After(patience):
			t.Fatalf("%s: nothing is told", why)
		}
	}
	a, b, idle, stale := dial(t, addr), dial(t, addr), dial(t, addr), dial(t, addr)
	for range 3 {
		if code := beat(a, self.Epoch); code != 0 {
			t.Fatal(kerr.ErrorForCode(code))
		}
	}
	idle.ask(kmsg.NewPtrMetadataRequest())
	idle.nc.Close()
	if code := beat(stale, self.Epoch+1); code != kerr.StaleBrokerEpoch.Code {
		t.Error(code)
	}
	stale.nc.Close()
	none("connections without a heartbeat that counts")
	if code := beat(b, self.Epoch); code != 0 {
		t.Fatal(code)
	}
	a.nc.Close()
	none("a connection that another has followed")
	b.nc.Close()
	await("the newest")
	none("twice")
	c := dial(t, addr)
	beat(c, self.Epoch)
	c.nc.Close()
	await("once more")
}

func TestBeatsKeepTheNewest(t *testing.T) {
	var b beats
	at := time.Now()
	a, c := &conn{}, &conn{}
	b.note(1, beat{epoch: 5, at: at, conn: a})
	b.note(1, beat{epoch: 4, at: at.Add(time.Second), conn: c}) // of an earlier registration
	b.note(1, beat{epoch: 5, at: at.Add(-time.Second), conn: c})
	b.note(2, beat{epoch: 9, at: at, conn: a})
	if got := b.ended(c); len(got) != 0 {
		t.Errorf("%v", got)
	}
	b.note(2, beat{epoch: 10, at: at.Add(-time.Second), conn: c}) // of a later one
	if got := b.ended(a); len(got) != 1 || got[1] != 5 {
		t.Errorf("%v", got)
	}
	if got := b.ended(c); len(got) != 1 || got[2] != 10 {
		t.Errorf("%v", got)
	}
	if got := b.ended(c); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// A broker that stops closes its connections itself, which tells nothing of the others.
func TestStopTellsNothingOfOthers(t *testing.T) {
	n := startNode(t, t.TempDir())
	self, _ := n.broker.View().Broker(0)
	b := &another{Backend: broker{n.broker}, lost: func(id int32, _ int64) { t.Errorf("broker %d is told to be lost", id) }}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := Start(testConfig(t, "unused"), n.server.clusterID, b, []net.Listener{ln}, newMetrics(), testLog(t))
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.BrokerEpoch = self.Epoch
	c := dial(t, ln.Addr().String())
	if resp := c.ask(req).(*kmsg.BrokerHeartbeatResponse); resp.ErrorCode != 0 {
		t.Error(kerr.ErrorForCode(resp.ErrorCode))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	s.Shutdown(ctx)
	c.closed()
}
