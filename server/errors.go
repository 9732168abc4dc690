package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/substrate"
)

// codeOf is the error code that a client is told for err. What the packages below
// do not name is the volume's trouble, which clients try again.
func codeOf(err error) int16 {
	var ke *kerr.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ke):
		return ke.Code
	case errors.Is(err, context.DeadlineExceeded):
		return kerr.RequestTimedOut.Code
	case errors.Is(err, substrate.ErrFenced), errors.Is(err, context.Canceled):
		// Another broker has taken over, or this one stops: look for the leader again.
		return kerr.NotLeaderForPartition.Code
	default:
		return kerr.KafkaStorageError.Code
	}
}

// failure is codeOf, counted and, where it is the broker's own trouble, logged.
func (s *Server) failure(key kmsg.Key, err error) int16 {
	code := codeOf(err)
	if code == 0 {
		return 0
	}
	s.metrics.failed(key, code)
	s.logCause(key, code, err)
	return code
}

// logCause logs what clients are not told of a failure. Anybody can bring one about as often as he
// likes: what is logged of them is bounded.
func (s *Server) logCause(key kmsg.Key, code int16, err error) {
	level, of := slog.LevelInfo, &s.causes
	switch code {
	case kerr.KafkaStorageError.Code, kerr.UnknownServerError.Code:
		level, of = slog.LevelError, &s.failures
	case kerr.NotController.Code, kerr.RequestTimedOut.Code, kerr.CoordinatorNotAvailable.Code:
		if _, ok := err.(*kerr.Error); ok { // there is no more to it
			return
		}
	default:
		return
	}
	if passed, ok := of.allow(time.Now()); ok {
		s.log.Log(context.Background(), level, "request failed", "api", kmsg.NameForKey(int16(key)),
			"err", fmt.Sprintf("%.*s", longestCause, err), "not_logged_before", passed)
	}
}

// orElse is err or, if there is none, what f returns.
func orElse(err error, f func() error) error {
	if err == nil {
		err = f()
	}
	return err
}

// inner are the codes whose causes are the cluster's own: where a broker is, what a file of the
// volume is called. They are for its log.
var inner = map[int16]bool{
	kerr.NotController.Code: true, kerr.NotLeaderForPartition.Code: true, kerr.RequestTimedOut.Code: true, kerr.KafkaStorageError.Code: true,
	kerr.UnknownServerError.Code: true, kerr.NotCoordinator.Code: true, kerr.CoordinatorNotAvailable.Code: true, kerr.CoordinatorLoadInProgress.Code: true,
	kerr.NetworkException.Code: true,
}

// mostWords is about how many bytes the messages of an answer with many parts have.
const mostWords = 64 << 10

// message is what stands beside an error code in answers that have room for it: the
// code's own words, which clients know, are left out where others follow.
func message(err error) *string {
	if err == nil {
		return nil
	}
	code := codeOf(err)
	if inner[code] {
		return ownWords(code)
	}
	s := err.Error()
	var ke *kerr.Error
	if errors.As(err, &ke) {
		s = strings.TrimSuffix(strings.TrimPrefix(s, ke.Error()+": "), ": "+ke.Error())
	}
	return &s
}

// ownWords are those of a code.
func ownWords(code int16) *string {
	s := kerr.ErrorForCode(code).Error()
	return &s
}

// message is that of one part of an answer with many: when all of them together are long, the
// codes have to do, for which clients have words of their own.
func (r *request) message(err error) *string {
	if err == nil || r.words.Load() > mostWords {
		return nil
	}
	return r.bounded(message(err))
}

// bounded is such a message, or nil.
func (r *request) bounded(m *string) *string {
	if m == nil || r.words.Add(int64(len(*m))) > mostWords {
		return nil
	}
	return m
}
