package coordinator

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/substrate"
)

// errStopped is why nothing is begun any more.
var errStopped = errors.New("the broker has stopped")

// clientError gives err the Kafka error that a client is to see, unless it has one.
func clientError(err error) error {
	switch {
	case err == nil || isClient(err):
		return err
	case errors.Is(err, substrate.ErrFenced), errors.Is(err, errStopped), errors.Is(err, errDeposed), errors.Is(err, errReplaced):
		return fmt.Errorf("%w: %w", kerr.NotController, err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: %w", kerr.RequestTimedOut, err)
	}
	return fmt.Errorf("%w: %w", kerr.KafkaStorageError, err)
}

// refused reports that a publish of this error has not happened and never will:
// the deciding function said no, or nothing reached the volume.
func refused(err error) bool {
	if errors.Is(err, errUndecided) {
		return false
	}
	if isClient(err) {
		return true
	}
	for _, maybe := range []error{substrate.ErrUnknown, substrate.ErrFenced, substrate.ErrNotDurable,
		errStopped, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, maybe) {
			return false
		}
	}
	return true
}

// dirOf names the volume for people.
func dirOf(v *substrate.Volume) string {
	if d, ok := v.FS.(interface{ Root() string }); ok {
		return d.Root()
	}
	return "volume " + v.ID
}

// isClient reports an error that names the Kafka error a client is to see.
func isClient(err error) bool {
	var k *kerr.Error
	return errors.As(err, &k)
}
