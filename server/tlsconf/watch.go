package tlsconf

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// pollEvery is how often files are looked at of which nobody tells.
	pollEvery = 10 * time.Second
	// settle is how long after a change they are read: who writes several, or one in pieces,
	// is mostly done then.
	settle = 200 * time.Millisecond
)

// Watch takes what changes in the stores' files, until ctx ends.
func Watch(ctx context.Context, stores []*Store, log *slog.Logger) {
	events, errs, stop := notices(stores, log)
	defer stop()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	tellEnds(stores, log)
	var due <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-events:
			if !ok {
				events = nil
			} else if due == nil {
				due = time.After(settle)
			}
		case _, ok := <-errs: // the next poll finds what was missed
			if !ok {
				errs = nil
			}
		case <-due:
			due = nil
			refreshAll(stores, log)
		case <-poll.C:
			refreshAll(stores, log)
		}
	}
}

// notices tells of changes in the directories of the files: a file that is replaced is
// another one, and Kubernetes replaces the directory that links lead through.
func notices(stores []*Store, log *slog.Logger) (<-chan fsnotify.Event, <-chan error, func()) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		log.Debug("changes of key files are found by polling alone", "err", err)
		return nil, nil, func() {}
	}
	for _, st := range stores {
		for _, file := range st.s.files() {
			if err := w.Add(filepath.Dir(file)); err != nil {
				log.Debug("changes of key files are found by polling alone", "file", file, "err", err)
			}
		}
	}
	return w.Events, w.Errors, func() { w.Close() }
}

func (s *Settings) files() []string {
	return append(s.keys.files(), s.trust.files()...)
}

func refreshAll(stores []*Store, log *slog.Logger) {
	for _, st := range stores {
		changed, err := st.refresh()
		l := log.With("listener", st.s.Listener)
		switch {
		case err != nil && changed:
			l.Error("new key files are not taken: what was read before stays in use", "err", err)
		case changed && st.Leaf() == nil: // a client's
			l.Info("new key files are in use")
		case changed:
			leaf := st.Leaf()
			l.Info("new key files are in use", "serial", leaf.SerialNumber.Text(16), "expires", leaf.NotAfter)
		}
	}
	tellEnds(stores, log)
}

// soonExpired is how long before a certificate's end it is warned of.
const soonExpired = 14 * 24 * time.Hour

func tellEnds(stores []*Store, log *slog.Logger) {
	for _, st := range stores {
		st.tellEnd(time.Now(), log)
	}
}

// tellEnd says of the own certificate that it is not valid, or will not be for long: once, until
// that changes or there is another one.
func (st *Store) tellEnd(now time.Time, log *slog.Logger) {
	leaf := st.Leaf()
	if leaf == nil { // a client's
		return
	}
	what, level := "", slog.LevelError
	switch {
	case now.After(leaf.NotAfter):
		what = "the certificate has expired: nobody trusts this listener"
	case now.Before(leaf.NotBefore):
		what = "the certificate is not valid yet: nobody trusts this listener"
	case leaf.NotAfter.Sub(now) < soonExpired:
		what, level = "the certificate expires soon", slog.LevelWarn
	}
	serial := leaf.SerialNumber.Text(16)
	if told := what + serial; told != st.told {
		st.told = told
		if what != "" {
			log.Log(context.Background(), level, what, "listener", st.s.Listener, "subject", leaf.Subject.String(), "serial", serial, "from", leaf.NotBefore, "expires", leaf.NotAfter)
		}
	}
}

// refresh looks at the files. changed says that they are others than at the last look,
// err why they are not taken.
func (st *Store) refresh() (changed bool, err error) {
	c, err := st.s.read()
	if err != nil {
		changed = err.Error() != st.complaint
		if changed {
			st.refusals.Add(1)
		}
		st.complaint = err.Error()
		return changed, err
	}
	sum := c.sum()
	if st.complaint = ""; sum == st.seen {
		return false, nil
	}
	st.seen = sum
	m, err := st.s.load(c, st.betweenBrokers)
	if err != nil {
		st.refusals.Add(1)
		return true, err
	}
	st.now.Store(m)
	st.reloads.Add(1)
	return true, nil
}
