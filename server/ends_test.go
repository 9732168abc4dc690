package server

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
)

// Connections by the hundred that end for what they sent are a few lines in the log, which
// say how many there were, and hide none that failed to authenticate.
func TestEndsAreLoggedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &lockedBuffer{}
		cfg := testConfig(t, "unused", saslSets("listeners=SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0")...)
		s := Start(cfg, "cluster", users{view: projections.NewCluster()}, nil, newMetrics(), slog.New(slog.NewTextHandler(log, nil)))
		ends := func(listener, times int, raw []byte) {
			for range times {
				c := s.pipeTo(t, listener)
				_, _ = c.nc.Write(raw)
				c.closed()
			}
			synctest.Wait()
		}
		lines := func(part string) int { return strings.Count(log.String(), part) }
		garbage, early := []byte("GET / HTTP/1.1"), frame(kmsg.NewPtrMetadataRequest(), 1)
		ends(1, 100, garbage)
		if got := lines("out of bounds"); got != seldomBurst {
			t.Errorf("a hundred times nonsense: %d lines", got)
		}
		ends(0, 100, early)
		if got := lines("has not authenticated"); got != seldomBurst {
			t.Errorf("a hundred clients that do not authenticate: %d lines", got)
		}
		for range 100 {
			_, _ = s.pipeTo(t, 1).nc.Write([]byte{0, 0})
		}
		time.Sleep(pieceTimeout)
		synctest.Wait()
		if got := lines("i/o timeout"); got != seldomBurst {
			t.Errorf("a hundred that are silent within a request: %d lines", got)
		}
		ends(1, 1, garbage)
		if lines("not_logged_before=95") != 1 || lines("out of bounds") != seldomBurst+1 {
			t.Errorf("later:\n%s", log.String())
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Shutdown(ctx)
	})
}
