package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
)

// progress is one line on a terminal that is written over again and again. On
// anything else nothing is shown.
type progress struct {
	out    io.Writer // nil if there is no terminal
	prefix string
	last   time.Time
}

func newProgress(w io.Writer) *progress {
	p := &progress{}
	if f, ok := w.(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		p.out = w
	}
	return p
}

// wanted says whether it is time to show something again.
func (p *progress) wanted() bool { return p.out != nil && time.Since(p.last) > 300*time.Millisecond }

func (p *progress) show(line string) {
	if p.out != nil {
		p.last = time.Now()
		fmt.Fprintf(p.out, "\r\x1b[K%s%s", p.prefix, line)
	}
}

// done clears the line.
func (p *progress) done() {
	if p.out != nil {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
