package check

import (
	"context"
	"path"
	"slices"
	"strings"
	"sync"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

// sessionsUnit is sessions/. Its first look is complete before others ask.
type sessionsUnit struct{}

func (sessionsUnit) look(ctx context.Context, e *engine) *seen {
	s := &seen{}
	es, ok := s.list(e, substrate.SessionsDir)
	if !ok {
		return s
	}
	first := len(e.sessions) == 0
	for _, de := range es {
		switch {
		case ctx.Err() != nil:
			return s
		case substrate.IsTemporary(de.Name) || strings.HasPrefix(de.Name, ".") || !de.Dir:
			s.other(e, substrate.SessionsDir, de)
			continue
		}
		i, known := s.session(e, de.Name)
		s.counts.Sessions++
		if i.sealed {
			s.counts.Sealed++
		}
		if first && known {
			e.sessions[de.Name] = i
		}
	}
	return s
}

// sessionInfo is what was seen of a session.
type sessionInfo struct {
	sealed bool
	role   string // empty where its token could not be read
}

// session looks at one session: its token, and whether somebody has sealed it.
func (s *seen) session(e *engine, id string) (i sessionInfo, known bool) {
	dir := substrate.SessionPath(id)
	es, ok := s.list(e, dir)
	if !ok {
		return i, false
	}
	tokens := 0
	for _, de := range es {
		name := path.Join(dir, de.Name)
		switch {
		case de.Name != "0" && de.Name != "1":
			s.other(e, dir, de)
		case de.Irregular:
			s.fault(metalog.KindName, name, "is no regular file")
		case de.Dir:
			i.sealed = true
		default:
			tokens++
			i.role = s.token(e, name)
		}
	}
	if tokens != 1 {
		s.fault(kindSession, dir, "holds %d tokens, not one; what it led is fenced all the same", tokens)
	}
	return i, true
}

// token decodes a session's token, and returns its role. A living owner moves it, so one that
// has just gone is looked for under its other name, and is no fault.
func (s *seen) token(e *engine, name string) (role string) {
	b, err := e.v.ReadFile(name)
	for try := 0; isNotExist(err) && try < 4; try++ {
		name = path.Dir(name) + "/" + string('0'+'1'-name[len(name)-1])
		b, err = e.v.ReadFile(name)
	}
	if isNotExist(err) {
		return ""
	}
	if err != nil {
		s.fault(metalog.KindUnreadable, name, "%v", err)
		return ""
	}
	var id substrate.Identity
	if _, err := substrate.DecodeFile(name, substrate.KindSession, b, &id); err != nil {
		s.fault(kindSession, name, "%v", err)
	}
	return id.Role
}

// broker reports the session of a broker that leads: it claims what the cluster gives it, and
// no epoch above that. kaas-meta itself does.
func (e *engine) broker(id string) bool {
	i, there := e.sessions[id]
	if !there {
		i, _ = (&seen{}).session(e, id) // newer than the first look
	}
	return i.role == substrate.RoleData || i.role == "" // or nobody can tell
}

// ledUpTo is the newest epoch of a stream that a broker has claimed.
func (e *engine) ledUpTo(r *metalog.Verification) (newest substrate.Epoch) {
	for id, epoch := range r.Owners {
		if epoch > newest && e.broker(id) {
			newest = epoch
		}
	}
	return newest
}

// isSession reports a session that sessions/ had at the first look.
func (e *engine) isSession(id string) bool { _, there := e.sessions[id]; return there }

// living reports that a session may be at work: it was not sealed when it was looked at,
// or is newer than that.
func (e *engine) living(id string) bool {
	if i, there := e.sessions[id]; there {
		return !i.sealed
	}
	if id == "" || strings.ContainsAny(id, "/~") {
		return false
	}
	ok, err := e.v.Unsealed(id)
	return err == nil && ok
}

// missing are sessions that a claim names and sessions/ lacked, each with a claim's stream.
type missing struct {
	mu sync.Mutex
	in map[string]string
}

// noteSessions remembers those of a stream's claims that were not there at first.
func (e *engine) noteSessions(r *metalog.Verification) {
	e.missing.mu.Lock()
	defer e.missing.mu.Unlock()
	for id := range r.Owners {
		if e.isSession(id) {
			continue
		}
		if e.missing.in == nil {
			e.missing.in = map[string]string{}
		}
		e.missing.in[id] = r.Stream
	}
}

// missingSessions are those that are not there now either: a session is made before it
// claims, and never removed.
func (e *engine) missingSessions() (out []metalog.Finding) {
	if len(e.missing.in) == 0 {
		return nil
	}
	es, err := e.v.ListFresh(substrate.SessionsDir)
	if err != nil && !isNotExist(err) {
		return nil // told
	}
	for id, stream := range e.missing.in {
		if !slices.ContainsFunc(es, func(de substrate.DirEntry) bool { return de.Name == id }) {
			out = append(out, metalog.Finding{Kind: kindSessionMissing, File: substrate.SessionPath(id), Fault: true,
				Detail: "is missing, but has claimed an epoch of " + stream + "; sessions are never removed"})
		}
	}
	return out
}
