package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/internal/substrate"
)

var errUnfit = errors.New("the volume does not give what kaas needs")

func (a *app) probeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "probe",
		Short: "Try what kaas needs of the volume, in a directory of its own that is removed again, and tell how it is mounted",
		Long: "Try what kaas needs of the volume, in a directory of its own that is removed again, and\n" +
			"tell how it is mounted. It can run beside brokers. It sees what this host sees: run it on\n" +
			"each host. What a server does when it loses power, no probe can tell. See docs/volume.md.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.dir == "" {
				return usagef("--dir is not set: name the volume's directory")
			}
			fs, err := substrate.OpenDir(a.dir)
			if err != nil {
				return err
			}
			return a.probe(fs, fs.Mount)
		},
	}
	a.outputFlag(cmd, "table", "json", "yaml")
	return cmd
}

// probeReport is the result of probe.
type probeReport struct {
	Dir    string           `json:"dir"`
	Mount  *substrate.Mount `json:"mount,omitempty"`
	Checks []probeCheck     `json:"checks"`
	Times  []probeTime      `json:"times"`
	Failed int              `json:"failed"`
}

// Results of a check. A note is worth knowing and no fault.
const (
	resultOK     = "ok"
	resultNote   = "note"
	resultFailed = "FAILED"
)

type probeCheck struct {
	Name   string `json:"name"`
	Result string `json:"result"`
	Found  string `json:"found"`
	For    string `json:"for"` // what kaas does with it
}

// probe tries everything. Each line is printed when it is known, so that a volume which
// hangs shows where.
func (a *app) probe(fs substrate.FS, mount func() (substrate.Mount, error)) error {
	r := &probeReport{Dir: a.dir}
	tell := func(c probeCheck) {
		r.Checks = append(r.Checks, c)
		if c.Result == resultFailed {
			r.Failed++
		}
		a.tell("%-6s  %s: %s (%s)\n", c.Result, c.Name, c.Found, c.For)
	}
	for _, c := range r.mounted(a, mount) {
		tell(c)
	}
	p, err := newProber(fs)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	for _, q := range questions {
		tell(p.ask(q))
	}
	tell(freeSpace(fs))
	r.Times = p.times()
	for _, t := range r.Times {
		a.tell("time    %s\n", t)
	}
	if err := p.end(); err != nil {
		tell(probeCheck{"clean-up", resultFailed, err.Error(), "what was removed is gone"})
	}
	if a.output != "table" {
		if err := a.print(r); err != nil {
			return err
		}
	}
	if r.Failed > 0 {
		return fmt.Errorf("%w: %d checks failed", errUnfit, r.Failed)
	}
	a.tell("every check passed\n")
	return nil
}

// tell prints a line of the table.
func (a *app) tell(format string, args ...any) {
	if a.output == "table" {
		fmt.Fprintf(a.out, format, args...)
	}
}

// nfsOptions are what of an NFS mount is shown, in this order.
var nfsOptions = []string{"vers", "proto", "hard", "soft", "softerr", "timeo", "retrans", "nocto", "noac", "acregmin", "acregmax",
	"acdirmin", "acdirmax", "lookupcache", "local_lock", "sec", "addr"}

// mounted tells how the directory is mounted and what speaks against it.
func (r *probeReport) mounted(a *app, mount func() (substrate.Mount, error)) []probeCheck {
	const why = "an open sees what another host has written, and a call never fails while it may still happen"
	m, err := mount()
	if err != nil {
		return []probeCheck{{"mount", resultNote, "not known: " + err.Error(), why}}
	}
	r.Mount = &m
	a.tell("mount   %s on %s, %s: %s\n", m.Source, m.Point, m.Type, strings.Join(shownOptions(m), ","))
	var out []probeCheck
	if err := m.Unfit(); err != nil {
		out = append(out, probeCheck{"mount", resultFailed, err.Error(), why})
	}
	for _, w := range m.Warnings() {
		out = append(out, probeCheck{"mount", resultNote, w, why})
	}
	switch {
	case len(out) > 0:
	case m.NFS():
		out = append(out, probeCheck{"mount", resultOK, "nothing speaks against its options; that the server exports it with sync cannot be seen from here", why})
	case m.Local():
		out = append(out, probeCheck{"mount", resultNote, m.Type + " is a file system of this host: every broker has to run here", why})
	default:
		out = append(out, probeCheck{"mount", resultNote, m.Type + " is none that kaas is tested on", why})
	}
	return out
}

func shownOptions(m substrate.Mount) (out []string) {
	if !m.NFS() {
		return m.Options
	}
	for _, o := range nfsOptions {
		if v := m.Value(o); v != "" {
			out = append(out, o+"="+v)
		} else if m.Has(o) {
			out = append(out, o)
		}
	}
	return out
}

func freeSpace(fs substrate.FS) probeCheck {
	c := probeCheck{"free space", resultOK, "", "records are refused before the volume is full"}
	n, err := substrate.Free(fs)
	if err != nil {
		c.Result, c.Found = resultNote, "not known, so records are refused only when the volume says that it is full: "+err.Error()
		return c
	}
	c.Found = fmt.Sprintf("%d bytes; a quota may say no before", n)
	return c
}
