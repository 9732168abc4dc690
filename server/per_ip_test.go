package server

import (
	"math"
	"net/netip"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// An address has its number of connections, and gets another when one of them ends; what is
// set while the broker runs holds for who comes next.
func TestConnectionsPerIP(t *testing.T) {
	n := startNode(t, t.TempDir(), "max.connections.per.ip=2")
	first, second := dial(t, n.Addr()), dial(t, n.Addr())
	for _, c := range []*client{first, second} {
		c.ask(kmsg.NewPtrMetadataRequest())
	}
	dial(t, n.Addr()).closed()
	second.nc.Close()
	awaitCluster(t, n, "an address has one connection less", func() bool { return n.server.connsFrom("127.0.0.1") == 1 })
	dial(t, n.Addr()).ask(kmsg.NewPtrMetadataRequest())

	for _, tc := range []struct {
		op   string
		want int16
	}{
		{"SET max.connections.per.ip=0", 42},
		{"SET max.connections.per.ip=-1", 42},
		{"SET max.connections.per.ip.overrides=127.0.0.1", 42},
		{"SET max.connections.per.ip.overrides=somewhere:1", 42},
		{"SET max.connections.per.ip.overrides=127.0.0.1:x", 42},
		{"SET max.connections.per.ip.overrides=::1:1", 42},
		{"SET max.connections.per.ip.overrides=127.0.0.1:3, [::1]:1", 0},
		{"SET max.connections.per.ip=0", 0},
	} {
		if code := first.alter(ofBroker, "0", false, tc.op); code != tc.want {
			t.Errorf("%s: error %d, want %d", tc.op, code, tc.want)
		}
	}
	dial(t, n.Addr()).ask(kmsg.NewPtrMetadataRequest())
	dial(t, n.Addr()).closed()
}

func (s *Server) connsFrom(addr string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.from[netip.MustParseAddr(addr)]
}

func TestMostFrom(t *testing.T) {
	at := netip.MustParseAddr
	c := &Config{MaxPerIP: 0, PerIP: map[netip.Addr]int64{at("10.0.0.1"): 5}}
	if a, b := c.mostFrom(at("10.0.0.1")), c.mostFrom(at("10.0.0.2")); a != 5 || b != 0 {
		t.Errorf("%d and %d", a, b)
	}
	if got := (&Config{}).mostFrom(at("10.0.0.1")); got != math.MaxInt64 {
		t.Errorf("everybody is kept out but %d", got)
	}
	_, err := LoadConfig(Sources{Sets: []string{"max.connections.per.ip=0"}})
	if err == nil || !strings.Contains(err.Error(), "max.connections.per.ip") {
		t.Errorf("a broker that nobody can reach starts: %v", err)
	}
}
