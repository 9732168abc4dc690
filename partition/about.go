package partition

import (
	"errors"
	"maps"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

// About is what the cluster knows of a partition's topic. Each partition keeps it beside
// its log, so that the cluster stream can be made again from the partitions.
type About struct {
	Partitions int32             `msgpack:"partitions" json:"partitions"`
	Configs    map[string]string `msgpack:"configs,omitempty" json:"configs,omitempty"` // only what was set
	Created    int64             `msgpack:"created_ms,omitempty" json:"created_ms,omitempty"`
	// View is the position of the cluster stream as of which this holds, zero at the topic's
	// birth. The partitions of a topic may be behind one another; the greatest counts.
	View substrate.Position `msgpack:"view" json:"view"`
}

// same reports whether two tell the same of the topic, whenever that was.
func (a *About) same(b *About) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Partitions == b.Partitions && a.Created == b.Created && maps.Equal(a.Configs, b.Configs)
}

// TopicDescribed says what the topic is like from now on.
type TopicDescribed struct {
	About `msgpack:",inline"`
}

func (*TopicDescribed) typ() string { return "TopicDescribed" }

func (e *TopicDescribed) apply(m *Manifest) error {
	about := e.About
	m.About = &about
	return nil
}

// describe is the fact that brings a manifest up to what the configuration says of the
// topic, nil where it is. Nothing is ever taken back to an earlier view.
func describe(m *Manifest, cfg *Config) fact {
	now := cfg.About
	if now == nil || now.same(m.About) || m.About != nil && now.View.Less(m.About.View) {
		return nil
	}
	return &TopicDescribed{*now}
}

// startDescribing has the manifest brought up to date, beside all else.
func (p *Partition) startDescribing() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.err == nil && !p.mu.closing && !p.mu.describing {
		p.mu.describing = true
		p.wg.Go(p.runDescribe)
	}
}

// runDescribe publishes until the manifest says what the configuration does (rule 2). What
// the volume refuses for long is left to the next change, or the next leader.
func (p *Partition) runDescribe() {
	for try := 0; ; {
		want := p.cfg().About
		err := p.publishAbout()
		ended := p.ctx.Err() != nil || errors.Is(err, metalog.ErrClosed) || errors.Is(err, substrate.ErrFenced)
		if try++; err != nil && !ended && try < 10 {
			sleep.Before(p.ctx, try, mostPause)
			continue
		}
		if err != nil && !ended {
			p.cfg().Log.Warn("the manifest lacks what was set for the topic", "partition", p.name, "err", err)
		}
		p.mu.Lock()
		if ended || p.cfg().About == want { // whoever replaces it looks under the same lock
			p.mu.describing = false
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		try = 0
	}
}

func (p *Partition) publishAbout() error {
	_, err := p.w.Publish(p.ctx, "topic described", func(m *Manifest) ([]metalog.Event, error) {
		f := describe(m, p.cfg())
		if f == nil {
			return nil, nil
		}
		return encodeFacts(f)
	})
	return err
}
