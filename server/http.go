package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// httpServer answers probes, metrics and, to peers on this host, profiles.
type httpServer struct {
	srv *http.Server
	wg  sync.WaitGroup
}

// What nobody is given more time for: to ask, to read the answer (a profile has the seconds that it
// takes besides), and to be silent.
const (
	httpRead  = 10 * time.Second
	httpWrite = 30 * time.Second
	httpIdle  = 30 * time.Second
)

// mostGathering bounds how many are told the metrics at once.
const mostGathering = 4

// startHTTP serves on ln. ready tells in one line why partitions are not served: the
// process is healthy before they are.
func startHTTP(ln net.Listener, m *metrics, ready func() error, log *slog.Logger) *httpServer {
	h := &httpServer{srv: &http.Server{
		Handler:           httpHandler(m, ready),
		ReadHeaderTimeout: httpRead,
		ReadTimeout:       httpRead,
		WriteTimeout:      httpWrite,
		IdleTimeout:       httpIdle,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}}
	ln = &boundedListener{Listener: ln, most: mostHTTP}
	h.wg.Go(func() { _ = h.srv.Serve(ln) }) // always ends with ErrServerClosed
	return h
}

func httpHandler(m *metrics, ready func() error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(m, promhttp.HandlerOpts{MaxRequestsInFlight: mostGathering}))
	for path, h := range map[string]http.HandlerFunc{
		"/debug/pprof/": pprof.Index, "/debug/pprof/cmdline": pprof.Cmdline, "/debug/pprof/profile": pprof.Profile,
		"/debug/pprof/symbol": pprof.Symbol, "/debug/pprof/trace": pprof.Trace,
	} {
		mux.Handle(path, loopbackOnly(h))
	}
	return mux
}

// loopbackOnly hides h from other hosts: a profile tells what memory holds.
func loopbackOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !fromHere(r) {
			http.NotFound(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// fromHere reports whether a request comes from this host itself: not by a proxy that runs here,
// nor by a browser that was led here under another name.
func fromHere(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !peer.Addr().Unmap().IsLoopback() {
		return false
	}
	for _, passedOn := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "Via"} {
		if r.Header.Values(passedOn) != nil {
			return false
		}
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	at, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || err == nil && at.Unmap().IsLoopback()
}

func (h *httpServer) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if h.srv.Shutdown(ctx) != nil {
		h.srv.Close()
	}
	h.wg.Wait()
}
