package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
)

// intention is a difference that is there on purpose. Its fields are regular expressions, of
// the whole; an empty one is met by anything.
type intention struct {
	script, api, path string
	kafka, kaas       string // the values
	what, why         string // for the page
}

func (i *intention) covers(d *difference) bool {
	return whole(i.script, d.script+": "+d.step) && whole(i.api, d.api) && whole(i.path, d.path) && whole(i.kafka, d.kafka) && whole(i.kaas, d.kaas)
}

var compiled = map[string]*regexp.Regexp{}

func whole(re, s string) bool {
	if re == "" {
		return true
	}
	if compiled[re] == nil {
		compiled[re] = regexp.MustCompile(`(?s)^(?:` + re + `)$`)
	}
	return compiled[re].MatchString(s)
}

// report is what a run has come to.
type report struct {
	compared int
	took     time.Duration
	met      []int // times that each intention was met
	others   []difference
	stale    []intention // were not met
	missed   []string    // versions that no script asks for
}

// judge tells differences that are intended from others.
func judge(found []difference, list []intention) *report {
	r := &report{met: make([]int, len(list))}
	for _, d := range found {
		if i := covering(list, &d); i >= 0 {
			r.met[i]++
		} else {
			r.others = append(r.others, d)
		}
	}
	for i, n := range r.met {
		if n == 0 {
			r.stale = append(r.stale, list[i])
		}
	}
	return r
}

func covering(list []intention, d *difference) int {
	for i := range list {
		if list[i].covers(d) {
			return i
		}
	}
	return -1
}

// print tells the report; its error is that something is not as intended.
func (r *report) print(out io.Writer) error {
	fmt.Fprintf(out, "%d answers compared in %v\n", r.compared, r.took.Round(time.Second))
	told := map[string]int{}
	for i, n := range r.met {
		told[intended[i].what] += n
	}
	for _, in := range intended {
		if n := told[in.what]; n > 0 {
			fmt.Fprintf(out, "intended, %d times: %s\n", n, in.what)
			delete(told, in.what)
		}
	}
	printDifferences(out, r.others)
	for _, in := range r.stale {
		fmt.Fprintf(out, "STALE intention, not met: %s (%s)\n", in.what, strings.Join([]string{in.script, in.api, in.path, in.kafka, in.kaas}, "; "))
	}
	for _, m := range r.missed {
		fmt.Fprintf(out, "NOT ASKED: %s\n", m)
	}
	if len(r.others)+len(r.stale)+len(r.missed) > 0 {
		return errDiffer
	}
	return nil
}

// elements are those of lists, in a path.
var elements = regexp.MustCompile(`\[[^\]]*\]`)

// printDifferences prints those that differ only in where they were met together.
func printDifferences(out io.Writer, ds []difference) {
	where := map[difference][]string{}
	var order []difference
	for _, d := range ds {
		key := d
		key.step = ""
		key.path = elements.ReplaceAllString(d.path, "[]")
		key.api, _, _ = strings.Cut(d.api, " ")
		if where[key] == nil {
			order = append(order, key)
		}
		at := strings.TrimPrefix(d.api, key.api+" ") + " " + d.step
		if es := elements.FindAllString(d.path, -1); len(es) > 0 {
			at = strings.Join(es, "") + " " + at
		}
		where[key] = append(where[key], at)
	}
	for _, d := range order {
		at := where[d]
		fmt.Fprintf(out, "DIFFERENT %s: %s%s\n\tkafka %s\n\tkaas  %s\n\t%d times: %s\n", d.script, d.api, d.path, short(d.kafka), short(d.kaas), len(at), short(strings.Join(at, "; ")))
	}
}

func short(s string) string {
	if len(s) > 400 {
		return s[:400] + "…"
	}
	return s
}
