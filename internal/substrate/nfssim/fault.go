package nfssim

import "slices"

// Ops is how many calls have been performed.
func (s *Sim) Ops() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ops
}

// At runs f in Run's goroutine, just before the k-th call (from 1) is chosen, or
// before the next one if that is past. f may crash hosts, inject faults and start
// processes, but not call a Process.
func (s *Sim) At(k int, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k = max(k, s.ops+1)
	s.at[k] = append(s.at[k], f)
}

func (s *Sim) runHooks() bool {
	s.mu.Lock()
	fs := s.at[s.ops+1]
	delete(s.at, s.ops+1)
	s.mu.Unlock()
	for _, f := range fs {
		f()
	}
	return len(fs) > 0
}

// FailNext gives the next call an error, as Config.Fault would.
func (s *Sim) FailNext(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = err
}

// Hang keeps calls that match parked until Unhang, or until their process dies.
// match is asked with the simulation locked and may not call it.
func (s *Sim) Hang(match func(Op) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hang = match
}

// Unhang ends Hang.
func (s *Sim) Unhang() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hang = nil
	for _, c := range s.hung {
		c.p.parked = append(c.p.parked, c)
	}
	s.hung = nil
}

// takeCalls removes the calls of p from wherever they wait.
func (s *Sim) takeCalls(p *Process) []*call {
	calls := p.parked
	p.parked = nil
	of := func(c *call) bool {
		if c.p != p {
			return false
		}
		calls = append(calls, c)
		return true
	}
	s.hung = slices.DeleteFunc(s.hung, of)
	held := slices.DeleteFunc(s.held, of)
	s.held = held[:0]
	for _, c := range slices.Clone(held) {
		s.hold(c)
	}
	slices.SortStableFunc(calls, (*call).compare)
	return calls
}

// Stop releases every parked call, and every later one at once, with ErrKilled.
func (s *Sim) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	s.arrange()
	for _, p := range s.procs {
		for _, c := range s.takeCalls(p) {
			c.killed()
		}
	}
	s.stopped = true
	if s.idle != nil {
		select {
		case s.idle <- struct{}{}:
		default:
		}
	}
}
