package main

import (
	"fmt"

	"github.com/prometheus/procfs"
)

// usage is what a process has used since its start, from /proc.
type usage struct {
	cpu         float64 // seconds
	rss, peak   int64   // bytes, now and at most since the process began
	read, wrote int64   // bytes that went to or came from a disk
}

func usageOf(pid int) (usage, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return usage{}, fmt.Errorf("process %d: %w", pid, err)
	}
	stat, err := p.Stat()
	if err != nil {
		return usage{}, fmt.Errorf("process %d: %w", pid, err)
	}
	u := usage{cpu: stat.CPUTime(), rss: int64(stat.ResidentMemory())}
	if status, err := p.NewStatus(); err == nil {
		u.peak = int64(status.VmHWM)
	}
	if io, err := p.IO(); err == nil { // only of one's own processes
		u.read, u.wrote = int64(io.ReadBytes), int64(io.WriteBytes)
	}
	return u, nil
}

// serverWatch takes a server's costs between begin and end. A nil watch is of no
// process and costs nothing.
type serverWatch struct {
	pid    int
	before usage
	peak   int64
	fsyncs *fsyncCounter // nil where they cannot be counted
}

func watchServer(pid int) (*serverWatch, error) {
	if pid == 0 {
		return nil, nil
	}
	if _, err := usageOf(pid); err != nil {
		return nil, err
	}
	return &serverWatch{pid: pid, fsyncs: countFsyncs(pid)}, nil
}

func (w *serverWatch) begin() (err error) {
	if w == nil {
		return nil
	}
	w.fsyncs.enable()
	w.before, err = usageOf(w.pid)
	w.peak = w.before.rss
	return err
}

func (w *serverWatch) sample() {
	if w == nil {
		return
	}
	if u, err := usageOf(w.pid); err == nil {
		w.peak = max(w.peak, u.rss)
	}
}

func (w *serverWatch) end() (*serverCosts, error) {
	if w == nil {
		return nil, nil
	}
	after, err := usageOf(w.pid)
	if err != nil {
		return nil, err
	}
	return &serverCosts{
		PID:        w.pid,
		CPUSeconds: after.cpu - w.before.cpu,
		PeakRSS:    max(w.peak, after.rss),
		ReadBytes:  after.read - w.before.read,
		WriteBytes: after.wrote - w.before.wrote,
	}, nil
}

// takeFsyncs completes what end returned. perf takes a moment to answer.
func (w *serverWatch) takeFsyncs(costs *serverCosts) {
	if w != nil {
		costs.Fsyncs = w.fsyncs.take()
	}
}

func (w *serverWatch) close() {
	if w != nil {
		w.fsyncs.close()
	}
}
