package server

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What of an answer is not records, about: for the quotas of consumers.
const (
	fetchHeadBytes      = 20
	fetchPartitionBytes = 60
)

// throttled reports that a quota keeps the client from being sent what was found. Only what
// is sent counts for the quota of bytes.
func (c *fetchCall) throttled() bool {
	q := c.s.quotas()
	if q == nil {
		return false
	}
	c.s.chargeTime(c.asker)
	if _, wait := c.asker.waits.get(); wait == 0 {
		c.asker.slow(byFetch, c.s.quota.Fetch(q, c.asker.client(), c.size()))
	}
	_, wait := c.asker.waits.get()
	return wait > 0
}

// size is about how large the answer would be.
func (c *fetchCall) size() int {
	n := fetchHeadBytes
	for i := range c.from {
		if b := c.from[i].bytes(); b > 0 || c.session == nil {
			n += fetchPartitionBytes + len(c.from[i].name) + b
		}
	}
	return n
}

// answerNothing leaves the session as it is, so that the client may ask for the same again.
func (c *fetchCall) answerNothing() (kmsg.Response, error) {
	if c.session == nil {
		return c.resp, nil
	}
	c.resp.SessionID = c.session.id
	if !c.session.expects(c.req.SessionEpoch) {
		return c.refuse(kerr.InvalidFetchSessionEpoch)
	}
	return c.resp, nil
}

// expects reports that no other request of the session has come since that of the epoch.
func (s *fetchSession) expects(epoch int32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.epoch == nextEpoch(epoch)
}
