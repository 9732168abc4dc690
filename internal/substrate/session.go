package substrate

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	"kaas.dev/kaas/internal/sleep"
)

// Roles a session may have. A broker that loses one keeps the other.
const (
	RoleData       = "data"
	RoleController = "controller"
)

// mostPause is the most between two tries of what the volume has failed.
const mostPause = 100 * time.Millisecond

// Identity says whose session it is. It is for people; nothing is decided by it.
type Identity struct {
	Role    string    `msgpack:"role" json:"role"`
	NodeID  int32     `msgpack:"node_id" json:"node_id"`
	Host    string    `msgpack:"host" json:"host"`
	PID     int       `msgpack:"pid" json:"pid"`
	Started time.Time `msgpack:"started" json:"started"`
}

// Session is one process in one role. Everything it leads lives and dies with it:
// sealing fences a whole session, never a part.
//
// The token is a file that is renamed between the names 0 and 1 of the session's
// directory. Only the goroutine that runs Checks knows and moves it.
type Session struct {
	v      *Volume
	id     string
	fenced chan struct{} // closed when a Check was refused

	mu struct {
		sync.Mutex
		next    *checkBatch // callers whose Check is not sent yet
		running bool        // a goroutine is sending Checks
		closed  bool
		leads   map[string]bool // streams led, by directory; true where the end was not definite
	}
	wg     sync.WaitGroup
	ctx    context.Context // ends with Close; a Check that is being retried gives up
	cancel context.CancelFunc

	at int // the token's name, owned by the running goroutine
	// lastPassed is when the last passed Check began; owned like at, read under mu.
	lastPassed time.Time
}

type checkBatch struct {
	done chan struct{}
	err  error
}

// OpenSession makes the session's directory, complete, in one rename (rule 1). Its
// name is new, so there is nobody to race with.
func (v *Volume) OpenSession(id Identity) (*Session, error) {
	s := &Session{v: v, id: v.newID(), fenced: make(chan struct{})}
	s.mu.leads = map[string]bool{}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	token, err := EncodeFile(KindSession, 0, id)
	if err != nil {
		return nil, err
	}
	if err := v.EnsureDir(SessionsDir); err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	dir := SessionPath(s.id)
	tmp := v.TempName(SessionsDir, s.id)
	if err := v.buildDir(tmp, map[string][]byte{"0": token}); err != nil {
		_ = v.RemoveTree(tmp) // never renamed, so nobody else can know it
		return nil, fmt.Errorf("open session: %w", err)
	}
	if err := v.Rename(tmp, dir); err != nil {
		// Perhaps my own success: the name is mine alone, so its being there decides.
		if _, lerr := v.ListFresh(dir); lerr != nil {
			return nil, fmt.Errorf("open session: %w", err)
		}
	}
	if err := v.syncDir(SessionsDir); err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	return s, nil
}

// SessionPath is the directory of a session.
func SessionPath(id string) string { return SessionsDir + "/" + id }

// ReadIdentity reads whose session it is, or was. A living owner moves the token under it.
func (v *Volume) ReadIdentity(session string) (id Identity, err error) {
	for i := range 8 {
		name := SessionPath(session) + "/" + string(rune('0'+i%2))
		var b []byte
		if b, err = v.ReadFile(name); err == nil {
			_, err = DecodeFile(name, KindSession, b, &id)
			return id, err
		}
	}
	return id, err
}

// ID is the session's name on the volume.
func (s *Session) ID() string { return s.id }

// Volume is what the session was opened on.
func (s *Session) Volume() *Volume { return s.v }

// Fenced is closed once a Check was refused.
func (s *Session) Fenced() <-chan struct{} { return s.fenced }

// IsFenced reports whether a Check was refused.
func (s *Session) IsFenced() bool {
	select {
	case <-s.fenced:
		return true
	default:
		return false
	}
}

// Check returns nil if nobody had sealed the session at an instant after the
// call: whatever was visible before the call is committed. One rename serves
// every caller that waits when it is sent. ErrFenced is final; ErrUnknown and the
// context's error prove nothing either way. Rule 3.
func (s *Session) Check(ctx context.Context) error {
	b, err := s.joinCheck()
	if err != nil {
		return err
	}
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Go runs f in a goroutine that Close waits for. It reports false, and does nothing, once
// the session is closed.
func (s *Session) Go(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return false
	}
	s.wg.Go(f)
	return true
}

