package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
)

// outputFlag adds -o with the formats a command has, the first one its default.
func (a *app) outputFlag(cmd *cobra.Command, formats ...string) {
	output := cmd.Flags().StringP("output", "o", formats[0], fmt.Sprintf("one of %v", formats))
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if a.output = *output; !slices.Contains(formats, a.output) {
			return usagef("-o %s: must be one of %v", a.output, formats)
		}
		return nil
	}
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

// print writes v as JSON or YAML, with the same names in both.
func (a *app) print(v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if a.output == "yaml" {
		if b, err = yaml.JSONToYAML(b); err != nil {
			return err
		}
	}
	_, err = a.out.Write(b)
	return err
}

// list writes one thing after the other, as lines, as a JSON array or as a YAML sequence,
// without holding them. An endless one is flushed at each, and is JSON objects in lines.
type list struct {
	w       *bufio.Writer
	output  string
	endless bool
	n       int
}

func (a *app) newList(endless bool) *list {
	return &list{w: bufio.NewWriter(a.out), output: a.output, endless: endless}
}

func (l *list) line(s string) error {
	l.n++
	return l.write([]byte(s + "\n"))
}

func (l *list) add(v any) (err error) {
	var b []byte
	switch {
	case l.output == "yaml":
		if b, err = json.Marshal([]any{v}); err == nil {
			b, err = yaml.JSONToYAML(b)
		}
	case l.endless:
		if b, err = json.Marshal(v); err == nil {
			b = append(b, '\n')
		}
	default:
		if b, err = json.MarshalIndent(v, "  ", "  "); err == nil {
			b = append([]byte(l.before()), b...)
		}
	}
	if err != nil {
		return err
	}
	l.n++
	return l.write(b)
}

func (l *list) before() string {
	if l.n == 0 {
		return "[\n  "
	}
	return ",\n  "
}

func (l *list) write(b []byte) error {
	_, err := l.w.Write(b)
	if err == nil && l.endless {
		err = l.w.Flush()
	}
	return err
}

// end closes what was opened. An empty list is one, too.
func (l *list) end() error {
	switch {
	case l.endless || l.output == "table":
	case l.n == 0:
		l.w.WriteString("[]\n")
	case l.output == "json":
		l.w.WriteString("\n]\n")
	}
	return l.w.Flush()
}
