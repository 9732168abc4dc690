package check

import (
	"cmp"
	"slices"

	"kaas.dev/kaas/metalog"
)

// Finding is something that is wrong, or worth a word, with what to do about it.
type Finding struct {
	metalog.Finding
	Advice string `json:"advice"`
}

// Counts are what was looked at.
type Counts struct {
	Sessions   int   `json:"sessions"`
	Sealed     int   `json:"sealed"`
	Streams    int   `json:"streams"`
	Entries    int   `json:"entries"`
	Plugs      int   `json:"plugs"`
	Topics     int   `json:"topics"`
	Partitions int   `json:"partitions"`
	Segments   int   `json:"segments"`
	Bytes      int64 `json:"bytes"`            // of records, as the manifests have them
	Unadmitted int64 `json:"unadmitted_bytes"` // in segments' files, which no manifest admits
	InProgress int   `json:"in_progress"`      // files that living brokers are making or removing
}

func (c *Counts) add(d Counts) {
	c.Sessions += d.Sessions
	c.Sealed += d.Sealed
	c.Streams += d.Streams
	c.Entries += d.Entries
	c.Plugs += d.Plugs
	c.Topics += d.Topics
	c.Partitions += d.Partitions
	c.Segments += d.Segments
	c.Bytes += d.Bytes
	c.Unadmitted += d.Unadmitted
	c.InProgress += d.InProgress
}

// Report is the result of Run.
type Report struct {
	VolumeID string `json:"volume_id"`
	Deep     bool   `json:"deep"` // every batch was read
	Counts
	Faults   int       `json:"faults"`
	Notes    int       `json:"notes"`
	Findings []Finding `json:"findings"` // faults first, then by kind and file
	// LeftOff is, by kind, how many findings are counted but not listed.
	LeftOff map[string]int `json:"left_off,omitempty"`
}

// mostFindings is how many of a kind are listed.
const mostFindings = 1000

func (r *Report) add(fs []metalog.Finding, listed map[string]int) {
	for _, f := range fs {
		if f.Fault {
			r.Faults++
		} else {
			r.Notes++
		}
		if listed[f.Kind]++; listed[f.Kind] <= mostFindings {
			r.Findings = append(r.Findings, Finding{f, Kinds[f.Kind].Advice})
			continue
		}
		if r.LeftOff == nil {
			r.LeftOff = map[string]int{}
		}
		r.LeftOff[f.Kind]++
	}
}

func (r *Report) sort() {
	rank := map[bool]int{true: 0, false: 1}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(rank[a.Fault], rank[b.Fault]), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.File, b.File))
	})
}
