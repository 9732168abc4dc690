package server

import (
	"context"
	"errors"
	"strings"

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
	if code == kerr.KafkaStorageError.Code || code == kerr.UnknownServerError.Code {
		s.log.Error("request failed", "api", kmsg.NameForKey(int16(key)), "err", err)
	}
	return code
}

// orElse is err or, if there is none, what f returns.
func orElse(err error, f func() error) error {
	if err == nil {
		err = f()
	}
	return err
}

// message is what stands beside an error code in answers that have room for it: the
// code's own words, which clients know, are left out where others follow.
func message(err error) *string {
	if err == nil {
		return nil
	}
	s := err.Error()
	var ke *kerr.Error
	if errors.As(err, &ke) {
		s = strings.TrimSuffix(strings.TrimPrefix(s, ke.Error()+": "), ": "+ke.Error())
	}
	return &s
}
