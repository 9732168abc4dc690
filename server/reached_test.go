package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"kaas.dev/kaas/projections"
)

// A broker does not take part before what it advertises leads to it, unless that takes too
// long; it says meanwhile what it waits for.
func TestStartAwaitsWhatIsAdvertised(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().(*net.TCPAddr)
	free.Close()
	ls := []projections.Listener{{Name: "A", Host: "127.0.0.1", Port: int32(addr.Port)}}
	n := &Node{cfg: &Config{AdvertisedWait: time.Minute}, log: slog.New(slog.DiscardHandler)}
	done := make(chan struct{})
	go func() { n.awaitReached(context.Background(), ls); close(done) }()
	for n.waits.Load() == nil {
		time.Sleep(time.Millisecond)
	}
	if err := n.notReady(); err == nil || err.Error() != fmt.Sprintf("the broker cannot be reached yet by what it advertises, 127.0.0.1:%d", addr.Port) {
		t.Errorf("not ready: %v", err)
	}
	select {
	case <-done:
		t.Fatal("it did not wait")
	case <-time.After(3 * reachEvery):
	}
	ln, err := net.ListenTCP("tcp", addr)
	if err != nil {
		t.Skip("somebody else has taken the port: ", err)
	}
	defer ln.Close()
	<-done
	ln.Close()
	n.cfg.AdvertisedWait = 2 * reachEvery
	n.awaitReached(context.Background(), ls) // ends
	n.cfg.AdvertisedWait = 0
	n.awaitReached(context.Background(), ls)
}
