package server

import (
	"encoding/binary"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// clientTag says of a forwarded request what its client called itself, for quotas: the
// version that it used, for which errors it knows, and its client ID.
const clientTag = 10004

// throttleTag says in the answer of a forwarded request for how many ms its client has to
// wait (big endian). Where Kafka says it, the broker that asked would wait itself, with all
// that others ask through it.
const throttleTag = 10005

// clientBytes is the tag of a request that is sent for r: r itself, or what it needs.
func (r *request) clientBytes(req kmsg.Request) []byte {
	version := r.asked
	if req.Key() != r.key {
		version = req.MaxVersion()
	}
	return append(binary.BigEndian.AppendUint16(nil, uint16(version)), r.clientID...)
}

// of makes a forwarded request that of the client itself. The broker that forwarded it has
// the client wait, and has counted the time. Only those are believed that come by the listener
// of the brokers.
func (r *request) of(tags map[uint32][]byte) {
	if r.conn.listener.Name != r.conn.s.cfg.InterBroker {
		return
	}
	r.exempt, r.forwarded, r.conn.excused = true, true, true
	if b := tags[clientTag]; len(b) >= 2 {
		r.asked, r.clientID = int16(binary.BigEndian.Uint16(b)), string(b[2:])
	}
}

// forwardThrottle tells the broker that forwarded r how long the client has to wait.
func (r *request) forwardThrottle(resp kmsg.Response) {
	if _, d := r.waits.get(); d > 0 && resp != nil {
		setTag(resp, throttleTag, binary.BigEndian.AppendUint32(nil, uint32(d.Milliseconds())))
	}
}

// slowAsTold has the client of r, which req was sent for, wait for as long as the answer says.
func (r *request) slowAsTold(req kmsg.Request, tags map[uint32][]byte) {
	if b := tags[throttleTag]; len(b) == 4 && req.Key() == r.key {
		r.slow(byMutation, time.Duration(binary.BigEndian.Uint32(b))*time.Millisecond)
	}
}
