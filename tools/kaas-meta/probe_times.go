package main

import (
	"fmt"
	"slices"
	"time"
)

// samples is how often each call is timed: its median is told.
const samples = 21

type probeTime struct {
	What   string        `json:"what"`
	Median time.Duration `json:"median_ns"`
	Worst  time.Duration `json:"worst_ns"`
	Err    string        `json:"error,omitempty"`
}

func (t probeTime) String() string {
	if t.Err != "" {
		return fmt.Sprintf("%s: not known: %s", t.What, t.Err)
	}
	return fmt.Sprintf("%s: median %v, worst of %d %v", t.What, t.Median.Round(time.Microsecond), samples, t.Worst.Round(time.Microsecond))
}

// times tells how long the two calls take that stand between a record and its
// acknowledgement.
func (p *prober) times() []probeTime {
	return []probeTime{
		timed("write and sync of 4 KiB", p.syncedWrites()),
		timed("rename, which is a Check", p.checks()),
	}
}

func (p *prober) syncedWrites() func() error {
	f, err := p.v.CreateExclusive(p.name())
	at, b := int64(0), make([]byte, 4<<10)
	return func() error {
		if err != nil {
			return err
		}
		_, err = f.WriteAt(b, at)
		if at += int64(len(b)); err == nil {
			err = f.Datasync()
		}
		if at == samples*int64(len(b)) || err != nil {
			f.Close()
		}
		return err
	}
}

func (p *prober) checks() func() error {
	from, err := p.file()
	to := p.name()
	return func() error {
		if err == nil {
			err = p.v.Rename(from, to)
			from, to = to, from
		}
		return err
	}
}

func timed(what string, call func() error) probeTime {
	took := make([]time.Duration, samples)
	for i := range took {
		began := time.Now()
		if err := call(); err != nil {
			return probeTime{What: what, Err: err.Error()}
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return probeTime{What: what, Median: took[samples/2], Worst: took[samples-1]}
}
