package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mattn/go-isatty"
	"golang.org/x/sys/unix"
)

// screen is what tables are shown on. The zero value is a file or a pipe: whole lines
// without colours.
type screen struct {
	width  int // columns; 0 for no end
	colour bool
}

// screenOf looks at where the output goes. COLUMNS and NO_COLOR are heeded as usual.
func screenOf(out io.Writer, env func(string) string) screen {
	f, ok := out.(*os.File)
	if !ok || !isatty.IsTerminal(f.Fd()) {
		return screen{}
	}
	s := screen{colour: env("NO_COLOR") == "" && env("TERM") != "dumb"}
	if n, err := strconv.Atoi(env("COLUMNS")); err == nil && n > 0 {
		s.width = n
	} else if ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil {
		s.width = int(ws.Col)
	}
	return s
}

// style is a way to show text on a screen with colours.
type style string

const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
)

func (s screen) paint(st style, text string) string {
	if !s.colour || st == plain || text == "" {
		return text
	}
	return "\x1b[" + string(st) + "m" + text + "\x1b[0m"
}

// cut shortens text to n columns, if that is less than it has.
func cut(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	r := []rune(text)
	return string(r[:max(n-1, 0)]) + "…"
}

const (
	columnGap   = 2
	leastColumn = 6 // a column is not made narrower than that
)

// rows writes lines in columns, the first of them their names. Where a screen is too narrow,
// the widest columns are cut.
func rows(w io.Writer, sc screen, lines ...[]string) error {
	var widths []int
	for _, l := range lines {
		for i, c := range l {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	sc.fit(widths)
	for i, l := range lines {
		st := plain
		if i == 0 {
			st = bold
		}
		if err := sc.row(w, l, widths, st); err != nil {
			return err
		}
	}
	return nil
}

// fit makes columns narrower until they are not wider than the screen, or cannot be.
func (s screen) fit(widths []int) {
	total := columnGap * (len(widths) - 1)
	for _, n := range widths {
		total += n
	}
	for s.width > 0 && total > s.width {
		widest := 0
		for i, n := range widths {
			if n > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= leastColumn {
			return
		}
		widths[widest]--
		total--
	}
}

func (s screen) row(w io.Writer, cells []string, widths []int, st style) error {
	var b strings.Builder
	for i, c := range cells {
		c = cut(c, widths[i])
		b.WriteString(s.paint(st, c))
		if i < len(cells)-1 {
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c)+columnGap))
		}
	}
	_, err := fmt.Fprintln(w, b.String())
	return err
}
