package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Error says what could not be done, and why.
type Error struct {
	Doing   string
	Message string // of the broker; may be empty
	Err     error
}

func (e *Error) Error() string {
	text := e.Err.Error()
	var k *kerr.Error
	switch {
	case errors.As(e.Err, &k) && e.Message != "":
		text = k.Message + ": " + strings.TrimPrefix(e.Message, k.Message+": ") // which some begin with
	case errors.As(e.Err, &k):
		text = k.Message + ": " + k.Description
	}
	return e.Doing + ": " + text
}

func (e *Error) Unwrap() error { return e.Err }

// failed is nil if err is.
func failed(err error, message string, format string, a ...any) error {
	if err == nil {
		return nil
	}
	var with *kadm.ErrAndMessage
	if errors.As(err, &with) && message == "" {
		message = with.ErrMessage
	}
	return &Error{Doing: fmt.Sprintf(format, a...), Message: message, Err: err}
}

// code turns an answer's error code into an error.
func code(c int16, message *string, format string, a ...any) error {
	text := ""
	if message != nil {
		text = *message
	}
	return failed(kerr.ErrorForCode(c), text, format, a...)
}

// Kind is what is to be done about an error.
type Kind int

// The kinds.
const (
	Unreachable  Kind = iota // no broker has answered
	Busy                     // one has, that it cannot now
	Unauthorized             // the operator may not
	NotLetIn                 // the operator has not been let in
	NoAuthorizer             // the brokers have no ACLs
	Refused                  // what is asked for cannot be
)

// KindOf judges an error.
func KindOf(err error) Kind {
	var k *kerr.Error
	if !errors.As(err, &k) {
		return Unreachable
	}
	switch k {
	case kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.GroupAuthorizationFailed:
		return Unauthorized
	case kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState:
		return NotLetIn
	case kerr.SecurityDisabled:
		return NoAuthorizer
	}
	if k.Retriable || k == kerr.ThrottlingQuotaExceeded || k == kerr.TopicAlreadyExists || k == kerr.UnknownTopicID || k == kerr.ResourceNotFound || k == kerr.UnknownServerError {
		return Busy
	}
	return Refused
}

// is reports whether err is one of these answers.
func is(err error, any ...*kerr.Error) bool {
	for _, k := range any {
		if errors.Is(err, k) {
			return true
		}
	}
	return false
}

// cause names why ctx ended in the place of the bare words of its end.
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
		return fmt.Errorf("%w (%v)", err, context.Cause(ctx))
	}
	return err
}
