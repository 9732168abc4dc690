package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// lane is what one client has done since the figures began. Clients have lanes of
// their own, so that they do not wait for each other.
type lane struct {
	mu struct {
		sync.Mutex
		latency latencies // of records
		request latencies // of requests, as the client sees them
		records int64
		bytes   int64
		failed  int64
		err     error // the first
	}
	key int16 // of the requests that are timed
}

func newLane(key int16) *lane {
	l := &lane{key: key}
	l.mu.latency, l.mu.request = newLatencies(), newLatencies()
	return l
}

// OnBrokerE2E implements kgo.HookBrokerE2E.
func (l *lane) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	if key != l.key || e2e.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.request.add(e2e.DurationE2E())
}

// took counts a record that took d.
func (l *lane) took(d time.Duration, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.latency.add(d)
	l.mu.records++
	l.mu.bytes += int64(bytes)
}

// got counts records whose time is not known.
func (l *lane) got(records, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.records += int64(records)
	l.mu.bytes += int64(bytes)
}

func (l *lane) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.failed++
	if l.mu.err == nil {
		l.mu.err = err
	}
}

// reset forgets all but failures.
func (l *lane) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.latency.hist.Reset()
	l.mu.request.hist.Reset()
	l.mu.records, l.mu.bytes = 0, 0
}

// meter takes the figures of a load.
type meter struct {
	lanes    []*lane
	server   *serverWatch
	progress *progress
	began    time.Time // of the figures
}

func newMeter(lanes int, key int16, t *target, p *progress) (*meter, error) {
	m := &meter{progress: p}
	for range lanes {
		m.lanes = append(m.lanes, newLane(key))
	}
	var err error
	m.server, err = watchServer(t.PID)
	return m, err
}

// close lets go of the server.
func (m *meter) close() { m.server.close() }

// window is when a load is measured.
type window struct{ Warmup, Duration time.Duration }

// sampleEvery is how often the server's memory is looked at.
const sampleEvery = 100 * time.Millisecond

// ready is called before the load begins. Without a warm-up the figures begin here: a load
// that is quick could be done, or half done, when measure is called.
func (m *meter) ready(w window) error {
	if w.Warmup > 0 {
		return nil
	}
	return m.begin()
}

// begin begins the figures.
func (m *meter) begin() error {
	if err := m.server.begin(); err != nil {
		return err
	}
	for _, l := range m.lanes {
		l.reset()
	}
	m.began = time.Now()
	return nil
}

// measure takes the figures after the warm-up, or since ready, until the duration has gone,
// or the load is done where the duration is 0.
func (m *meter) measure(ctx context.Context, w window, done <-chan struct{}) (*result, error) {
	if w.Warmup > 0 {
		if err := m.pass(ctx, "warm-up", w.Warmup, done); err != nil {
			return nil, err
		}
		if err := m.begin(); err != nil {
			return nil, err
		}
	}
	if err := m.pass(ctx, "", w.Duration, done); err != nil {
		return nil, err
	}
	// The load goes on: what is slow to ask is asked when the figures are taken.
	took := time.Since(m.began)
	costs, costsErr := m.server.end()
	r, err := m.collect(took, costs)
	if err := errors.Join(err, costsErr); err != nil {
		return nil, err
	}
	m.server.takeFsyncs(costs)
	return r, nil
}

// pass lets time go by.
func (m *meter) pass(ctx context.Context, phase string, d time.Duration, done <-chan struct{}) error {
	var end <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		end = t.C
	}
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	began := time.Now()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-end:
			return nil
		case <-done:
			return nil
		case <-tick.C:
			m.server.sample()
			m.show(phase, time.Since(began))
		}
	}
}

func (m *meter) show(phase string, since time.Duration) {
	if m.progress == nil || !m.progress.wanted() {
		return
	}
	var records, bytes int64
	for _, l := range m.lanes {
		l.mu.Lock()
		records, bytes = records+l.mu.records, bytes+l.mu.bytes
		l.mu.Unlock()
	}
	s := since.Seconds()
	m.progress.show(fmt.Sprintf("%s %5.1f s  %s records  %s records/s  %s MB/s",
		phase, s, count(float64(records)), count(float64(records)/s), short(mega(float64(bytes))/s)))
}

// collect adds up the lanes. Records that failed make the figures worthless.
func (m *meter) collect(took time.Duration, costs *serverCosts) (*result, error) {
	r := &result{Seconds: took.Seconds(), Server: costs}
	latency, request := newLatencies(), newLatencies()
	for _, l := range m.lanes {
		l.mu.Lock()
		latency.merge(l.mu.latency)
		request.merge(l.mu.request)
		r.Records += l.mu.records
		r.Bytes += l.mu.bytes
		failed, err := l.mu.failed, l.mu.err
		l.mu.Unlock()
		if failed > 0 {
			return nil, fmt.Errorf("%d records of a client failed: %w", failed, err)
		}
	}
	r.RecordsPerSecond = float64(r.Records) / r.Seconds
	r.MBPerSecond = mega(float64(r.Bytes)) / r.Seconds
	r.Latency, r.RequestLatency = latency.quantiles(), request.quantiles()
	if costs != nil && r.Records > 0 {
		costs.CPUPerMillion = costs.CPUSeconds / float64(r.Records) * 1e6
	}
	return r, nil
}