// LastCheck is the local time at which the last passed Check began.
func (s *Session) LastCheck() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastPassed
}

func (s *Session) joinCheck() (*checkBatch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.IsFenced() {
		return nil, ErrFenced
	}
	if s.mu.closed {
		return nil, fmt.Errorf("session %s is closed", s.id)
	}
	if s.mu.next == nil {
		s.mu.next = &checkBatch{done: make(chan struct{})}
	}
	b := s.mu.next
	if !s.mu.running {
		s.mu.running = true
		s.wg.Go(s.sendChecks)
	}
	return b, nil
}

func (s *Session) sendChecks() {
	for {
		s.mu.Lock()
		b := s.mu.next
		s.mu.next = nil
		if b == nil {
			s.mu.running = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()

		began := time.Now()
		b.err = s.check()
		s.mu.Lock()
		switch {
		case b.err == nil:
			s.lastPassed = began
		case errors.Is(b.err, ErrFenced) && !s.IsFenced():
			close(s.fenced)
		}
		s.mu.Unlock()
		close(b.done)
	}
}

// check moves the token. The server executes the rename by name, so no cache of
// this host can answer in its place.
func (s *Session) check() error {
	if s.v.Breaks.NoCheck {
		return nil
	}
	if s.v.Breaks.CheckByOpen {
		return s.checkByOpen()
	}
	if s.IsFenced() {
		return ErrFenced
	}
	const tries = 12
	var cause error
	for i := range tries {
		err := s.v.Rename(s.tokenPath(s.at), s.tokenPath(1-s.at))
		if err == nil {
			s.at = 1 - s.at
			return nil
		}
		if occupied(err) {
			return ErrFenced
		}
		cause = err
		// Anything else may be my own success with its reply lost, a full volume or a
		// sick one: look where the token is and rename again (rule 2).
		if err := s.findToken(); err != nil {
			return err
		}
		if sleep.Before(s.ctx, i, mostPause); s.ctx.Err() != nil {
			break
		}
	}
	return fmt.Errorf("check of session %s: %w: %w", s.id, ErrUnknown, cause)
}

// findToken updates s.at from a listing. A directory there is a seal.
func (s *Session) findToken() error {
	es, err := s.v.ListFresh(SessionPath(s.id))
	if isNotExist(err) {
		return ErrFenced
	}
	if err != nil {
		return nil // unknown still; the next rename decides
	}
	for _, e := range es {
		switch {
		case e.Name != "0" && e.Name != "1":
		case e.Dir:
			return ErrFenced
		case e.Name == "0":
			s.at = 0
		default:
			s.at = 1
		}
	}
	return nil
}

func (s *Session) checkByOpen() error {
	f, err := s.v.Open(s.tokenPath(s.at))
	if err != nil {
		return ErrFenced
	}
	return f.Close()
}

func (s *Session) tokenPath(n int) string { return path.Join(SessionPath(s.id), string(rune('0'+n))) }

// Close refuses further Checks and waits for the one in flight, and for what runs in Go. The token stays where it is: a session is
// never deleted, for a late rename of its process would find a free name.
func (s *Session) Close(ctx context.Context) error {
	s.mu.Lock()
	s.mu.closed = true
	s.mu.Unlock()
	s.cancel()
	return waitGroup(ctx, &s.wg)
}

func (s *Session) beginLead(stream string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, leading := s.mu.leads[stream]; leading {
		return fmt.Errorf("%s: %w", stream, ErrStillLeading)
	}
	s.mu.leads[stream] = false
	return nil
}

// EndLead says that this process issues nothing more for the stream. definite
// tells that every rename it issued there has returned a definite answer; without
// that the session may not lead the stream again.
func (s *Session) EndLead(stream string, definite bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if definite {
		delete(s.mu.leads, stream)
	} else {
		s.mu.leads[stream] = true
	}
}

// waitGroup waits for wg or for ctx. The waiter itself ends with the group.
func waitGroup(ctx context.Context, wg *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
