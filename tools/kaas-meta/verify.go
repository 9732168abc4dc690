package main

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

var errFaults = errors.New("the volume has faults")

func (a *app) verifyCommand() *cobra.Command {
	deep := false
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check every claim, entry, checksum and chain, and that the segments are there; with --deep every batch in them",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := a.open()
			if err != nil {
				return err
			}
			r, err := verify(v, deep)
			if err != nil {
				return err
			}
			if a.output == "table" {
				r.table(a)
			} else if err := a.print(r); err != nil {
				return err
			}
			if r.Faults > 0 {
				return fmt.Errorf("%w: %d found", errFaults, r.Faults)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&deep, "deep", false, "read the segments too, and check every batch's checksum")
	a.outputFlag(cmd, "table", "json", "yaml")
	return cmd
}

// report is the result of verify.
type report struct {
	VolumeID string                  `json:"volume_id"`
	Sessions int                     `json:"sessions"`
	Sealed   int                     `json:"sealed"`
	Deep     bool                    `json:"deep"` // segments were read
	Streams  []*metalog.Verification `json:"streams"`
	Others   []metalog.Finding       `json:"other_findings,omitempty"`
	Faults   int                     `json:"faults"`
}

func verify(v *substrate.Volume, deep bool) (*report, error) {
	r := &report{VolumeID: v.ID, Deep: deep}
	if err := r.sessions(v); err != nil {
		return nil, err
	}
	streams, err := allStreams(v)
	if err != nil {
		return nil, err
	}
	for _, s := range streams {
		res, err := s.verify()
		if err != nil {
			res = &metalog.Verification{Stream: s.path, Findings: []metalog.Finding{{File: s.path, Fault: true, Detail: err.Error()}}}
		}
		r.Streams = append(r.Streams, res)
		r.Faults += res.Faults()
	}
	r.segments(v, streams)
	r.partitions(v)
	for _, f := range r.Others {
		if f.Fault {
			r.Faults++
		}
	}
	return r, nil
}

// sessions decodes every token. A session without one, or with two, is a fault: it
// could not be told from a sealed one.
func (r *report) sessions(v *substrate.Volume) error {
	es, err := v.ListFresh(substrate.SessionsDir)
	if err != nil {
		return err
	}
	for _, e := range es {
		if substrate.IsTemporary(e.Name) || !e.Dir {
			continue
		}
		r.Sessions++
		dir := substrate.SessionPath(e.Name)
		names, err := v.ListFresh(dir)
		if err != nil {
			r.fault(dir, "%v", err)
			continue
		}
		tokens := 0
		for _, n := range names {
			switch {
			case n.Dir:
				r.Sealed++
			case n.Name == "0" || n.Name == "1":
				tokens++
				r.token(v, path.Join(dir, n.Name))
			}
		}
		if tokens != 1 {
			r.fault(dir, "holds %d tokens, not one; what it led is fenced all the same", tokens)
		}
	}
	return nil
}

// partitions checks that what the cluster knows of is there. Without its directory a
// partition has no stream that could be faulty. A topic is forgotten before its files go, so
// the state is read again after they were missed.
func (r *report) partitions(v *substrate.Volume) {
	topics := func() []*projections.Topic {
		c, err := readCluster(context.Background(), v)
		if err != nil {
			return nil // a fault of the stream, told already
		}
		return c.Topics()
	}
	missing := map[string]error{}
	for _, t := range topics() {
		for i := range t.Partitions {
			dir := path.Dir(partition.ManifestStream(t.ID, int32(i)))
			if _, err := v.ListFresh(dir); isNotExist(err) {
				missing[dir] = err
			}
		}
	}
	if len(missing) == 0 {
		return
	}
	for _, t := range topics() {
		for i := range t.Partitions {
			dir := path.Dir(partition.ManifestStream(t.ID, int32(i)))
			if err := missing[dir]; err != nil {
				r.fault(dir, "the cluster has %s-%d: %v", t.Name, i, err)
			}
		}
	}
}

func (r *report) token(v *substrate.Volume, name string) {
	b, err := v.ReadFile(name)
	if err == nil {
		var id substrate.Identity
		_, err = substrate.DecodeFile(name, substrate.KindSession, b, &id)
	}
	// A living owner moves its token, so one that has just gone is no fault.
	if err != nil && !isNotExist(err) {
		r.fault(name, "%v", err)
	}
}

func (r *report) fault(file, format string, a ...any) {
	r.Others = append(r.Others, metalog.Finding{File: file, Fault: true, Detail: fmt.Sprintf(format, a...)})
}

func (r *report) table(a *app) {
	entries, plugs := 0, 0
	for _, s := range r.Streams {
		entries += s.Entries
		plugs += s.Plugs
	}
	fmt.Fprintf(a.out, "volume %s: %d sessions (%d sealed), %d streams, %d entries, %d plugs\n",
		r.VolumeID, r.Sessions, r.Sealed, len(r.Streams), entries, plugs)
	show := func(f metalog.Finding) {
		word := "note "
		if f.Fault {
			word = "FAULT"
		}
		fmt.Fprintf(a.out, "%s %s: %s\n", word, f.File, f.Detail)
	}
	for _, s := range r.Streams {
		for _, f := range s.Findings {
			show(f)
		}
	}
	for _, f := range r.Others {
		show(f)
	}
	switch {
	case r.Faults > 0:
	case r.Deep:
		fmt.Fprintln(a.out, "sound")
	default:
		fmt.Fprintln(a.out, "sound, as far as looked: what is in the segments is read with --deep")
	}
}
