package server

import (
	"sync"
	"time"
)

// beats knows which connection carried each broker's newest heartbeat, so that its end
// is told: it is the first that shows of a broker that died.
type beats struct {
	mu struct { // written by connections that carry heartbeats
		sync.Mutex
		newest map[int32]beat
	}
}

// beat is a broker's newest heartbeat.
type beat struct {
	epoch int64 // of the broker
	at    time.Time
	conn  *conn
}

// note takes a heartbeat that was answered. One that came earlier than another, or is of
// an earlier registration, is old news.
func (b *beats) note(broker int32, next beat) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.newest == nil {
		b.mu.newest = map[int32]beat{}
	}
	if old, ok := b.mu.newest[broker]; ok && (old.epoch > next.epoch || old.epoch == next.epoch && old.at.After(next.at)) {
		return
	}
	b.mu.newest[broker] = next
}

// ended takes out what c carried and nothing newer does.
func (b *beats) ended(c *conn) (lost map[int32]int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, n := range b.mu.newest {
		if n.conn == c {
			delete(b.mu.newest, id)
			if lost == nil {
				lost = map[int32]int64{}
			}
			lost[id] = n.epoch
		}
	}
	return lost
}

// tellLost tells of the brokers whose heartbeats came over c, which has ended. An end
// that this broker has made itself tells nothing of the others.
func (s *Server) tellLost(c *conn) {
	for id, epoch := range s.beats.ended(c) {
		if !s.draining() {
			s.backend.HeartbeatLost(id, epoch)
		}
	}
}
