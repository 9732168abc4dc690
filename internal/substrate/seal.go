package substrate

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"kaas.dev/kaas/internal/sleep"
)

// Seal ends a session for good: from its return on the server refuses the
// owner's next Check. It is idempotent and driven until it is known to hold (rule
// 2), or ctx ends.
//
// Sealed means that one of our mkdirs succeeded or that a directory was seen at 0
// or 1. Finding both names taken is not enough: the token moves between them. A
// session that is not there counts as sealed, if mkdir said so and the listing of
// sessions/ agrees.
func (v *Volume) Seal(ctx context.Context, session string) error {
	if v.Breaks.NoSeal {
		return nil
	}
	var cause error
	for i := 0; ctx.Err() == nil; i++ {
		state, err := v.look(session)
		if err == nil && state.sealed {
			return nil
		}
		for _, name := range state.tries() {
			err = v.Mkdir(SessionPath(session) + "/" + name)
			if err == nil {
				return nil
			}
			if isNotExist(err) {
				gone, lerr := v.sessionGone(session)
				if lerr == nil && gone {
					return nil
				}
			}
			if !errors.Is(err, syscall.EEXIST) {
				cause = err
			}
		}
		sleep.Before(ctx, i, mostPause)
	}
	if cause == nil {
		cause = ctx.Err()
	}
	return fmt.Errorf("seal session %s: %w", session, cause)
}

// sessionState is what a listing of a session's directory showed.
type sessionState struct {
	sealed bool // a directory at 0 or 1
	token  bool // a file at 0 or 1
	at     string
}

// tries gives the names to mkdir, the one that looked free first.
func (s sessionState) tries() [2]string {
	if s.at == "0" {
		return [2]string{"1", "0"}
	}
	return [2]string{"0", "1"}
}

func (v *Volume) look(session string) (sessionState, error) {
	es, err := v.ListFresh(SessionPath(session))
	if err != nil {
		return sessionState{}, err
	}
	var s sessionState
	for _, e := range es {
		if e.Name != "0" && e.Name != "1" {
			continue
		}
		if e.Dir {
			s.sealed = true
		} else {
			s.token, s.at = true, e.Name
		}
	}
	return s, nil
}

func (v *Volume) sessionGone(session string) (bool, error) {
	es, err := v.ListFresh(SessionsDir)
	if isNotExist(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	for _, e := range es {
		if e.Name == session {
			return false, nil
		}
	}
	return true, nil
}

// Unsealed is the reader's look at a session: true if and only if exactly its
// token is there and no directory. Call it after reading the entry it is to vouch
// for, never before. The empty session, a stream's birth, is always true.
func (v *Volume) Unsealed(session string) (bool, error) {
	if session == "" {
		return true, nil
	}
	s, err := v.look(session)
	if isNotExist(err) {
		return false, nil
	}
	return err == nil && s.token && !s.sealed, err
}
