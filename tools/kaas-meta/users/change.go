package users

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/tools/kaas-meta/restore"
)

// Role is that of the session under which users are changed.
const Role = "users"

// node stands for a writer that is no broker.
const node int32 = -1

const (
	// mostTries is how often a change is tried; each leaves an epoch behind for good.
	mostTries = 10
	firstWait = 10 * time.Millisecond
	settle    = 5 * time.Second
)

// Who is whose session a change is made under, for people.
type Who struct {
	Host string
	PID  int
	Now  func() time.Time
}

// Change is what is to be done: facts that make it so, none where it is so. It may be asked
// more than once, also for what it has made itself.
type Change func(*projections.Cluster) ([]projections.Fact, error)

// Add gives users credentials.
func Add(credentials ...projections.Fact) Change {
	return func(*projections.Cluster) ([]projections.Fact, error) { return credentials, nil }
}

// ErrNoCredential is for a user who has nothing that could be removed.
var ErrNoCredential = errors.New("has no such credential")

// Remove takes a user's credentials for some mechanisms away.
func Remove(user string, of []projections.ScramMechanism) Change {
	found := false
	return func(c *projections.Cluster) (out []projections.Fact, err error) {
		for _, m := range of {
			if c.ScramCredential(user, m) != nil {
				out = append(out, &projections.ScramCredentialRemoved{User: user, Mechanism: m})
			}
		}
		if found = found || len(out) > 0; !found {
			return nil, fmt.Errorf("user %q %w", user, ErrNoCredential)
		}
		return out, nil
	}
}

// Apply has a change made, and returns the position of its entry. Errors of the change itself are
// returned as they are.
func Apply(ctx context.Context, v *substrate.Volume, who Who, reason string, change Change) (substrate.Position, error) {
	var err error
	for try := range mostTries {
		var pos substrate.Position
		var r *refused
		switch pos, err = once(ctx, v, who, reason, change); {
		case err == nil:
			return pos, nil
		case errors.As(err, &r):
			return substrate.Position{}, r.error
		case ctx.Err() != nil || restore.IsDamage(err):
			return substrate.Position{}, err
		}
		select {
		case <-time.After(firstWait << try):
		case <-ctx.Done():
		}
	}
	return substrate.Position{}, err
}

// refused is an error of a change.
type refused struct{ error }

func once(ctx context.Context, v *substrate.Volume, who Who, reason string, change Change) (substrate.Position, error) {
	stream := path.Join(v.MetaDir(), "cluster")
	for _, dir := range []string{"meta", v.MetaDir(), "topics"} {
		if err := v.EnsureDir(dir); err != nil {
			return substrate.Position{}, err
		}
	}
	schema := projections.ClusterSchema()
	if err := metalog.Ensure(v, stream, schema, "cluster begun", who.Now()); err != nil {
		return substrate.Position{}, err
	}
	s, err := v.OpenSession(substrate.Identity{Role: Role, NodeID: node, Host: who.Host, PID: who.PID, Started: who.Now()})
	if err != nil {
		return substrate.Position{}, err
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), settle)
	defer cancel()
	defer func() { _ = s.Close(end) }()
	// Who replaces the volume's ID seals the sessions that are there after it.
	if now, err := substrate.ReadVolume(v.FS); err != nil || now.ID != v.ID {
		return substrate.Position{}, errors.Join(err, fmt.Errorf("the volume is not %s any more", v.ID))
	}
	w, err := claim(ctx, v, stream, s, schema, who)
	if err != nil {
		return substrate.Position{}, err
	}
	// An epoch begins with an entry though there be nothing to change, and a Check covers it before
	// there is an answer: also that there was nothing to do rests on renames, and on no read.
	pos, err := w.Publish(ctx, reason, func(c *projections.Cluster) ([]metalog.Event, error) {
		fs, err := change(c)
		if err != nil {
			return nil, &refused{err}
		}
		return projections.NewEvents(fs...)
	})
	if no := (*refused)(nil); err != nil && !errors.As(err, &no) {
		return pos, errors.Join(err, w.Abandon(end))
	}
	_ = w.Close(end) // without a closed entry the next owner seals this session, and that is all
	return pos, err
}

func claim(ctx context.Context, v *substrate.Volume, stream string, s *substrate.Session, schema *metalog.Schema[*projections.Cluster], who Who) (*metalog.Writer[*projections.Cluster], error) {
	for e := substrate.Epoch(0); ; {
		next, err := metalog.NextEpoch(v, stream)
		if err != nil {
			return nil, err
		}
		e = max(e+1, next)
		w, err := metalog.Claim(ctx, s, stream, e, schema, metalog.Options{Node: node, Followed: true, Now: who.Now})
		if err == nil || !errors.Is(err, substrate.ErrEpochTaken) || ctx.Err() != nil {
			return w, err
		}
	}
}
