package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"kaas.dev/kaas/tools/nfslab/lab"
)

const (
	// crashVar has this binary make a lab and end without taking it down.
	crashVar  = "NFSLAB_TEST_CRASH"
	crashCode = 7
)

// common is the lab that most tests share. Tests run one after the other.
var common struct {
	lab   *lab.Lab
	probe string // binary of tools/nfslab/probe
}

func TestMain(m *testing.M) {
	if os.Getenv(crashVar) != "" {
		_, err := lab.Up(context.Background(), lab.Options{Hosts: 1})
		fmt.Println(err)
		os.Exit(crashCode)
	}
	code := m.Run()
	if err := endCommon(); err != nil {
		fmt.Println(err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// need skips the test unless it is wanted. KAAS_NFSLAB=kernel has the kernel's NFS
// server for the common lab, anything else has ganesha.
func need(t *testing.T) {
	t.Helper()
	if os.Getenv("KAAS_NFSLAB") == "" {
		t.Skip("boots hosts that mount real NFS: set KAAS_NFSLAB=1 to run it, as root, after nfslab install")
	}
}

// allow is how long a thing may take that is done within d on a machine with nothing else
// to do. A short run is a change's, on a machine that may be busy with anything.
func allow(d time.Duration) time.Duration {
	if testing.Short() {
		return 5 * d
	}
	return d
}

func wantsKernel() bool { return os.Getenv("KAAS_NFSLAB") == "kernel" }

// bringUp makes a lab that the caller takes down.
func bringUp(t *testing.T, opt lab.Options) *lab.Lab {
	t.Helper()
	began := time.Now()
	l, err := lab.Up(context.Background(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d hosts were up after %v", l.Hosts(), time.Since(began).Round(10*time.Millisecond))
	return l
}

// hosts is the common lab and the probe's binary.
func hosts(t *testing.T) (*lab.Lab, string) {
	t.Helper()
	need(t)
	if common.lab == nil {
		common.lab = bringUp(t, lab.Options{Hosts: 3, Kernel: wantsKernel()})
		var err error
		if common.probe, err = common.lab.Build(t.Context(), "kaas.dev/kaas/tools/nfslab/probe"); err != nil {
			t.Fatal(err)
		}
	}
	l := common.lab
	t.Cleanup(func() {
		if t.Failed() { // it may be in any state
			if err := endCommon(); err != nil {
				t.Error(err)
			}
		}
	})
	return l, common.probe
}

func endCommon() error {
	l := common.lab
	if common.lab = nil; l == nil {
		return nil
	}
	return l.Down(context.Background())
}

// sh runs a command on a host and wants it to end well.
func sh(t *testing.T, h *lab.Host, command string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := h.Exec(ctx, command)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// lines runs a command on a host that prints lines of JSON, and hands them on as they
// come. The channel is closed at the command's end; result then tells of it.
func lines[T any](ctx context.Context, h *lab.Host, command string) (<-chan T, func() error) {
	out, done := make(chan T, 4096), make(chan error, 1)
	r, w := io.Pipe()
	go func() { // ends with the command
		var all bytes.Buffer
		code, err := h.ExecTo(ctx, io.MultiWriter(&all, w), command)
		if err == nil && code != 0 {
			err = fmt.Errorf("%s: %s: code %d: %s", h.Name(), command, code, all.String())
		}
		w.CloseWithError(err)
		done <- err
	}()
	go func() { // ends with the other
		defer close(out)
		defer func() { _, _ = io.Copy(io.Discard, r) }()
		dec := json.NewDecoder(r)
		for {
			var v T
			if dec.Decode(&v) != nil {
				return
			}
			out <- v
		}
	}()
	return out, func() error { return <-done }
}

// all collects what lines hands on.
func all[T any](ctx context.Context, h *lab.Host, command string) ([]T, error) {
	ch, result := lines[T](ctx, h, command)
	var out []T
	for v := range ch {
		out = append(out, v)
	}
	return out, result()
}

// quantiles sorts ds and tells the median, the 99th percentile and the worst.
func quantiles(ds []time.Duration) (p50, p99, worst time.Duration) {
	slices.Sort(ds)
	at := func(q float64) time.Duration {
		return ds[min(len(ds)-1, int(q*float64(len(ds))))].Round(time.Millisecond)
	}
	return at(0.5), at(0.99), at(1)
}
