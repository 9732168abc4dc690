package main

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// lines is where whole lines of several writers go, one at a time.
type lines struct {
	mu  sync.Mutex // for what is written
	out io.Writer
}

func (l *lines) say(format string, a ...any) { l.write(fmt.Appendf(nil, format+"\n", a...)) }

func (l *lines) write(b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.out.Write(b) // a closed terminal is no reason to end brokers
}

// prefixed puts a prefix before every line. It is written to by one process.
type prefixed struct {
	prefix string
	to     *lines
	rest   []byte // of a line that has not ended
}

func (p *prefixed) Write(b []byte) (int, error) {
	p.rest = append(p.rest, b...)
	var out []byte
	for {
		line, rest, ended := bytes.Cut(p.rest, []byte("\n"))
		if !ended {
			break
		}
		out = append(append(append(out, p.prefix...), line...), '\n')
		p.rest = rest
	}
	if len(out) > 0 {
		p.to.write(out)
	}
	return len(b), nil
}
