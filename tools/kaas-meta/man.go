package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manCommand prints the man page, made of what the commands say of themselves.
func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man",
		Short:  "Print the man page: kaas-meta man >kaas-meta.1",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m := &manual{w: a.out}
			m.page(cmd.Root())
			return m.err
		},
	}
}

// manual writes roff.
type manual struct {
	w   io.Writer
	err error
}

func (m *manual) line(format string, a ...any) {
	if m.err == nil {
		_, m.err = fmt.Fprintf(m.w, format+"\n", a...)
	}
}

// roff is text that roff shows as it is.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}

func (m *manual) text(s string) {
	for l := range strings.Lines(s) {
		m.line("%s", roff(strings.TrimRight(l, "\n")))
		m.line(".br")
	}
}

func (m *manual) page(root *cobra.Command) {
	m.line(`.TH KAAS\-META 1`)
	m.line(".SH NAME")
	m.line("%s \\- %s", roff(root.Name()), roff(root.Short))
	m.line(".SH SYNOPSIS")
	m.line(`.B kaas\-meta`)
	m.line(".RI [ flags ] \" command \" [ arguments ]")
	m.line(".SH DESCRIPTION")
	m.text(root.Long)
	m.line(".SH FLAGS")
	m.flags(root.PersistentFlags())
	m.line(".SH COMMANDS")
	for _, c := range root.Commands() {
		if !c.Hidden && c.Name() != "help" {
			m.command(c)
		}
	}
}

func (m *manual) command(c *cobra.Command) {
	m.line(".SS %s", roff(c.Use))
	if c.Long != "" {
		m.text(c.Long)
	} else {
		m.text(c.Short)
	}
	m.flags(c.LocalNonPersistentFlags())
	for _, sub := range c.Commands() {
		m.line(".TP")
		m.line(".B %s", roff(c.Name()+" "+sub.Use))
		m.text(sub.Short)
	}
}

func (m *manual) flags(fs *pflag.FlagSet) {
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		m.line(".TP")
		m.line(".B %s", roff(name))
		usage := f.Usage
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" && f.DefValue != "0" {
			usage += " (" + f.DefValue + " if not given)"
		}
		m.text(usage)
	})
}
