package main

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mattn/go-isatty"

	checker "kaas.dev/kaas/tools/kaas-meta/check"
)

// progress is a line on a terminal that tells how far a long check is; elsewhere nothing.
type progress struct {
	now  atomic.Pointer[checker.Progress]
	stop chan struct{}
	wg   sync.WaitGroup
}

// newProgress begins to show what set is told, until end.
func newProgress(f *os.File) *progress {
	p := &progress{stop: make(chan struct{})}
	if isatty.IsTerminal(f.Fd()) {
		p.wg.Go(func() { p.show(f) })
	}
	return p
}

func (p *progress) set(now checker.Progress) { p.now.Store(&now) }

func (p *progress) end() {
	close(p.stop)
	p.wg.Wait()
}

func (p *progress) show(f *os.File) {
	const clear = "\r\x1b[K"
	t := time.NewTicker(200 * time.Millisecond)
	defer t.Stop()
	shown := false
	for {
		select {
		case <-p.stop:
			if shown {
				fmt.Fprint(f, clear)
			}
			return
		case <-t.C:
		}
		if now := p.now.Load(); now != nil {
			fmt.Fprint(f, clear+progressLine(*now))
			shown = true
		}
	}
}

// barWidth is of the bar alone.
const barWidth = 30

func progressLine(p checker.Progress) string {
	full := 0
	if p.Units > 0 {
		full = min(barWidth, p.Done*barWidth/p.Units)
	}
	bar := make([]rune, barWidth)
	for i := range bar {
		bar[i] = '·'
		if i < full {
			bar[i] = '█'
		}
	}
	line := fmt.Sprintf("%s %d of %d", string(bar), p.Done, p.Units)
	if p.Read > 0 {
		line += fmt.Sprintf(", %d MiB of segments", p.Read>>20)
	}
	if p.Again {
		line += ", looking again at what seemed wrong"
	}
	return line
}
