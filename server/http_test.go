package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A proxy on this host, and a name that somebody has pointed to it, are not this host.
func TestProfilesAreNotPassedOn(t *testing.T) {
	h := httpHandler(newMetrics(), func() error { return nil })
	for _, tc := range []struct {
		host, header string
		want         int
	}{
		{"127.0.0.1:8080", "", 200},
		{"127.0.0.1", "", 200},
		{"LocalHost:8080", "", 200},
		{"localhost", "", 200},
		{"[::1]:8080", "", 200},
		{"[::1]", "", 200},
		{"127.0.0.1:8080", "User-Agent", 200},
		{"127.0.0.1:8080", "Forwarded", 404},
		{"127.0.0.1:8080", "X-Forwarded-For", 404},
		{"127.0.0.1:8080", "x-forwarded-host", 404},
		{"localhost", "Via", 404},
		{"", "", 404},
		{"10.0.0.1:8080", "", 404},
		{"kaas-0.kaas-brokers:8080", "", 404},
		{"localhost.example.com:8080", "", 404},
		{"127.0.0.1.example.com", "", 404},
	} {
		req, err := http.NewRequest(http.MethodGet, "/debug/pprof/cmdline", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.RemoteAddr, req.Host = "127.0.0.1:1", tc.host
		if tc.header != "" {
			req.Header.Set(tc.header, "")
		}
		w := &recorder{header: http.Header{}, code: 200}
		if h.ServeHTTP(w, req); w.code != tc.want {
			t.Errorf("%+v: %d", tc, w.code)
		}
	}
}

// pipes is a listener within a bubble.
type pipes struct {
	in   chan net.Conn
	done chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.in:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

type pipeFrom struct {
	net.Conn
	from string
}

func (p pipeFrom) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(p.from), Port: 1} }

// dialHTTP is a new connection from an address, with what it sends. What comes is read by whoever
// reads from it.
func (p *pipes) dialHTTP(t *testing.T, from, text string) net.Conn {
	mine, theirs := net.Pipe()
	p.in <- pipeFrom{theirs, from}
	t.Cleanup(func() { mine.Close() })
	if text != "" {
		if _, err := io.WriteString(mine, text); err != nil {
			t.Fatal(err)
		}
	}
	return mine
}

func get(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n" }

// status reads an answer, and returns 0 if the connection ends.
func status(t *testing.T, c net.Conn) int {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0
	}
	return resp.StatusCode
}

func bubbleHTTP(t *testing.T) *pipes {
	p := &pipes{in: make(chan net.Conn), done: make(chan struct{})}
	h := startHTTP(p, newMetrics(), func() error { return nil }, testLog(t))
	t.Cleanup(h.close)
	return p
}

// Nobody keeps a connection, or what has been gathered for it, by doing nothing; but a profile takes
// the time that it was asked for.
func TestHTTPHasItsTime(t *testing.T) {
	for _, tc := range []struct {
		what, sends string
		least, most time.Duration
		code        int
	}{
		{"half a head", "GET /healthz HTTP/1.1\r\n", httpRead, httpRead, 0},
		{"no body", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n", httpRead, httpRead + time.Second, 200},
		{"silence", get("/healthz"), httpIdle, httpIdle, 200},
		{"a profile", get("/debug/pprof/goroutine?seconds=70"), 70 * time.Second, 70*time.Second + httpIdle, 200},
	} {
		t.Run(tc.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := bubbleHTTP(t).dialHTTP(t, "127.0.0.1", tc.sends)
				began := time.Now()
				if code := status(t, c); code != tc.code {
					t.Errorf("answered %d, want %d", code, tc.code)
				}
				if _, err := io.Copy(io.Discard, c); err != nil {
					t.Error(err)
				}
				if d := time.Since(began); d < tc.least || d > tc.most {
					t.Errorf("the connection ends after %v", d)
				}
			})
		})
	}
}

// Who does not read the metrics that he has asked for keeps others from them for a while, and nobody
// from the probes.
func TestHTTPOfWhoDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bubbleHTTP(t)
		for range mostGathering {
			p.dialHTTP(t, "10.0.0.1", get("/metrics"))
		}
		synctest.Wait() // their answers are on the way
		for path, want := range map[string]int{"/metrics": 503, "/healthz": 200, "/readyz": 200} {
			if code := status(t, p.dialHTTP(t, "10.0.0.2", get(path))); code != want {
				t.Errorf("%s: %d, want %d", path, code, want)
			}
		}
		time.Sleep(httpWrite + time.Second)
		if code := status(t, p.dialHTTP(t, "10.0.0.2", get("/metrics"))); code != 200 {
			t.Errorf("/metrics then: %d", code)
		}
	})
}

// However many connections somebody opens, so many are there, and others' are not among those that
// have to go; a probe is answered even where all come from one address.
func TestHTTPConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bubbleHTTP(t)
		other := p.dialHTTP(t, "10.0.0.2", "")
		var hoarded []net.Conn
		for range 3 * mostHTTP {
			hoarded = append(hoarded, p.dialHTTP(t, "10.0.0.1", get("/metrics")))
		}
		for _, from := range []string{"10.0.0.1", "10.0.0.3"} {
			for _, path := range []string{"/healthz", "/readyz"} {
				if code := status(t, p.dialHTTP(t, from, get(path))); code != 200 {
					t.Errorf("%s from %s: %d", path, from, code)
				}
			}
		}
		if _, err := io.WriteString(other, get("/healthz")); err != nil || status(t, other) != 200 {
			t.Errorf("another's connection is gone: %v", err)
		}
		left := 0
		for i, c := range hoarded {
			if code := status(t, c); code != 0 {
				left++
			} else if i >= 2*mostHTTP+10 {
				t.Errorf("connection %d is closed, one of the last", i)
			}
		}
		if left >= mostHTTP || left < mostHTTP-10 {
			t.Errorf("%d are left", left)
		}
	})
}

// A connection that has ended makes room by itself.
func TestHTTPConnectionsThatEnd(t *testing.T) {
	l := &boundedListener{most: 2}
	a, b := net.Pipe()
	c := func(from string) *boundedConn { return &boundedConn{a, from, l} }
	first, second := c("x"), c("y")
	if l.add(first) != nil || l.add(second) != nil {
		t.Fatal("there is room for two")
	}
	first.Close()
	first.Close()
	b.Close()
	third := c("y")
	if gone := l.add(third); gone != nil || len(l.open) != 2 {
		t.Errorf("%v has to go, %d are open", gone, len(l.open))
	}
	if gone := l.add(c("z")); gone != second {
		t.Error(fmt.Sprint("not the oldest of who has the most: ", gone))
	}
	if strings.Join([]string{l.open[0].from, l.open[1].from}, " ") != "y z" {
		t.Errorf("%v are left", l.open)
	}
}
