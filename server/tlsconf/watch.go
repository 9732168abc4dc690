package tlsconf

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
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
		st.tellEnds(time.Now(), log)
	}
}

// tellEnds says of each certificate that the listener shows that it is not valid, or will not be
// for long: once, until that changes or there is another one.
func (st *Store) tellEnds(now time.Time, log *slog.Logger) {
	told := map[[sha256.Size]byte]string{}
	for i, cert := range st.now.Load().chain {
		id := sha256.Sum256(cert.Raw)
		if _, twice := told[id]; twice {
			continue
		}
		what, level := endOf(cert, i == 0, now)
		if told[id] = what; what != "" && what != st.told[id] {
			log.Log(context.Background(), level, what, "listener", st.s.Listener, "subject", cert.Subject.String(),
				"serial", cert.SerialNumber.Text(16), "from", cert.NotBefore, "expires", cert.NotAfter)
		}
	}
	st.told = told
}

// endOf is what there is to say of a certificate's end. Who checks one that is not the own may
// know another way from the own to an authority that he trusts.
func endOf(cert *x509.Certificate, own bool, now time.Time) (what string, level slog.Level) {
	name, outcome := "the certificate", ": nobody trusts this listener"
	if !own {
		name, outcome = "a certificate that the listener's rests on", ": who knows no other way to an authority does not trust this listener"
	}
	switch {
	case now.After(cert.NotAfter):
		return name + " has expired" + outcome, slog.LevelError
	case now.Before(cert.NotBefore):
		return name + " is not valid yet" + outcome, slog.LevelError
	case cert.NotAfter.Sub(now) < soonExpired:
		return name + " expires soon", slog.LevelWarn
	}
	return "", 0
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
