package coordinator

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
)

// strangers lets nobody in.
type strangers struct{ *network }

func (strangers) Ask(context.Context, projections.Listener, kmsg.Request) (kmsg.Response, error) {
	return nil, fmt.Errorf("ask broker at h: %w: SCRAM: invalid-proof", kerr.SaslAuthenticationFailed)
}

// A broker that the others do not let in says so itself, in its log, once, and to who asks whether
// it is ready.
func TestWhoIsNotLetInSaysSo(t *testing.T) {
	dir := t.TempDir()
	v, _ := mount(t, dir)
	start(t, v, options(t))
	var mu sync.Mutex
	var log bytes.Buffer
	var why []string
	opt := options(t)
	opt.NodeID, opt.Peers = 2, strangers{&network{}}
	opt.Log = slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))
	opt.Waiting = func(err error) {
		mu.Lock()
		defer mu.Unlock()
		why = append(why, fmt.Sprint(err))
	}
	v2, _ := mount(t, dir)
	began, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if b, err := Start(began, v2, opt); err == nil {
			t.Error("it has started")
			_ = b.Stop(t.Context())
		}
	})
	defer wg.Wait()
	defer cancel()
	eventually(t, "it is told more than once", func() bool {
		mu.Lock()
		defer mu.Unlock()
		n := 0
		for _, w := range why {
			if strings.Contains(w, "has not registered") && strings.Contains(w, "invalid-proof") {
				n++
			}
		}
		return n > 2
	})
	mu.Lock()
	defer mu.Unlock()
	if n := strings.Count(log.String(), "does not let this broker in"); n != 1 || !strings.Contains(log.String(), "invalid-proof") {
		t.Errorf("the log says so %d times:\n%s", n, log.String())
	}
}
