package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/substrate"
)

// What a client is told beside a code has nothing of where brokers and files are, but the words
// that the code has; what is about the client's own request is told.
func TestMessageTellsNothingInner(t *testing.T) {
	path := &fs.PathError{Op: "open", Path: "/volume/topics/x/0/1.log", Err: errors.New("stale file handle")}
	for _, err := range []error{
		path,
		fmt.Errorf("%w: %w", kerr.KafkaStorageError, path),
		fmt.Errorf("%w: %w", kerr.RequestTimedOut, path),
		fmt.Errorf("%w: %w", kerr.NotController, path),
		fmt.Errorf("%w: %w", kerr.NotLeaderForPartition, path),
		fmt.Errorf("%w: %w", kerr.CoordinatorNotAvailable, path),
		fmt.Errorf("%w: %w", kerr.UnknownServerError, path),
		fmt.Errorf("%w: %w", path, context.DeadlineExceeded),
		fmt.Errorf("%w: %w", path, substrate.ErrFenced),
		errors.Join(path, context.Canceled),
	} {
		if got, want := *message(err), kerr.ErrorForCode(codeOf(err)).Error(); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	s := &Server{metrics: newMetrics(), log: testLog(t)}
	if code, got := s.groupTold(kmsg.DeleteGroups, path); code != kerr.NotCoordinator.Code || *got != kerr.NotCoordinator.Error() {
		t.Errorf("of a group: %d, %q", code, *got)
	}
	for err, want := range map[error]string{
		fmt.Errorf("%w: no such cleaner", kerr.InvalidConfig): "no such cleaner",
		kerr.InvalidConfig: kerr.InvalidConfig.Error(),
	} {
		if got := message(err); *got != want {
			t.Errorf("%v: %q", err, *got)
		}
	}
	if message(nil) != nil {
		t.Error("there is a message without an error")
	}
}

// The log has the causes, a bounded number of lines of them.
func TestCausesAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := &Server{metrics: newMetrics(), log: slog.New(slog.NewTextHandler(&out, nil))}
		for range 1000 {
			s.failure(kmsg.CreateTopics, fmt.Errorf("%w: ask broker at 10.0.0.3", kerr.NotController))
			s.failure(kmsg.CreateTopics, kerr.NotController)
			s.failure(kmsg.CreateTopics, kerr.InvalidConfig)
			s.groupFailure(kmsg.Heartbeat, fmt.Errorf("open /volume/x: %s", strings.Repeat("!", 10_000)))
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if n := strings.Count(out.String(), "10.0.0.3"); n != seldomBurst {
			t.Errorf("%d lines of one kind", n)
		}
		if n := strings.Count(out.String(), "/volume/x"); n != seldomBurst || len(lines) != 2*seldomBurst || out.Len() > 2*seldomBurst*(longestCause+300) {
			t.Errorf("%d lines of the other, of %d with %d bytes", n, len(lines), out.Len())
		}
	})
}
